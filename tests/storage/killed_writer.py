"""Writes objects in processes that kill themselves at one system call of it; see `tests.faults.killed_runs`.

Arguments: root, key, pieces, step, moment. So many bodies are written in one upload; `step` counts the system calls of
the put from 0; `moment` is before, half (a write that wrote half of its bytes) or after.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from sparklog.storage.local.store import LocalStore
from tests.faults.killed_runs import serve

CALLS = ("open", "write", "fsync", "close", "link", "unlink", "mkdir")
PIECE = b"0123456789" * 100


def kill_at(step: int, moment: str) -> None:
    """Let the process die at the `step`-th of `CALLS` from now."""
    steps = itertools.count()

    def deadly(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if next(steps) != step:
                return call(*args, **kwargs)
            if moment == "half" and name == "write":
                call(args[0], args[1][: len(args[1]) // 2])
            try:
                return call(*args, **kwargs) if moment == "after" else None
            finally:
                os.kill(os.getpid(), signal.SIGKILL)

        return wrapper

    for name in CALLS:
        setattr(os, name, deadly(name, getattr(os, name)))


def write(note: Callable[[], object], root: str, key: str, pieces: int, step: int, moment: str) -> int:
    store = LocalStore(root)
    kill_at(step, moment)
    with store.upload(key) as upload:
        for _ in range(pieces):
            upload.write(PIECE)
        upload.publish()
    return 0


if __name__ == "__main__":
    serve(write)
