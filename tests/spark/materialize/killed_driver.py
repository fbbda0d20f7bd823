"""A driver of materialize that kills itself at a call of DeltaTable: python -m … METHOD before|after COUNT ARGS

It kills its process group, and so its JVM too, as when the machine goes.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sparklog.cli.main import run_job
from sparklog.spark.materialize.delta_table import DeltaTable


def die_at(method: str, when: str, count: int) -> None:
    """Make the method kill this process group before or after its work."""
    work, calls = getattr(DeltaTable, method), 0

    def deadly(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if when == "after":
            work(*given)
        if calls == count:
            os.killpg(0, signal.SIGKILL)
        return work(*given) if when == "before" else None

    setattr(DeltaTable, method, deadly)


if __name__ == "__main__":
    die_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(run_job("materialize", sys.argv[4:]))
