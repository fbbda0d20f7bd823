"""Mirror topics: records keep the offsets that they have in Kafka, through rolls, compaction and retention."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster, connect
from sparklog.core.errors import (
    InvalidInput,
    InvalidRequiredAcks,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
    UnknownTopicOrPartition,
)
from sparklog.core.placement.held_slices import named_object
from sparklog.core.types import TimestampSource
from sparklog.log.read.object_reader import read_index
from sparklog.log.stored_schema import RAW, RAW_WITH_OFFSETS, StoredSchema
from sparklog.log.write import task_memory
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.compaction_job import run_compaction
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import data_key
from tests.client.mirrored_topic import SOURCE, MirroredTopic, Record, mirrored_rows
from tests.kit.budget import Seeds, random_runs
from tests.kit.log import new_cluster
from tests.kit.silent_console import SILENT
from tests.maintenance.keyed_log import DictShuffle

CREATED, APPENDED = TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        yield made


@pytest.fixture
def topic(cluster: Cluster) -> MirroredTopic:
    return MirroredTopic(cluster).create()


def schemas(topic: MirroredTopic) -> list[StoredSchema]:
    """The schema of the object of each slice."""
    state = topic.cluster.connection.newest_state()
    store = topic.cluster.connection.follower.store
    named = [named_object(state, each) for each in state.slices.everything()]
    return [read_index(store, data_key(each.object, "t"), each).object_schema for each in named]


def roll(topic: MirroredTopic) -> None:
    assert run_roll(topic.cluster.connection.url, everything=True, console=SILENT).exit_code == 0


def new_client(topic: MirroredTopic) -> Cluster:
    """Another process: what it writes, the first one has to read."""
    return connect(topic.cluster.connection.url)


# ---- what is written ------------------------------------------------------------------------------------


def test_records_are_read_at_the_offsets_that_they_kept(topic: MirroredTopic) -> None:  # M: S-03
    result = topic.append([5, 6, 9], end=12)
    assert (result.records, result.ranges[0].start, result.ranges[0].end) == (3, 0, 12)
    topic.append([12, 13, 14])
    topic.append([20, 21])
    assert topic.bounds() == [(0, 12, 3), (12, 15, 3), (15, 22, 2)]
    topic.check()


def test_objects_store_offsets_only_if_some_are_empty(topic: MirroredTopic) -> None:
    topic.append([0, 1, 2])
    topic.append([3, 5])
    topic.append([6, 7], end=9)
    topic.append([9])
    assert schemas(topic) == [RAW, RAW_WITH_OFFSETS, RAW_WITH_OFFSETS, RAW]


def test_each_kind_of_timestamp_has_a_slice_of_its_own(topic: MirroredTopic) -> None:
    topic.append([0, 1, 2, 4, 5, 7], kinds=[0, 0, 1, 1, 0, 0])
    state = topic.cluster.connection.newest_state()
    slices = [(each.start, each.end, each.timestamp_source) for each in state.slices.everything()]
    assert slices == [(0, 2, CREATED), (2, 5, APPENDED), (5, 8, CREATED)]
    topic.check()


def test_a_write_of_several_partitions_is_one_entry(cluster: Cluster) -> None:
    topic = MirroredTopic(cluster).create(partitions=3)
    parts = {
        0: {4: Record("a", "a4", 1_000_000), 5: Record("b", "b5", 2_000_000, 1)},
        2: {0: Record("c", "c0", 3_000_000), 1: Record("d", "d1", 4_000_000, 1)},
    }
    rows = pa.concat_tables([mirrored_rows(records, at) for at, records in parts.items()])
    mixed = rows.take(pa.array([2, 0, 3, 1]))  # the order of a partition's rows stays
    before = cluster.connection.newest_state().n
    result = cluster.append("t", mixed, keep_offsets=True)
    assert (result.n, result.records) == (before + 1, 4)
    topic.model |= parts
    topic.ends = {0: 6, 1: 0, 2: 2}
    topic.check()


def test_a_large_write_is_cut_into_objects_that_cover_their_gaps(
    topic: MirroredTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = task_memory.WriterLimits(
        gather_rows=16,
        gather_rows_per_partition=1,
        most_gathered_rows=40,
        gather_bytes=2_000,
        full_batch_bytes=600,
        smallest_full_batch_bytes=300,
        object_bytes=4_000,
        pinned_in_vain_bytes=1_000,
        live_bytes=8_000,
    )
    monkeypatch.setattr("sparklog.log.write.objects_writer.TaskObjects.__init__.__defaults__", (limits,))
    topic.append([offset for offset in range(3, 1_500) if offset % 11 not in (3, 4)], kinds=[0] * 400 + [1] * 900)
    bounds = topic.bounds()
    assert len(bounds) > 4
    assert [start for start, _, _ in bounds[1:]] == [end for _, end, _ in bounds[:-1]]
    topic.check()
    roll(topic)
    topic.check()


def test_rows_with_and_without_headers_keep_their_offsets(topic: MirroredTopic) -> None:
    first = mirrored_rows({0: Record("a", "0", 1), 2: Record("b", "2", 2)})
    second = mirrored_rows({3: Record("c", "3", 3), 9: Record("d", "9", 4)})
    headers = pa.array([[("h", b"1")], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    nothing = pa.nulls(2, headers.type)
    rows = pa.concat_tables([first.append_column("headers", nothing), second.append_column("headers", headers)])
    topic.cluster.append("t", rows, keep_offsets=True)
    found = topic.cluster.read("t", partition=0, include_headers=True)
    assert found["offset"].to_pylist() == [0, 2, 3, 9]
    assert [each is not None for each in found["headers"].to_pylist()] == [False, False, True, False]


# ---- what is refused ------------------------------------------------------------------------------------


def rows_at(*offsets: int, **columns: Any) -> pa.Table:
    rows = mirrored_rows({offset: Record("k", "v", 1) for offset in offsets})
    for name, column in columns.items():
        rows = rows.drop_columns([name])
        rows = rows if column is None else rows.append_column(name, column)
    return rows


@pytest.mark.parametrize(
    ("rows", "more", "error", "text"),
    [
        (rows_at(4), {}, OffsetOutOfRange, "t-0: wanted offsets from the next offset 5 on, found 4"),
        (rows_at(7).append_column("x", [[1]]), {"ends": {0: 7}}, InvalidInput, "an end after the last row, from 8 on"),
        (rows_at(7), {"ends": {1: 9}}, InvalidInput, r"wanted partitions of t that have rows here, found \[1\]"),
        (rows_at(7), {"acks": 1}, InvalidRequiredAcks, "acks=all"),
        (rows_at(7), {"replication": "pull"}, InvalidRequiredAcks, "replication=pull"),
        (rows_at(7), {"producer": (0, 0, 0)}, InvalidInput, "has no sequences"),
        (rows_at(7), {"keep_offsets": False}, PolicyViolation, "sparklog topic promote t"),
        (rows_at(7), {"keep_offsets": False, "ends": {0: 9}}, InvalidInput, "only with keep_offsets"),
        (rows_at(7, offset=None), {}, InvalidInput, "need a column 'offset'"),
        (rows_at(7, partition=None), {}, InvalidInput, "need a column 'partition'"),
        (rows_at(7, offset=pa.array([["7"]]).flatten()), {}, InvalidInput, "wanted integers without nulls"),
        (rows_at(7, offset=pa.array([None], pa.int64())), {}, InvalidInput, "with 1 nulls"),
        (rows_at(7, timestampType=pa.array([2])), {}, InvalidInput, "0 .create time. or 1 .append time."),
        (rows_at(7, offset=pa.array([1 << 63], pa.uint64())), {}, InvalidInput, "wanted integers below 2.63"),
        (
            rows_at(7, 8, offset=pa.array([(1 << 63) - 1, 8])),
            {},
            InvalidInput,
            f"t: wanted offsets below {1 << 62}, found {(1 << 63) - 1}",
        ),
        (rows_at(7), {"ends": {0: 1 << 63}}, InvalidInput, f"from 8 on, up to {1 << 62}, found {1 << 63}"),
        (rows_at(7, partition=pa.array([3])), {}, UnknownTopicOrPartition, "wanted a partition from 0 to 0 of t"),
        (rows_at(7, partition=pa.array([-1])), {}, UnknownTopicOrPartition, "found -1"),
    ],
)
def test_what_can_not_be_kept_is_refused(
    topic: MirroredTopic, rows: pa.Table, more: dict[str, Any], error: type[SparklogError], text: str
) -> None:
    topic.append([0, 2], end=5)
    topic.cluster.allocate_producer()
    with pytest.raises(error, match=text):
        topic.cluster.append("t", rows, **({"keep_offsets": True} | more))
    topic.check()


@pytest.mark.parametrize("offsets", [(7, 7), (8, 7)])
def test_offsets_that_do_not_ascend_are_refused(topic: MirroredTopic, offsets: tuple[int, int]) -> None:
    rows = pa.concat_tables([rows_at(each) for each in offsets])
    with pytest.raises(InvalidInput, match=f"t-0: wanted ascending offsets, found {offsets[1]} after {offsets[0]}"):
        topic.cluster.append("t", rows, keep_offsets=True)


def test_an_append_without_rows_writes_nothing(topic: MirroredTopic) -> None:
    assert topic.cluster.append("t", rows_at(7).slice(0, 0), keep_offsets=True).records == 0
    topic.check()


def test_rows_that_name_their_topics_can_not_keep_offsets(topic: MirroredTopic) -> None:
    with pytest.raises(InvalidInput, match="writes to one topic"):
        topic.cluster.append(None, rows_at(0), keep_offsets=True)
    named = pa.table({"value": ["v"], "topic": ["t"]})
    with pytest.raises(PolicyViolation, match="t mirrors orders in Kafka cluster kafka-1"):
        topic.cluster.append(None, named)


def test_an_ordinary_topic_keeps_no_offsets(cluster: Cluster) -> None:
    cluster.create_topic("plain")
    with pytest.raises(PolicyViolation, match="topic plain is not mirrored"):
        cluster.append("plain", rows_at(0), keep_offsets=True)


def test_a_producer_writes_to_a_mirrored_topic_once_it_is_promoted(topic: MirroredTopic) -> None:
    """Before that, `send` refuses the record: the records of other topics in its flush are written."""
    topic.cluster.create_topic("plain")
    with new_client(topic) as other, topic.cluster.producer() as producer:
        kept = producer.send("plain", "v")
        with pytest.raises(PolicyViolation, match="promote it first"):
            producer.send("t", "v")
        other.promote_topic("t", {0: 7})
        assert producer.send("t", "v").result().offset == 7
        assert kept.result().offset == 0


def test_two_mirrors_of_one_topic_write_each_record_once(topic: MirroredTopic) -> None:
    """The slower one is refused, whatever it has: it would write again what is there, or leave out what is not."""
    topic.append([0, 3])
    ahead, behind = rows_at(9), rows_at(2, 3)
    with pytest.raises(OffsetOutOfRange):
        topic.cluster.append("t", behind, keep_offsets=True)
    topic.cluster.append("t", ahead, keep_offsets=True)
    assert topic.bounds() == [(0, 4, 2), (4, 10, 1)]


# ---- rolls, compaction, retention -------------------------------------------------------------------------


def test_a_roll_keeps_offsets_and_dense_segments_dense(topic: MirroredTopic) -> None:  # M: S-02
    topic.append([0, 1, 2])
    topic.append([3, 4])
    roll(topic)
    assert (topic.bounds(), schemas(topic)) == ([(0, 5, 5)], [RAW])
    topic.append([5, 7])
    topic.append([8, 9], end=11)
    roll(topic)
    assert topic.bounds() == [(0, 5, 5), (5, 11, 4)]
    assert schemas(topic) == [RAW, RAW_WITH_OFFSETS]
    topic.check()


def test_dense_slices_of_an_object_with_offsets_are_not_copied_into_a_dense_segment(
    topic: MirroredTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gap comes in a later object of the write, so some slices are dense although their objects store offsets."""
    limits = replace(task_memory.LIMITS, full_batch_bytes=300_000, object_bytes=600_000, gather_bytes=300_000)
    monkeypatch.setattr("sparklog.log.write.objects_writer.TaskObjects.__init__.__defaults__", (limits,))
    topic.cluster.alter("t", config={"segment.bytes": 900_000, "compression.type": "lz4"})
    dice = random.Random(5)
    offsets = [*range(8), 30]
    topic.write({at: Record("k", dice.randbytes(140_000).hex(), 1_000_000 + at) for at in offsets})
    assert {bound[1] - bound[0] == bound[2] for bound in topic.bounds()} == {True, False}
    assert set(schemas(topic)) == {RAW_WITH_OFFSETS}
    roll(topic)
    assert RAW in schemas(topic)
    assert RAW_WITH_OFFSETS in schemas(topic)
    topic.check()
    state, store = topic.cluster.connection.newest_state(), topic.cluster.connection.follower.store
    for each in state.slices.everything():
        body = store.get(data_key(named_object(state, each).object, "t"))
        assert pa.ipc.open_file(pa.py_buffer(body)).read_all().num_rows == each.records


