"""Where the temporary folders of a run go: into memory if there is room, as most tests wait for the disk otherwise.

A campaign stays on the disk. So does a run with --basetemp or PYTEST_DEBUG_TEMPROOT, which say where.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_IN_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 4 << 30  # a whole run takes a few hundred MiB, and HDFS wants to see room


def quick_folder() -> Path | None:
    """A file system in memory with room, in which programs may run; None if this machine has none."""
    try:
        found = os.statvfs(_IN_MEMORY)
    except OSError:
        return None
    if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < _ROOM_BYTES:
        return None
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
