"""A process that writes, elects, takes snapshots, notes the state after each step, and dies; see `killed_runs`.

Arguments: step, url, file. What its state says after each commit is appended to the file, as a digest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.commands import Election, ElectLeaders, MoveRecoveryPoint
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, PartitionIndex, StoreId
from tests.core.state_contents import contents
from tests.faults.deadly_calls import every_change, import_clients, kill_at
from tests.faults.killed_runs import serve


def digest_of(state: ClusterState) -> str:
    """What the whole state says, in a few characters."""
    return f"{state.n} {hashlib.sha256(repr(sorted(contents(state).items())).encode()).hexdigest()}"


def work(cluster: Cluster, note_state: Callable[[], None]) -> None:
    """Everything that leaves a trace in producers, applications, epochs and recovery points."""
    producer = cluster.allocate_producer()
    topic_id = cluster.connection.follower.state.topic_ids["t"]
    for number, leader in enumerate(("b", "c", "a", "b")):
        rows = pa.table({"value": [f"{number}"] * 2, "partition": pa.array([0, 0], pa.int32())})
        cluster.append("t", rows, producer=(*producer, 2 * number))
        note_state()
        cluster.append("t", pa.table({"value": ["x", "y", "z"]}), application=("job", number))
        note_state()
        cluster.submit(ElectLeaders((Election(topic_id, PartitionIndex(number % 2), StoreId(leader)),)))
        note_state()
        if number == 1:
            cluster.connection.committer.snapshots.write()
            state = cluster.connection.follower.state
            store = state.stores[StoreId("a")]
            cluster.submit(MoveRecoveryPoint(store.store, store.registration, ObjectNumber(1), state.n))
            note_state()


def run_until_killed(note: Callable[[], object], step: int, url: str, file: str) -> int:
    os.fsync = lambda fd: None
    with sparklog.connect(url) as cluster, Path(file).open("a") as digests:

        def note_state() -> None:
            print(digest_of(cluster.connection.follower.state), file=digests, flush=True)

        kill_at(every_change(url), "before", step, reads=False, counted=note)
        work(cluster, note_state)
        os._exit(0)


if __name__ == "__main__":
    import_clients()
    serve(run_until_killed)
