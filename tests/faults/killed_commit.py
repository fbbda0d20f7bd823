"""Runs an append that kills its process before or after a call of the store; see `killed_runs`.

Arguments: moment, step, inline, url. It appends a record to each partition under COMMAND_ID (by reference if there are
more than `inline`), writes a snapshot, and dies before or after its `step`-th call of the store. It calls `note` once
its append is acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa

import sparklog
from sparklog.chain.commit import command_group
from sparklog.chain.snapshot import snapshot_writer
from sparklog.client.plans import plan_and_upload as upload_module
from sparklog.core.types import CommandId
from tests.faults.deadly_calls import every_call, import_clients, kill_at
from tests.faults.killed_runs import serve

COMMAND_ID = CommandId("ab" * 16)
PARTITIONS = 3


def rows(value: str) -> pa.Table:
    """One record for each partition."""
    return pa.table({"value": [value] * PARTITIONS, "partition": pa.array(range(PARTITIONS), pa.int32())})


def run(note: Callable[[], object], moment: str, step: int, inline: int, url: str) -> int:
    os.fsync = lambda fd: None
    setattr(upload_module, "new_command_id", lambda: COMMAND_ID)  # noqa: B010
    snapshot_writer.SNAPSHOT_EVERY = 1
    setattr(command_group, "SLICES_INLINE", inline)  # noqa: B010
    with sparklog.connect(url) as cluster:
        kill_at(every_call(url), moment, step, reads=True)
        cluster.append("t", rows("killed"))
        note()
    return 0


if __name__ == "__main__":
    import_clients()
    serve(run)
