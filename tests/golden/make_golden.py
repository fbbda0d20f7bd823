"""Makes the golden cluster of the present format: `python -m tests.golden.make_golden`.

Run it once per format version, never to make a test pass: what older versions wrote must stay readable.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa

from sparklog.chain.commit.committer import DEFAULT_TIMEOUT_MS
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.client.commits.commit_write import commit_append
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.core.commands import (
    Application,
    ClaimCoordination,
    CommitOffsets,
    DeleteGroups,
    FenceStore,
    JoinGroup,
    LeaveGroup,
    ResignCoordination,
)
from sparklog.core.groups.membership import OffsetToCommit
from sparklog.core.state import FORMAT, ClusterState
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex, StoreId
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.verify.recovery_job import run_recovery
from tests.client.mirrored_topic import MirroredTopic
from tests.maintenance.keyed_log import DictShuffle

GOLDEN = Path(__file__).parent / f"format-{FORMAT}"


def rows(first: int, count: int) -> pa.Table:
    """Rows with every written column, null keys, tombstones and repeated header keys among them."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "key": pa.array([None if at % 5 == 0 else f"key-{at % 7}" for at in numbers], pa.string()),
            "value": pa.array([None if at % 11 == 0 else f"value {at} " * 4 for at in numbers], pa.string()),
            "partition": pa.array([at % 2 for at in numbers], pa.int32()),
            "timestamp": pa.array(
                [1_357_000_000_000_000 + at * 1_000_003 for at in numbers], pa.timestamp("us", "UTC")
            ),
            "headers": pa.array(
                [[("h", b"1"), ("h", str(at).encode())] if at % 3 == 0 else None for at in numbers],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def make(root: Path) -> None:
    """A cluster with all that this format has: sealed segments, append objects, a snapshot, producers, applications,
    replicas on three stores under their second leader, a coordinator that another one followed and that has resigned, a
    compacted topic, recovery points, groups with and without members, a streaming query with two runs, and two mirrors
    of Kafka topics, of which one was promoted.
    """
    url = str(root / "cluster")
    init_cluster(url)
    with connect(url) as cluster:
        cluster.create_topic("golden", partitions=2, config={"retention.ms": -1, "segment.bytes": 2000})
        cluster.create_topic("by-append-time", config={"message.timestamp.type": "LogAppendTime"})
        cluster.append("golden", rows(0, 60))
        cluster.append("golden", rows(60, 60), compression="lz4", application=("app", 7))
        run_roll(url, everything=True)
        cluster.append("by-append-time", pa.table({"value": ["1", "2"]}))
        cluster.connection.follower.catch_up()
        cluster.connection.committer.snapshots.write()
        cluster.append("golden", rows(120, 40), compression="none")
        replicate(cluster)
        coordinate(cluster)
        maintain(cluster)
        consume(cluster)
        stream(cluster)
        mirror(cluster)
        producer = cluster.allocate_producer()
        cluster.append("golden", rows(160, 1), producer=(*producer, 0))
        (root / "expected.json").write_text(json.dumps(contents(cluster), indent=1) + "\n")


def coordinate(cluster: Cluster) -> None:
    """Two coordinators, the second one in a snapshot; then none."""
    committer = cluster.connection.committer
    for epoch in (1, 2):
        claim = ClaimCoordination(epoch, f"host:{epoch}-0123abcd", f"http://127.0.0.1:740{epoch}")
        committer.commit_here(committer.begin(claim))
    committer.snapshots.write()
    committer.commit_here(committer.begin(ResignCoordination(2)))


def maintain(cluster: Cluster) -> None:
    """A compacted segment and the recovery points, in a snapshot; a second pass of the cleaner behind it."""
    url = cluster.connection.url
    cluster.create_topic("keyed", config={"cleanup.policy": "compact", "delete.retention.ms": 86_400_000})
    compact = partial(run_compaction, url, shuffle=DictShuffle(), everything=True, topics=["keyed"])
    for number in range(2):
        keys = [f"key-{at % 7}" for at in range(20)]
        values = [None if at == 19 else f"value {number}-{at}" for at in range(20)]
        cluster.append("keyed", pa.table({"key": keys, "value": values}))
        run_roll(url, everything=True, topics=["keyed"])
        compact()
        if number == 0:
            run_recovery(url)
            cluster.connection.follower.catch_up()
            cluster.connection.committer.snapshots.write()


def consume(cluster: Cluster) -> None:
    """Groups whose members came and went, in a snapshot, and in entries after it."""
    committer = cluster.connection.committer
    chain_id, topic = cluster.connection.follower.state.chain_id, cluster.describe("golden").topic_id

    def offset(partition: int, number: int, metadata: str = "") -> OffsetToCommit:
        return OffsetToCommit(topic, PartitionIndex(partition), Offset(number), LeaderEpoch(0), metadata)

    for command in (
        CommitOffsets(chain_id, "gone", (offset(0, 1),)),
        CommitOffsets(chain_id, "simple", (offset(0, 9, "text ö"), offset(1, 4))),
        JoinGroup("billing", "a-0", ("golden", "keyed", "later"), 45_000),
        JoinGroup("billing", "b-0", ("golden",), 10_000),
        CommitOffsets(chain_id, "billing", (offset(0, 50),), "a-0", 2, 1),
        CommitOffsets(chain_id, "billing", (), "b-0", 2, 1),
    ):
        cluster.submit(command)
    cluster.connection.follower.catch_up()
    committer.snapshots.write()
    cluster.submit(LeaveGroup("billing", "b-0"))
    cluster.submit(CommitOffsets(chain_id, "billing", (offset(1, 80, "after"),), "a-0", 3, 2))
    cluster.submit(DeleteGroups(("gone",)))


def stream(cluster: Cluster) -> None:
    """Micro-batches of a streaming query: of its first run, in a snapshot, and of one that fences it, in an entry."""
    cluster.create_topic("streamed")
    for version, run in enumerate(("run-1", "run-1", "run-2")):
        batches = rows(10 * version, 10).drop_columns("partition").to_batches()
        given = ("streamed", batches, None, Durability(), DEFAULT_TIMEOUT_MS)
        plan, written, _ = plan_and_upload(cluster.connection, *given)
        command = append_command(plan, [written], application=Application("query", version, run))
        assert command is not None
        commit_append(cluster.connection, plan, [written], command, DEFAULT_TIMEOUT_MS)
        if version == 1:
            cluster.connection.follower.catch_up()
            cluster.connection.committer.snapshots.write()


def mirror(cluster: Cluster) -> None:
    """Mirror topics with empty offsets in append objects and in segments, in a snapshot; a promotion behind it."""
    for name in ("mirrored", "promoted"):
        topic = MirroredTopic(cluster, name=name).create()
        topic.append([3, 4, 9], end=12)
        topic.append([12, 13], kinds=[0, 1])
        run_roll(cluster.connection.url, everything=True, topics=[name])
        topic.append([14, 16], kinds=[1, 0])
        cluster.connection.follower.catch_up()
        cluster.connection.committer.snapshots.write()
        topic.append([20])
    topic.promote({0: 24})
    topic.append_after(["first", "second"])


def replicate(cluster: Cluster) -> None:
    """A topic on three stores, of which one that led was fenced and is back; in a snapshot, and in entries after it."""
    committer = cluster.connection.committer
    for each in "bc":
        cluster.add_store(each, each)
    cluster.create_topic("replicated", assignment=[["b", "local", "c"]], config={"min.insync.replicas": 2})
    cluster.append("replicated", pa.table({"value": ["1", "2", "3"]}))
    committer.submit(committer.begin(FenceStore(StoreId("b"))))
    cluster.append("replicated", pa.table({"value": ["4", "5"]}))
    cluster.connection.follower.catch_up()
    committer.snapshots.write()
    cluster.add_store("b", "b")
    committer.submit(committer.begin(FenceStore(StoreId("c"))))


def replicas(state: ClusterState) -> dict[str, object]:
    """The replicas of partitions that have several, as plain values."""
    found = {
        f"{state.topics[key.topic_id].name}-{key.partition}": msgspec.to_builtins(
            msgspec.structs.asdict(each.replication)
        )
        for key, each in sorted(state.partitions.items())
        if len(each.replication.replicas) > 1
    }
    return {"replicas": json.loads(json.dumps(found))} if found else {}


def maintenance(state: ClusterState) -> dict[str, object]:
    """How far cleaners and recoveries came, as plain values."""
    cleaners = {f"{key.topic_id}-{key.partition}": at for key, at in sorted(state.cleaners.items())}
    points = {store.store: store.recovery_point for store in state.stores.values() if store.recovery_point}
    found = {"cleaners": msgspec.to_builtins(cleaners), "recovery_points": points}
    return {name: json.loads(json.dumps(values)) for name, values in found.items() if values}


def runs(state: ClusterState) -> dict[str, object]:
    """The runs of applications that have any, the present one first."""
    found = {name: list(each.runs) for name, each in state.applications.items() if each.runs}
    return {"runs": found} if found else {}


def groups(state: ClusterState) -> dict[str, object]:
    """The groups with their members and what they have committed, as plain values; without the clock's times."""
    found = {}
    for name, group in sorted(state.groups.items()):
        rows = state.offsets.of_group(group.number)
        offsets = [
            [key.topic_id, key.partition, row.offset, row.leader_epoch, row.metadata] for key, row in rows.items()
        ]
        found[name] = {"group": msgspec.to_builtins(group), "offsets": offsets}
    return {"groups": json.loads(json.dumps(found))} if found else {}


def contents(cluster: Cluster) -> dict[str, object]:
    """All records, and the parts of the state that outlive them, as plain values."""
    state = cluster.connection.newest_state()
    chain = {
        "n": state.n,
        "chain_id": state.chain_id,
        "applications": {name: each.version for name, each in state.applications.items()},
        "producers": {str(each.producer_id): each.producer_epoch for each in state.producers.values()},
        "segments": len(state.slices),
        "mirrors": {topic.name: str(topic.mirror_of) for topic in state.topics.values() if topic.mirror_of},
        **replicas(state),
        **maintenance(state),
        **groups(state),
        **runs(state),
    }
    records = {}
    for topic in cluster.topics():
        for partition in range(len(cluster.describe(topic).partitions)):
            table = cluster.read(topic, partition=partition, include_headers=True)
            stamps = table["timestamp"].cast(pa.int64())
            table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", stamps)
            records[f"{topic}-{partition}"] = [_plain(each) for each in table.to_pylist()]
    return {"chain": chain, "records": records}


def _plain(value: object) -> object:
    match value:
        case bytes():
            return value.decode()
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case _:
            return value


if __name__ == "__main__":
    if GOLDEN.exists():
        sys.exit(f"{GOLDEN} is there: a golden cluster is never made again; a changed format has a new number")
    with tempfile.TemporaryDirectory(prefix="sparklog-golden-") as name:  # reports name the place: a neutral one
        make(Path(name))
        shutil.copytree(name, GOLDEN, ignore=shutil.ignore_patterns(".tmp"))
