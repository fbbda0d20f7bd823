"""Runs that may kill their own process (SIGKILL), each in a process of its own. A test asks for one at a time.

    python -m MODULE, whose main calls `serve`

Everything is imported once, and a child is forked for each request: a JSON list of arguments, on a line of stdin. The
answer on stdout is "STATUS NOTES": the child's status as `os.waitpid` gives it, and how often it called `note`.

Clients of S3 and HDFS own threads, which a fork loses: each child makes its own clients, and the parent has none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[2]

# Called with `note` and the arguments of a request; returns the exit code. Notes outlive the process.
Run = Callable[..., int]


def serve(run: Run) -> None:
    """Answer requests until stdin ends."""
    import tests.kit.pandas_hidden  # noqa: F401  else each child would import pandas

    for line in sys.stdin:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            status = 99
            try:
                status = run(partial(os.write, writes, b"."), *json.loads(line))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writes)
        with os.fdopen(reads, "rb") as noted:
            notes = len(noted.read())
        print(os.waitpid(child, 0)[1], notes, flush=True)


class Ended(NamedTuple):
    """How a run ended: killed, or with exit code 0; and how often it called `note` before."""

    killed: bool
    notes: int


class KilledRuns:
    """The process that serves `module`, with this process's environment. Use it as a context manager."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> KilledRuns:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()

    def __call__(self, *arguments: Any) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        status, notes = map(int, self._process.stdout.readline().split())
        assert status in (0, signal.SIGKILL), f"a run with {arguments} ended with {status}"
        return Ended(status != 0, notes)
