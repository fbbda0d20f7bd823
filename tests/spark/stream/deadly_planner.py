"""The planner of a driver with the JAR, which kills the driver at a step of a micro-batch, as killed_driver.py says.

python -m tests.spark.stream.deadly_planner PROTOCOL        in place of sparklog.spark.planner
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

from sparklog.spark.planner import planner
from tests.spark.stream.killed_driver import perhaps_die

_STEPS = {"latestOffset": "stream_end", "partitions": "stream_tasks", "commit": "commit_micro_batch"}


def python_of(folder: Path) -> Path:
    """A Python for Spark whose planner is this one."""
    python = folder / "deadly-python"
    planned = f'case "$2" in sparklog.spark.planner) exec {sys.executable} -m {__name__} "$3";; esac'
    python.write_text(f'#!/bin/sh\n{planned}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def _deadly(step: str, answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    calls = 0

    def answer_or_die(payload: bytes) -> bytes:
        nonlocal calls
        calls += 1
        batch_id = json.loads(payload).get("properties", {}).get("streaming.sql.batchId")
        number = calls if batch_id is None else int(batch_id)
        perhaps_die(step, "before", number)
        reply = answer(payload)
        perhaps_die(step, "after", number)
        return reply

    return answer_or_die


if __name__ == "__main__":
    for step, name in _STEPS.items():
        planner._REQUESTS[name] = _deadly(step, planner._REQUESTS[name])
    runpy.run_module("sparklog.spark.planner", run_name="__main__", alter_sys=True)