def test_reads_and_look_ups_may_begin_and_end_inside_gaps(topic: MirroredTopic) -> None:  # M: S-03 S-05
    topic.append([2, 3, 9], end=12)
    topic.append([15, 16], end=20)
    topic.append([20, 21, 22])
    for _ in range(2):
        for start in range(24):
            for end in range(start, 24):
                assert topic.read(0, start, end) == topic.left(0, start, end)
        for at_us in range(1_000_000_000, 1_212_000_000, 3_000_000):
            model = [offset for offset, record in sorted(topic.model[0].items()) if record.time_us >= at_us]
            assert topic.cluster.offset_for_time("t", 0, at_us) == (model[0] if model else None)
        offsets = sorted(topic.model[0])
        for count in range(1, 9):
            assert topic.cluster.offset_of_last("t", 0, count) == offsets[-count]
        assert topic.cluster.describe("t").records == 8
        roll(topic)


@pytest.mark.parametrize("to", [4, 9, 11, 12, 13, 20])
def test_records_are_deleted_up_to_an_offset_inside_a_gap(topic: MirroredTopic, to: int) -> None:  # M: R-05
    topic.append([2, 3, 9], end=12)
    topic.append([15, 16], end=20)
    topic.delete_records(to)
    topic.check()
    roll(topic)
    topic.check()


