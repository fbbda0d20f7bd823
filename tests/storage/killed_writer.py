"""A process that writes one object and kills itself (SIGKILL) at one system call of it.

    python killed_writer.py ROOT KEY PIECES STEP MOMENT

PIECES bodies of one upload; STEP counts the system calls of the put from 0; MOMENT is before, half (a write
that wrote half of its bytes) or after. Ends with 0 if there is no such step.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from sparklog.storage.local import LocalStore

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


def main() -> None:
    root, key, pieces, step, moment = sys.argv[1:]
    store = LocalStore(root)
    kill_at(int(step), moment)
    with store.upload(key) as upload:
        for _ in range(int(pieces)):
            upload.write(PIECE)
        upload.publish()


if __name__ == "__main__":
    main()
