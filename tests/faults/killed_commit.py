"""Runs an append that kills its process (SIGKILL) before or after one call of the store, each in a process of its own.

    python -m tests.faults.killed_commit

One request a line on stdin: "MOMENT STEP INLINE URL". A child is forked (all is imported once), appends a record to
each partition under COMMAND_ID (by reference if there are more than INLINE), writes a snapshot, and dies before or
after its STEP-th call of the store. Answer: "STATUS ACKNOWLEDGED", the child's exit status as `os.waitpid` gives it
(0 if there is no such step) and 1 if it was told that its append landed.

Clients of S3 and HDFS own threads, which a fork does not take along: each child makes its own, the parent has none.
"""

from __future__ import annotations

import os
import sys
import traceback

import pyarrow as pa

import sparklog
from sparklog.chain import committer, group
from sparklog.client import cluster as cluster_module
from sparklog.core.types import CommandId
from tests.faults.deadly_calls import every_call, import_clients, kill_at

COMMAND_ID = CommandId("ab" * 16)
PARTITIONS = 3


def rows(value: str) -> pa.Table:
    """A record for each partition."""
    return pa.table({"value": [value] * PARTITIONS, "partition": pa.array(range(PARTITIONS), pa.int32())})


def run(moment: str, step: int, inline: int, url: str, told: int) -> None:
    os.fsync = lambda fd: None
    setattr(cluster_module, "new_command_id", lambda: COMMAND_ID)  # noqa: B010
    committer.SNAPSHOT_EVERY = 1
    setattr(group, "SLICES_INLINE", inline)  # noqa: B010
    with sparklog.connect(url) as cluster:
        kill_at(every_call(url), moment, step, reads=True)
        cluster.append("t", rows("killed"))
        os.write(told, b"1")


def main() -> None:
    import_clients()
    for line in sys.stdin:
        moment, step, inline, url = line.rstrip("\n").split(" ", 3)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            status = 99
            try:
                run(moment, int(step), int(inline), url, writes)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writes)
        acknowledged = os.read(reads, 1)
        os.close(reads)
        print(os.waitpid(child, 0)[1], int(acknowledged or b"0"), flush=True)


if __name__ == "__main__":
    main()