def test_a_consumer_passes_gaps_and_the_end_of_a_promoted_topic(topic: MirroredTopic) -> None:
    topic.append([2, 3, 9], end=12)
    with topic.cluster.consumer("t", group="g", auto_offset_reset="earliest") as consumer:

        def poll() -> list[int]:
            return [record.offset for records in consumer.poll(2_000).values() for record in records]

        assert poll() == [2, 3, 9]
        assert consumer.position(("t", 0)) == 12
        topic.append([15])
        assert poll() == [15]
        consumer.commit()
        topic.promote({0: 30})
        topic.append_after(["a", "b"])
        assert poll() == [30, 31]
        consumer.commit()
    assert topic.cluster.committed("g")["t", 0].offset == 32
    topic.check()


def test_a_store_that_was_away_gets_the_mirror_and_the_promotion(tmp_path: Path) -> None:  # M: L-03
    stores = {name: str(tmp_path / name) for name in "abc"}
    init_cluster(str(tmp_path / "meta"), stores=stores, config={"default.replication.factor": 3})
    with connect(str(tmp_path / "meta")) as cluster:
        topic = MirroredTopic(cluster).create(min_insync_replicas=2)
        topic.append([2, 3], end=6)
        cluster.fence_store("c")
        topic.append([7, 9])
        topic.append([10, 11])
        topic.promote({0: 20})
        topic.append_after(["x"])
        cluster.add_store("c", stores["c"])
        (row,) = cluster.describe("t").partitions
        assert {each.store: each.log_end for each in row.replicas} == {"a": 21, "b": 21, "c": 6}
        assert run_replication(cluster.connection.url, console=SILENT).exit_code == 0
        (row,) = cluster.describe("t").partitions
        assert (set(row.isr), {each.log_end for each in row.replicas}) == (set("abc"), {21})
        for store in "ab":
            cluster.fence_store(store)
        topic.check()


