"""The number of files and sockets that this process may have open."""

from __future__ import annotations

import resource


def most_open_files() -> int | None:
    """Raise this process's limit of open files to its hard limit, and return it; None if it is unlimited."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
    return None if highest == resource.RLIM_INFINITY else highest
