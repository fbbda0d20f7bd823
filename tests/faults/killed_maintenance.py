"""Runs maintenance jobs that kill their process at one change of the store; see `killed_runs`.

Arguments: job, clock_ms, now_ms, step, url. The job runs on the cluster at `url` with a stopped clock, and dies before
its `step`-th change. It calls `note` for each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from sparklog.maintenance import job_frame
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_runs import serve
from tests.kit.hand_clock import HandClock
from tests.kit.silent_console import SILENT
from tests.maintenance.keyed_log import DictShuffle


def run(job: str, clock_ms: int, now_ms: int, url: str) -> int:
    """Run a job and return its exit code.

    It commits one command after the other, so that its changes can be counted: commands that wait at the same time may
    or may not share an entry.
    """
    common: dict[str, Any] = {
        "now_ms": now_ms,
        "clock": HandClock(clock_ms),
        "console": SILENT,
    }
    with patch.object(job_frame, "COMMITS_AT_ONCE", 1):
        match job:
            case "roll":
                return run_roll(url, everything=True, **common).exit_code
            case "compaction":
                return run_compaction(url, shuffle=DictShuffle(), everything=True, **common).exit_code
            case "retention":
                return run_retention(url, **common).exit_code
            case _:
                return run_vacuum(url, **common).exit_code


def run_until_killed(note: Callable[[], object], job: str, clock_ms: int, now_ms: int, step: int, url: str) -> int:
    os.fsync = lambda fd: None
    kill_at(every_change(url), "before", step, reads=False, counted=note)
    return run(job, clock_ms, now_ms, url)


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