# ---- promotion ----------------------------------------------------------------------------------------------


def test_a_promoted_topic_is_written_as_any_other(topic: MirroredTopic) -> None:
    assert topic.cluster.describe("t").mirror_of == str(SOURCE)
    topic.append([2, 3], end=5)
    topic.promote({0: 9})
    assert topic.cluster.describe("t").mirror_of is None
    topic.append_after(["a", "b"])
    assert topic.bounds() == [(0, 5, 2), (9, 11, 2)]
    with pytest.raises(PolicyViolation, match="not mirrored"):
        topic.append([20])
    roll(topic)
    assert topic.bounds() == [(0, 5, 2), (9, 11, 2)]
    topic.check()


def test_a_topic_is_promoted_where_its_log_ends(cluster: Cluster) -> None:
    topic = MirroredTopic(cluster).create(partitions=2)
    topic.append([2, 3], end=5)
    topic.promote()
    topic.append_after(["a"])
    topic.append_after(["b"], partition=1)
    assert (topic.bounds(), topic.bounds(1)) == ([(0, 5, 2), (5, 6, 1)], [(0, 1, 1)])
    topic.check()


def test_an_end_of_a_partition_that_is_not_there_is_refused(topic: MirroredTopic) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="wanted partition 1"):
        topic.promote({1: 5})


