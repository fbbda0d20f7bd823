"""Runs maintenance jobs that kill themselves (SIGKILL) at one change of the store, each in a process of its own.

    python -m tests.faults.killed_maintenance

One request a line on stdin: "JOB CLOCK_MS NOW_MS STEP URL". A child is forked (all is imported once), runs the job
on the cluster at URL with a standing clock, and dies before its STEP-th change. Answer: "STATUS CHANGES", the child's
exit status as `os.waitpid` gives it, and how many changes it came to before it ended.

Clients of S3 and HDFS own threads, which a fork does not take along: each child makes its own, the parent has none.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from functools import partial
from typing import Any

from rich.console import Console

from sparklog.maintenance.retention import run_retention
from sparklog.maintenance.roll import run_roll
from sparklog.maintenance.vacuum import run_vacuum
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.maintenance.maintained_log import StandingClock


def run(job: str, clock_ms: int, now_ms: int, url: str) -> int:
    common: dict[str, Any] = {
        "now_ms": now_ms,
        "clock": StandingClock(clock_ms),
        "console": Console(file=io.StringIO()),
    }
    match job:
        case "roll":
            return run_roll(url, everything=True, **common).exit_code
        case "retention":
            return run_retention(url, **common).exit_code
        case _:
            return run_vacuum(url, **common).exit_code


def main() -> None:
    import_clients()
    for line in sys.stdin:
        job, clock_ms, now_ms, step, url = line.rstrip("\n").split(" ", 4)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            status = 99
            try:
                os.fsync = lambda fd: None
                counted = partial(os.write, writes, b".")
                kill_at(every_change(url), "before", int(step), reads=False, counted=counted)
                status = run(job, int(clock_ms), int(now_ms), url)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writes)
        with os.fdopen(reads, "rb") as changes:
            count = len(changes.read())
        print(os.waitpid(child, 0)[1], count, flush=True)


if __name__ == "__main__":
    main()
