"""Runs maintenance jobs that kill themselves (SIGKILL) at one change of the store, each in a process of its own.

    python -m tests.faults.killed_maintenance

One request a line on stdin: "JOB CLOCK_MS NOW_MS STEP ROOT". A child is forked (all is imported once), runs the job
on the cluster at ROOT with a standing clock, and dies before its STEP-th change: a write into an upload, a publish, a
delete, a clean-up of uploads. Answer: the child's exit status as `os.waitpid` gives it; 0 if there is no such step.

Reads are not counted: they change nothing, so a kill at one leaves the store as a kill at the next change does.
"""

from __future__ import annotations

import io
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console

from sparklog.spark.retention_job import run_retention
from sparklog.spark.roll_job import run_roll
from sparklog.spark.vacuum_job import run_vacuum
from sparklog.storage.local import LocalStore, LocalUpload
from tests.spark.maintained_log import StandingClock

CHANGES: tuple[tuple[type, str], ...] = (
    (LocalUpload, "write"),
    (LocalUpload, "publish"),
    (LocalStore, "delete"),
    (LocalStore, "remove_abandoned"),
)


def kill_at(step: int) -> None:
    """Let the process die before the `step`-th change from now."""
    steps = itertools.count()

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args)

        return wrapper

    for kind, name in CHANGES:
        setattr(kind, name, deadly(getattr(kind, name)))


def run(job: str, clock_ms: int, now_ms: int, root: str) -> int:
    common: dict[str, Any] = {
        "now_ms": now_ms,
        "clock": StandingClock(clock_ms),
        "console": Console(file=io.StringIO()),
    }
    match job:
        case "roll":
            return run_roll(root, everything=True, **common).exit_code
        case "retention":
            return run_retention(root, **common).exit_code
        case _:
            return run_vacuum(root, **common).exit_code


def main() -> None:
    for line in sys.stdin:
        job, clock_ms, now_ms, step, root = line.rstrip("\n").split(" ", 4)
        child = os.fork()
        if child == 0:
            status = 99
            try:
                os.fsync = lambda fd: None
                kill_at(int(step))
                status = run(job, int(clock_ms), int(now_ms), root)
            finally:
                os._exit(status)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
