"""Slices of append objects become sealed segments that hold the same records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.errors import Damaged, DataLoss, KeyNotFound, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NamedObject,
    NewObject,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    StoreId,
    TimestampSource,
    TopicId,
    UploadId,
)
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.read import object_reader, ranged_reads
from sparklog.log.read.object_reader import read_index, read_slice
from sparklog.log.rewrite.segment_roll import COPIED_BATCH_BYTES, rewrite
from sparklog.log.write.segments_writer import Rewritten, SegmentTarget
from sparklog.log.write.task_memory import WriterLimits
from sparklog.storage.keys import data_key, parse_data_key
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import Fault, FaultyStore
from tests.log.record_strategies import batches
from tests.log.written_log import (
    APPEND_TIME_MS,
    WrittenLog,
    empty_store,
    lanes_of,
    part_of,
    parts_of,
    stores_of,
    upload_ids,
    write,
)

HOLDERS = (Holder(StoreId("a"), 1),)
LOG_APPEND_TIME = 1  # in the column timestampType


def target(segment_bytes: int, holders: tuple[Holder, ...] = HOLDERS) -> SegmentTarget:
    return SegmentTarget(TopicId(5), "orders", PartitionIndex(0), EntryNumber(9), holders, segment_bytes, "zstd")


def new_ids() -> Callable[[], UploadId]:
    """Upload ids that are not those of the log."""
    ids = upload_ids(1_000)
    return lambda: next(ids)


def roll(log: WrittenLog, segment_bytes: int = 1 << 30) -> Rewritten:
    return rewrite(parts_of(log), target(segment_bytes), stores_of(log), lanes_of(a=log.store), new_ids())


def slices_of(rolled: Rewritten) -> list[tuple[NamedObject, Slice]]:
    """As the chain would number them."""
    return [
        (
            NamedObject(ObjectNumber(1_000 + each.new.object_index), rolled.objects[each.new.object_index]),
            Slice(
                topic_id=each.new.topic_id,
                partition=each.new.partition,
                start=each.start,
                end=each.end,
                records=each.new.records,
                object_number=ObjectNumber(1_000 + each.new.object_index),
                position=each.new.position,
                length=each.new.length,
                first_batch=each.new.first_batch,
                batches=each.new.batches,
                min_timestamp_us=each.new.min_timestamp_us,
                max_timestamp_us=each.new.max_timestamp_us,
                append_time_ms=each.append_time_ms,
                timestamp_source=each.timestamp_source,
                leader_epoch=each.leader_epoch,
            ),
        )
        for each in rolled.slices
    ]


def read(log: WrittenLog, rolled: Rewritten, columns: Sequence[str] = READ_SCHEMA.names) -> pa.Table:
    batches = [
        batch
        for named, each in slices_of(rolled)
        for _, batch in read_slice(
            log.store,
            data_key(named.object, "orders"),
            named,
            each,
            OffsetRange(each.start, each.end),
            "orders",
            columns,
        )
    ]
    return pa.Table.from_batches(batches, schema=pa.schema([READ_SCHEMA.field(name) for name in columns]))


def rows(count: int, size: int = 20, first: int = 0) -> pa.RecordBatch:
    """Values that don't compress."""
    numbers = range(first, first + count)
    values = [bytes((each * 7919 + at * at * 31) % 251 for at in range(size)) for each in numbers]
    timestamps = pa.array([1_000 + (each * 37) % 500 for each in numbers], pa.timestamp("us", "UTC"))
    return pa.record_batch(
        {
            "key": pa.array([f"k{each}".encode() for each in numbers]),
            "value": pa.array(values, pa.binary()),
            "timestamp": timestamps,
        }
    )


