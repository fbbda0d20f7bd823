"""Runs a vacuum that kills its process before one of its changes; see `killed_runs`. Blocks of the chain are small.

Arguments: clock_ms, step, url. It calls `note` for each change that it comes to.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_maintenance import run
from tests.faults.killed_runs import serve
from tests.maintenance.old_chain import small_blocks


def run_until_killed(note: Callable[[], object], clock_ms: int, step: int, url: str) -> int:
    os.fsync = lambda fd: None
    patch: Any = pytest.MonkeyPatch()
    small_blocks(patch)
    kill_at(every_change(url), "before", step, reads=False, counted=note)
    return run("vacuum", clock_ms, clock_ms, url)


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
