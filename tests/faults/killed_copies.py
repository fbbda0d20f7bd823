"""Runs an append that kills its process before or after a change of a store; see `killed_runs`.

Arguments: moment, step, url. The metadata is copied to other stores, so some of the changes are those of copies. It
calls `note` once its append is acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa

import sparklog
from tests.faults.deadly_calls import every_change, kill_at
from tests.faults.killed_runs import serve


def run(note: Callable[[], object], moment: str, step: int, url: str) -> int:
    os.fsync = lambda fd: None
    with sparklog.connect(url) as cluster:
        kill_at(every_change(url), moment, step, reads=False)
        cluster.append("t", pa.table({"value": ["killed"]}))
        note()
    return 0


if __name__ == "__main__":
    serve(run)
