"""What a large state costs: one and ten million segments, and a commit on a cluster of 10,000 partitions.

python -m bench.state_scale        prints a line per figure
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

import sparklog
from bench.paired import Spread
from bench.soak import rss_mib
from sparklog.chain.snapshot import snapshot
from sparklog.client.bootstrap import init_cluster
from sparklog.core.apply import apply
from sparklog.core.commands import Command, FenceStore, Submission
from sparklog.core.decide.command import decide
from sparklog.core.reading.plan import plan_range
from sparklog.core.records import At
from sparklog.core.replication.partition import created
from sparklog.core.replication.replica_append import appended_everywhere
from sparklog.core.state import ClusterState, Partition, Store, Topic
from sparklog.core.tables.column_blocks import MAX_BLOCK_ROWS, Block, make_block
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.tables.result_table import AppliedBy, ResultTable
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    StoreId,
    TimestampSource,
    TopicId,
    TopicPartition,
)
from sparklog.storage.local.store import LocalStore

PARTITIONS = 1_000
RECORDS, SEGMENT_BYTES = 1_000, 1 << 20  # of a segment
LOCAL = StoreId("local")
THREE = (StoreId("a"), StoreId("b"), StoreId("c"))


def large_state(
    segments: int,
    stores: Sequence[StoreId] = (LOCAL,),
    *,
    partitions: int = PARTITIONS,
    kind: ObjectKind = ObjectKind.SEGMENT,
    config: Mapping[str, str] = MappingProxyType({}),
) -> ClusterState:
    """A topic with this many segments of 1,000 records and 1 MiB, or append objects, all on each of the stores."""
    topic = Topic(TopicId(1), "t", partitions, dict(config), 0, tuple(stores))
    each = segments // partitions
    replication = appended_everywhere(created(tuple(stores)), Offset(each * RECORDS))
    keys = [TopicPartition(topic.topic_id, PartitionIndex(at)) for at in range(partitions)]
    return ClusterState(
        n=1,
        chain_id="c" * 32,
        stores=CopyOnWriteMap({store: Store(store, at, store, f"i{store}", "") for at, store in enumerate(stores)}),
        topics=CopyOnWriteMap({topic.topic_id: topic}),
        topic_ids=CopyOnWriteMap({"t": topic.topic_id}),
        partitions=CopyOnWriteMap(
            {key: Partition(key.topic_id, key.partition, replication, each * SEGMENT_BYTES) for key in keys}
        ),
        slices=SliceTable(_blocks(segments, SliceTable.DTYPES, SliceTable.ORDER, partial(_slice_values, partitions))),
        objects=ObjectTable(
            _blocks(segments, ObjectTable.DTYPES, ObjectTable.ORDER, partial(_object_values, partitions, kind)),
            [tuple(Holder(store, at) for at, store in enumerate(stores))],
        ),
        next_object_number=segments,
    )


def _blocks(segments: int, dtypes, order, values) -> list[Block]:  # type: ignore[no-untyped-def]
    blocks = []
    for first in range(0, segments, MAX_BLOCK_ROWS):
        number = np.arange(first, min(first + MAX_BLOCK_ROWS, segments), dtype=np.int64)
        given = values(number)
        columns = {name: given.get(name, np.zeros(len(number))).astype(dtype) for name, dtype in dtypes.items()}
        blocks.append(make_block(columns, order))
    return blocks


def _slice_values(partitions, number):  # type: ignore[no-untyped-def]
    start = number // partitions * RECORDS
    full = np.full(len(number), 1)
    return {
        "partition_key": (1 << 32) | (number % partitions),
        "start": start,
        "end": start + RECORDS,
        "records": full * RECORDS,
        "object_number": number,
        "length": full * SEGMENT_BYTES,
        "batches": full,
        "min_timestamp_us": number * 1000,
        "max_timestamp_us": number * 1000 + 999,
        "producer_id": full * -1,
    }


def _object_values(partitions, kind, number):  # type: ignore[no-untyped-def]
    full = np.full(len(number), 1)
    dice = np.random.default_rng(int(number[0]))  # no upload is there twice
    return {
        "number": number,
        "kind": full * kind,
        "upload_high": dice.integers(0, 1 << 63, len(number), dtype=np.uint64),
        "upload_low": dice.integers(0, 1 << 63, len(number), dtype=np.uint64),
        "topic_id": full,
        "size_bytes": full * SEGMENT_BYTES,
        "partition": number % partitions if kind is ObjectKind.SEGMENT else full * -1,
        "base_offset": number // partitions * RECORDS,
        "slices": full,
    }


def command_figures(commands: int = 1_000_000) -> str:
    """Remembering this many commands: the memory, and one look-up of an unknown id, as every commit does it."""
    dice = random.Random(1)
    ids = [CommandId(f"{dice.getrandbits(128):032x}") for _ in range(1_000)]
    before = rss_mib()
    table = ResultTable()
    for n in range(commands):
        table.add(AppliedBy(CommandId(f"{dice.getrandbits(128):032x}"), EntryNumber(n), EntryNumber(n)))
    took = []
    for each in ids:
        begin = time.perf_counter()
        table.get(each)
        took.append((time.perf_counter() - begin) * 1e6)
    memory = rss_mib() - before
    return f"{memory:.0f} MiB (goal < 64), one is looked up in {Spread.of(took).shown(1)} µs"


def plan_ms(state: ClusterState, segments: int) -> Spread:
    """Planning ranges of 10 segments at random places."""
    dice = random.Random(1)
    took = []
    for _ in range(200):
        start = dice.randrange(max(1, segments // PARTITIONS * RECORDS - 10 * RECORDS))
        begin = time.perf_counter()
        found = plan_range(
            state,
            state.topics[TopicId(1)],
            dice.randrange(PARTITIONS),
            OffsetRange(Offset(start), Offset(start + 10 * RECORDS)),
        )
        took.append((time.perf_counter() - begin) * 1000)
        assert 10 <= len(found.slices) <= 11
    return Spread.of(took)


def add_ms(state: ClusterState, segments: int, appends: int = 50_000) -> float:
    """The mean cost of adding one slice, including sealing and merging."""
    end = segments // PARTITIONS * RECORDS
    slices = [
        Slice(
            topic_id=TopicId(1),
            partition=PartitionIndex(at % PARTITIONS),
            start=Offset(end + at // PARTITIONS),
            end=Offset(end + at // PARTITIONS + 1),
            records=1,
            object_number=ObjectNumber(at),
            position=0,
            length=100,
            first_batch=0,
            batches=1,
            min_timestamp_us=0,
            max_timestamp_us=0,
            append_time_ms=0,
            timestamp_source=TimestampSource.CREATE_TIME,
            leader_epoch=LeaderEpoch(0),
        )
        for at in range(appends)
    ]
    begin = time.perf_counter()
    for each in slices:
        state.slices.add((each,))
    return (time.perf_counter() - begin) * 1000 / appends


def command_ms(state: ClusterState, command: Command) -> tuple[float, float]:
    """Milliseconds to decide a command, and to apply it to a fork of the state, as a commit does."""
    at = At(EntryNumber(state.n + 1), 1)
    submission = Submission(CommandId("d" * 32), EntryNumber(state.n), command)
    begin = time.perf_counter()
    decision = decide(state, submission, at)
    decided = time.perf_counter()
    fork = state.fork()
    for record in decision.records:
        apply(fork, record, at)
    return (decided - begin) * 1000, (time.perf_counter() - decided) * 1000


def commit_ms() -> Spread:
    """One append of one record on a cluster of 10,000 partitions, with its object already uploaded."""
    import pyarrow as pa

    with tempfile.TemporaryDirectory(prefix="sparklog-scale-") as name:
        url = str(Path(name) / "c")
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            cluster.create_topic("t", partitions=10_000)
            rows = pa.table({"value": ["x"], "partition": pa.array([7], pa.int32())})
            took = []
            for _ in range(100):
                begin = time.perf_counter()
                cluster.append("t", rows)
                took.append((time.perf_counter() - begin) * 1000)
    return Spread.of(took)


def replicated_figures(segments: int = 1_000_000) -> list[str]:
    """The same segments on three stores: a range is planned; the store that leads all is fenced."""
    state = large_state(segments, THREE)
    planned = plan_ms(state, segments)
    fenced = [command_ms(state, FenceStore(THREE[0])) for _ in range(5)]
    return [
        f"1 million segments on three stores: a range is planned in {planned.shown(3)} ms (goal < 3)",
        f"1 million segments on three stores: a store that leads {PARTITIONS:,} partitions is fenced: decided in "
        f"{Spread.of([decide_ms for decide_ms, _ in fenced]).shown(1)} ms, applied in "
        f"{Spread.of([apply_ms for _, apply_ms in fenced]).shown(1)} ms",
    ]


def main() -> None:
    print(f"1 million commands remembered: {command_figures()}")
    before = rss_mib()
    with tempfile.TemporaryDirectory(prefix="sparklog-scale-") as name:
        store = LocalStore(name)
        prepared = snapshot.prepare(large_state(1_000_000), "0" * 64, {})
        snapshot.write(store, prepared)
        loads = []
        for _ in range(5):
            begin = time.perf_counter()
            manifest = snapshot.newest(store)
            assert manifest is not None
            state = snapshot.load(store, manifest)
            loads.append(time.perf_counter() - begin)
        print(f"1 million segments: loaded from the snapshot in {Spread.of(loads).shown(3)} s (goal < 1)")
        print(f"1 million segments: a range is planned in {plan_ms(state, 1_000_000).shown(3)} ms (goal < 3)")
        print(f"1 million segments: one slice is added in {add_ms(state, 1_000_000):.4f} ms, amortised (goal < 2)")
    print(f"1 million segments: {rss_mib() - before:.0f} MiB beyond the imports (goal < 1024)")
    print(*replicated_figures(), sep="\n")
    planned = plan_ms(large_state(10_000_000), 10_000_000)
    print(f"10 million segments: a range is planned in {planned.shown(3)} ms (goal < 10)")
    print(f"10,000 partitions: one append, upload and commit, takes {commit_ms().shown(2)} ms (goal < 20)")


if __name__ == "__main__":
    main()
