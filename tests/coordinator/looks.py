"""Waits for the looks at stores that a process has begun."""

from __future__ import annotations

import threading


def wait_for_looks() -> None:
    """Return once each look has ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("sparklog-look-"):
            thread.join(60)
            assert not thread.is_alive()
