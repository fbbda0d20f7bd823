"""Runs recovery in a process that kills itself at one change of a store; see `killed_runs`.

Arguments: step, url. The process dies before its `step`-th change, and calls `note` for each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from sparklog.maintenance.verify.recovery_job import run_recovery
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_runs import serve
from tests.kit.silent_console import SILENT


def run(url: str) -> int:
    """Run recovery, and return its exit code."""
    return run_recovery(url, console=SILENT).exit_code


def run_until_killed(note: Callable[[], object], step: int, url: str) -> int:
    os.fsync = lambda fd: None
    kill_at(every_change(url), "before", step, reads=False, counted=note)
    return run(url)


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