# ---- histories ------------------------------------------------------------------------------------------------


class History:
    """Random writes, jobs and reads of one topic. After each step its log is that of the model."""

    def __init__(self, seed: int, cluster: Cluster) -> None:
        self.dice = random.Random(seed)
        self.keyed = self.dice.random() < 0.4
        policy = "compact,delete" if self.keyed else "delete"
        self.topic = MirroredTopic(cluster).create(
            partitions=2,
            cleanup_policy=policy,
            min_cleanable_dirty_ratio=0,
            delete_retention_ms=0,
            segment_bytes=self.dice.choice([1_500, 1 << 30]),
            file_delete_delay_ms=0,
        )
        self.mirrored = True
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        actions = [self.write] * 6 + [self.roll, self.roll, self.delete, self.retain, self.compact, self.look]
        if self.dice.random() < 0.05 and self.mirrored:
            actions = [self.promote]
        action = self.dice.choice(actions)
        action()
        self.seen[action.__name__] += 1
        self.topic.check()

    def write(self) -> None:
        at, end = self.dice.randrange(2), self.topic.ends
        if not self.mirrored:
            self.topic.append_after([f"late-{self.dice.random()}" for _ in range(self.dice.randint(1, 5))], at)
            return
        skip = self.dice.choice([0, 0, 0.3])
        low = end[at] + self.dice.choice([0, 0, 3])
        offsets = [offset for offset in range(low, low + 30) if self.dice.random() >= skip]
        kinds = [self.dice.choice([0, 0, 1])] * 10 + [self.dice.choice([0, 0, 1])] * 20
        trailing = self.dice.choice([None, None, offsets[-1] + 4])
        self.topic.append(offsets, at, end=trailing, kinds=kinds)
        self.seen["gapped"] += skip > 0

    def roll(self) -> None:
        roll(self.topic)

    def delete(self) -> None:
        at = self.dice.randrange(2)
        self.topic.delete_records(self.dice.randint(self.topic.starts[at], self.topic.ends[at]), at)

    def retain(self) -> None:
        self.topic.cluster.alter("t", config={"retention.bytes": 3_000})
        assert run_retention(self.topic.cluster.connection.url, console=SILENT).exit_code == 0
        self.topic.cluster.alter("t", config={"retention.bytes": -1})
        for described in self.topic.cluster.describe("t").partitions:
            self.seen["retained"] += described.log_start > self.topic.starts[described.partition]
            self.topic.starts[described.partition] = described.log_start

    def compact(self) -> None:
        if not self.keyed:
            return
        report = run_compaction(
            self.topic.cluster.connection.url, shuffle=DictShuffle(), everything=True, console=SILENT
        )
        assert report.exit_code == 0
        for at, model in self.topic.model.items():
            found = self.topic.read(at)
            lost = set(self.topic.left(at, self.topic.starts[at], self.topic.ends[at])) - set(found)
            newest = {record.key: offset for offset, record in sorted(model.items())}
            assert not lost & set(newest.values()), "the last record of a key stays"
            self.seen["compacted"] += bool(lost)
            for offset in lost:
                del model[offset]

    def look(self) -> None:
        at = self.dice.randrange(2)
        start = self.dice.randint(self.topic.starts[at], self.topic.ends[at])
        end = self.dice.randint(start, self.topic.ends[at])
        assert self.topic.read(at, start, end) == self.topic.left(at, start, end)

    def promote(self) -> None:
        self.topic.promote({at: self.topic.ends[at] + self.dice.choice([0, 2]) for at in range(2)})
        self.mirrored = False


@random_runs(range(6), campaign=[range(30)])
def test_every_history_of_a_mirrored_topic_has_its_records_at_their_offsets(seeds: Seeds) -> None:  # M: S-03
    seen: Counter[str] = Counter()
    for seed in seeds:
        with new_cluster() as cluster:
            history = History(seed, cluster)
            for _ in range(30):
                history.step()
            report = run_verify(cluster.connection.url, console=SILENT)
            assert list(report.differences) == []
            seen += history.seen
    wanted = "write gapped roll delete retained compacted look promote"
    assert [each for each in wanted.split() if not seen[each]] == []