def big_rows(count: int, size: int) -> pa.RecordBatch:
    values = [each.to_bytes(4) * (size // 4) for each in range(count)]
    return pa.record_batch({"value": pa.array(values, pa.binary())})


@given(
    written=batches(partitions=1).filter(lambda given: any(each.num_rows for each in given)),
    segment_bytes=st.integers(1, 20_000),
    source=st.sampled_from([TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME]),
)
@settings(max_examples=60)
def test_a_roll_keeps_every_record_offset_and_timestamp(  # M: S-02 S-06
    written: list[pa.RecordBatch], segment_bytes: int, source: TimestampSource
) -> None:
    log = write(empty_store(), written, partitions=1, source=source)
    rolled = roll(log, segment_bytes)
    assert read(log, rolled).equals(log.read(0, 0, sum(each.num_rows for each in written)))
    starts = [each.start for each in rolled.slices]
    assert starts == sorted(starts)
    for each in rolled.slices:
        assert each.new.length <= segment_bytes or each.new.records == 1


def test_a_log_of_8_2_and_n_records_has_segments_0_8_and_10() -> None:  # M: S-02
    log = write(
        empty_store(),
        [rows(8), rows(2, 300, first=8), rows(5, first=10)],
        1,
        limits=WriterLimits(gather_rows=1, object_bytes=1),
    )
    edges = [(0, 8), (8, 10), (10, 15)]
    assert [(each.start, each.end) for each in log.partition(0)] == edges
    ids = upload_ids()
    keys = []
    for part in parts_of(log):
        rolled = rewrite([part], target(2_000), stores_of(log), lanes_of(a=log.store), lambda: next(ids))
        keys += [data_key(each, "orders") for each in rolled.objects]
    names = [parse_data_key(key) for key in sorted(keys)]
    assert [name.base_offset for name in names if name is not None] == [0, 8, 10], "a listing is in offset order"


def test_a_segment_opens_with_plain_arrow() -> None:  # M: S-02
    log = write(empty_store(), [rows(30)], 1)
    rolled = roll(log)
    (sealed,) = rolled.objects
    with pa.ipc.open_file(pa.BufferReader(log.store.get(data_key(sealed, "orders")))) as file:
        assert file.read_all().num_rows == 30


# M: S-08
def test_large_batches_are_copied_byte_for_byte() -> None:
    limits = WriterLimits(gather_rows=1, gather_bytes=400 << 10)
    log = write(empty_store(), [big_rows(64, 16 << 10)], 1, compression="none", limits=limits)
    (part, *_) = parts_of(log)
    stored = read_index(log.store, log.key(part.slice), part.object)
    assert stored.length.min() >= 256 << 10
    rolled = roll(log)
    named, _ = slices_of(rolled)[0]
    assert read_index(log.store, data_key(named.object, "orders"), named).crc32c.tolist() == stored.crc32c.tolist()


def big_log(source: TimestampSource = TimestampSource.CREATE_TIME) -> WrittenLog:
    """1 MiB in a few batches of more than 256 KiB, between two of a few records."""
    small = WriterLimits(gather_rows=1, smallest_full_batch_bytes=1, full_batch_bytes=400 << 10)
    given = [rows(3), big_rows(64, 16 << 10), rows(4, first=3)]
    log = write(empty_store(), given, 1, compression="none", limits=small, source=source)
    (each,) = log.slices
    lengths = read_index(log.store, log.key(each), log.objects[0]).length
    assert lengths[0] < COPIED_BATCH_BYTES > lengths[-1]
    assert lengths[1:-1].min() >= COPIED_BATCH_BYTES
    return log


def flipped(log: WrittenLog, key: str, at: int) -> None:
    """One bit of a stored object."""
    body = bytearray(log.store.get(key))
    body[at] ^= 1
    log.store.delete(key)
    log.store.put_if_absent(key, bytes(body))


def test_what_is_joined_and_what_is_copied_stays_in_order() -> None:  # M: S-08
    log = big_log()
    assert read(log, roll(log)).equals(log.read(0, 0, 71))


def test_a_damaged_batch_that_is_large_enough_to_be_copied_is_refused() -> None:  # M: F-04 R-06
    log = big_log()
    (each,) = log.slices
    flipped(log, log.key(each), each.position + each.length // 2)
    with pytest.raises(Damaged, match=f"record batch at byte .* of {log.key(each)}: wanted CRC32C"):
        roll(log)


def test_large_batches_get_the_append_time_too() -> None:
    log = big_log(TimestampSource.APPEND_TIME)
    assert read(log, roll(log)).equals(log.read(0, 0, 71))


def test_a_stored_batch_larger_than_a_segment_is_cut() -> None:
    log = big_log()
    rolled = roll(log, segment_bytes=100_000)
    assert max(each.new.length for each in rolled.slices) <= 100_000
    assert read(log, rolled).equals(log.read(0, 0, 71))


@pytest.mark.parametrize("times_ms", [(7, 9), (9, 7)])
def test_a_segment_was_appended_when_the_last_of_its_slices_was(times_ms: tuple[int, int]) -> None:
    log = write(empty_store(), [rows(5), rows(5, first=5)], 1, limits=WriterLimits(gather_rows=1, object_bytes=1))
    parts = [
        part_of(msgspec.structs.replace(part.slice, append_time_ms=time_ms), part.object)
        for part, time_ms in zip(parts_of(log), times_ms, strict=True)
    ]
    rolled = rewrite(parts, target(1 << 30), stores_of(log), lanes_of(a=log.store), new_ids())
    assert [each.append_time_ms for each in rolled.slices] == [9]


@pytest.mark.parametrize(
    "change",
    [
        lambda each: {"first_batch": 1},
        lambda each: {"batches": 9},
        lambda each: {"position": each.position + 8, "length": each.length - 8},
        lambda each: {"length": each.length - 8},
        lambda each: {"records": 2, "end": 2},
    ],
    ids=["first batch", "batches", "position", "length", "records"],
)
def test_a_slice_that_its_index_does_not_know_is_not_rewritten(change: Callable[[Slice], dict[str, int]]) -> None:
    log = big_log()
    (part,) = parts_of(log)
    other = part_of(msgspec.structs.replace(part.slice, **change(part.slice)), part.object)
    with pytest.raises(Damaged, match=f"index of {log.key(part.slice)}: wanted"):
        rewrite([other], target(1 << 30), stores_of(log), lanes_of(a=log.store), new_ids())


def test_a_rewrite_of_fewer_records_than_its_slices_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slice and index agree on eight records, the object has six: a swap would name records that are nowhere."""
    log = write(empty_store(), [rows(6)], 1)
    (part,) = parts_of(log)
    index = read_index(log.store, log.key(part.slice), part.object)
    assert index.records.tolist() == [6]
    monkeypatch.setattr(object_reader, "read_index", lambda *_: replace(index, records=np.array([8], np.int32)))
    longer = part_of(msgspec.structs.replace(part.slice, records=8, end=Offset(8)), part.object)
    with pytest.raises(Damaged, match="orders-0: wanted records up to offset 8, found up to 6"):
        rewrite([longer], target(1 << 30), stores_of(log), lanes_of(a=log.store), new_ids())


def test_small_neighbours_become_one_batch() -> None:
    log = write(empty_store(), [rows(3, first=3 * at) for at in range(40)], 1)
    assert sum(each.batches for each in log.partition(0)) > 5
    rolled = roll(log)
    assert [each.new.batches for each in rolled.slices] == [1]


def test_append_time_is_written_into_the_column() -> None:
    log = write(empty_store(), [rows(10)], 1, source=TimestampSource.APPEND_TIME)
    rolled = roll(log)
    (each,) = rolled.slices
    assert each.timestamp_source is TimestampSource.APPEND_TIME_IN_COLUMN
    assert each.new.min_timestamp_us == each.new.max_timestamp_us == APPEND_TIME_MS * 1000
    table = read(log, rolled)
    assert table["timestampType"].to_pylist() == [LOG_APPEND_TIME] * 10
    assert set(table["timestamp"].cast(pa.int64()).to_pylist()) == {APPEND_TIME_MS * 1000}


@pytest.mark.parametrize("records", [3, 400])
def test_a_damaged_batch_is_never_copied_and_nothing_is_published(records: int) -> None:  # M: F-04 R-06
    log = write(empty_store(), [rows(records)], 1)
    each = log.partition(0)[-1]
    key = log.key(each)
    flipped(log, key, each.position + each.length // 2)
    before = [stored.key for stored in log.store.list_keys("")]
    with pytest.raises(Damaged, match=key):
        roll(log)
    assert [stored.key for stored in log.store.list_keys("")] == before
    assert isinstance(log.store, MemoryStore)
    assert not log.store._contents.uploads


def test_another_holder_serves_what_one_has_lost() -> None:
    log = write(empty_store(), [rows(200)], 1)
    copy = MemoryStore("memory://written-log-copy")
    for stored in list(copy.list_keys("")):
        copy.delete(stored.key)
    lost = log.key(log.partition(0)[0])
    for stored in log.store.list_keys(""):
        copy.put_if_absent(stored.key, log.store.get(stored.key))
    wanted = log.read(0, 0, 200)
    log.store.delete(lost)
    with pytest.raises(
        DataLoss, match=rf"orders-0: records \[0, 80\) are lost: wanted {lost}, .*; put the object back"
    ):
        roll(log)
    both = (*HOLDERS, Holder(StoreId("b"), 1))
    parts = [
        part_of(each.slice, NamedObject(each.object.number, _held_by(each.object, both))) for each in parts_of(log)
    ]
    lanes = lanes_of(a=log.store, b=copy)
    rolled = rewrite(parts, target(1 << 30, both), stores_of(log, b=copy), lanes, new_ids())
    assert read(log, rolled).equals(wanted)
    for sealed in rolled.objects:
        key = data_key(sealed, "orders")
        assert log.store.get(key) == copy.get(key), "a segment goes to every holder"


@pytest.mark.parametrize("error", [KeyNotFound, Damaged, StoreUnavailable, StoreAccessDenied])
def test_a_roll_goes_on_at_the_next_holder_where_the_first_one_fails(error: type[SparklogError]) -> None:
    limits = WriterLimits(gather_rows=1, object_bytes=32 << 20, full_batch_bytes=1 << 20)
    log = write(empty_store(), [big_rows(80, 128 << 10) for _ in range(2)], 1, compression="none", limits=limits)
    both = (*HOLDERS, Holder(StoreId("b"), 1))
    parts = [
        part_of(each.slice, NamedObject(each.object.number, _held_by(each.object, both))) for each in parts_of(log)
    ]
    failing = FaultyStore(log.store)
    failing.plan(error("not here"), "get_ranges", skip=1)
    stores = stores_of(log, b=log.store)
    stores._open[StoreId("a")] = failing
    rolled = rewrite(parts, target(1 << 30, HOLDERS), stores, lanes_of(a=failing), new_ids())
    assert failing.count("get_ranges") == 2
    assert read(log, rolled).equals(log.read(0, 0, 160))


def test_an_error_says_which_records_no_holder_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_reads, "RANGED_READ_BYTES", 1)  # each batch is a read of its own
    log = big_log()
    stores = stores_of(log)
    losing = stores._open[StoreId("a")] = FaultyStore(log.store)
    losing.plan(Fault.STALE_404, "get_ranges", skip=1)
    with pytest.raises(DataLoss, match=r"orders-0: records \[3, 71\) are lost"):
        rewrite(parts_of(log), target(1 << 30), stores, lanes_of(a=log.store), new_ids())


def _held_by(named: NamedObject, holders: tuple[Holder, ...]) -> NewObject:
    return msgspec.structs.replace(named.object, holders=holders)


def test_a_segment_is_streamed_while_it_is_read() -> None:
    limits = WriterLimits(gather_rows=1, object_bytes=4 << 20, full_batch_bytes=1 << 20)
    log = write(empty_store(), [big_rows(64, 16 << 10) for _ in range(20)], 1, compression="none", limits=limits)
    parts = parts_of(log)
    watched = FaultyStore(log.store)
    log.store = watched
    reads_before_publish: list[int] = []
    watched.plan(lambda: reads_before_publish.append(len(watched.ranges)), "publish")
    rolled = roll(log, segment_bytes=4 << 20)
    assert len(rolled.objects) >= len(parts) // 2 > 1
    assert reads_before_publish[0] < len(watched.ranges) // 2, "the first segment is out before the last is read"
