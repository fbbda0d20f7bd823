"""Runs an append that kills its process (SIGKILL) before or after one call of the store, each in a process of its own.

    python -m tests.faults.killed_commit

One request a line on stdin: "MOMENT STEP INLINE ROOT". A child is forked (all is imported once), appends a record to
each partition under COMMAND_ID (by reference if there are more than INLINE), writes a snapshot, and dies before or
after its STEP-th call of the store. Answer: "STATUS ACKNOWLEDGED", the child's exit status as `os.waitpid` gives it
(0 if there is no such step) and 1 if it was told that its append landed.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import sparklog
from sparklog.chain import committer
from sparklog.client import cluster as cluster_module
from sparklog.core.types import CommandId
from sparklog.storage.local import LocalStore, LocalUpload

COMMAND_ID = CommandId("ab" * 16)
PARTITIONS = 3
CALLS: tuple[tuple[type, str], ...] = (
    (LocalStore, "put_if_absent"),
    (LocalStore, "upload"),
    (LocalStore, "get"),
    (LocalStore, "get_ranges"),
    (LocalStore, "size"),
    (LocalStore, "first_key_after"),
    (LocalStore, "list_keys"),
    (LocalUpload, "write"),
    (LocalUpload, "publish"),
)


def kill_at(moment: str, step: int) -> None:
    """Let the process die before or after the `step`-th call from now."""
    steps = itertools.count()

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            last = next(steps) == step
            if last and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args)
            finally:
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)

        return wrapper

    for kind, name in CALLS:
        setattr(kind, name, deadly(getattr(kind, name)))


def rows(value: str) -> pa.Table:
    """A record for each partition."""
    return pa.table({"value": [value] * PARTITIONS, "partition": pa.array(range(PARTITIONS), pa.int32())})


def run(moment: str, step: int, inline: int, root: str, told: int) -> None:
    os.fsync = lambda fd: None
    setattr(cluster_module, "new_command_id", lambda: COMMAND_ID)  # noqa: B010
    committer.SNAPSHOT_EVERY = 1
    setattr(committer, "SLICES_INLINE", inline)  # noqa: B010
    with sparklog.connect(root) as cluster:
        kill_at(moment, step)
        cluster.append("t", rows("killed"))
        os.write(told, b"1")


def main() -> None:
    for line in sys.stdin:
        moment, step, inline, root = line.rstrip("\n").split(" ", 3)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            status = 99
            try:
                run(moment, int(step), int(inline), root, writes)
                status = 0
            finally:
                os._exit(status)
        os.close(writes)
        acknowledged = os.read(reads, 1)
        os.close(reads)
        print(os.waitpid(child, 0)[1], int(acknowledged or b"0"), flush=True)


if __name__ == "__main__":
    main()
