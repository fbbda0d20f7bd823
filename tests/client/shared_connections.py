"""The connections that a process shares, forgotten between tests."""

from __future__ import annotations

from sparklog.client import connection


def forget_shared() -> None:
    """The next use of `shared` opens its cluster anew."""
    with connection._shared_lock:
        connection._shared.clear()
