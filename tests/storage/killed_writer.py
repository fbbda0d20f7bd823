"""Writes objects in processes that kill themselves (SIGKILL) at one system call of it.

    python -m tests.storage.killed_writer

One request a line on stdin: "PIECES STEP MOMENT KEY ROOT". A child is forked (all is imported once) and writes PIECES
bodies in one upload; STEP counts the system calls of the put from 0; MOMENT is before, half (a write that wrote half of
its bytes) or after. Answer: the child's exit status as `os.waitpid` gives it, 0 if there is no such step.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from sparklog.storage.local.store import LocalStore

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


def write(root: str, key: str, pieces: int, step: int, moment: str) -> None:
    store = LocalStore(root)
    kill_at(step, moment)
    with store.upload(key) as upload:
        for _ in range(pieces):
            upload.write(PIECE)
        upload.publish()


def main() -> None:
    for line in sys.stdin:
        pieces, step, moment, key, root = line.rstrip("\n").split(" ", 4)
        child = os.fork()
        if child == 0:
            status = 99
            try:
                write(root, key, int(pieces), int(step), moment)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
