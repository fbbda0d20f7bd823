"""A log for tests: what `ObjectsWriter` wrote, with the offsets that the chain would give, and a model beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    NewObject,
    NewSlice,
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
from sparklog.host.recent_failures import RecentFailures
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.incarnation import Incarnation
from sparklog.log.kafka_columns import READ_SCHEMA, canonical
from sparklog.log.read.object_reader import read_slice
from sparklog.log.write.objects_writer import TaskObjects, WriteTarget
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.log.write.task_memory import WriterLimits
from sparklog.log.write.topic_writer import TopicWriter
from sparklog.storage.keys import INCARNATION, data_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore

TASK_CLOCK_US = 1_700_000_000_000_000
APPEND_TIME_MS = 1_800_000_000_000


def upload_ids(first: int = 1) -> Iterator[UploadId]:
    """Upload ids as a test knows them: 1, 2, … in 32 hex digits."""
    return (UploadId(f"{number:032x}") for number in count(first))


def empty_store() -> MemoryStore:
    """A store in memory without objects, always the same: examples of a property leave nothing behind."""
    store = MemoryStore("memory://written-log")
    for stored in list(store.list_keys("")):
        store.delete(stored.key)
    return store


def target(partitions: int, max_message_bytes: int = 1_048_588) -> WriteTarget:
    return WriteTarget(TopicId(5), "orders", partitions, max_message_bytes, EntryNumber(7))


HOLDERS = (Holder(StoreId("a"), 1),)


# Batches of a few dozen records and objects of a few batches, so that small tests have many.
TINY = WriterLimits(
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


@dataclass
class TaskWriter:
    """One task that writes to one topic. As a context manager it aborts."""

    task: TaskObjects
    topic: TopicWriter

    def add(self, rows: pa.RecordBatch) -> None:
        self.topic.add(rows)

    def finish(self) -> list[tuple[NewObject, list[NewSlice]]]:
        self.topic.split_gathered()
        self.task.finish()
        return self.topic.written()

    def abort(self) -> None:
        self.task.lanes.__exit__()

    def __enter__(self) -> TaskWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


@dataclass
class Marked:
    """A store that has an INCARNATION without an object for it."""

    inner: Any
    incarnation: str

    def get(self, key: str) -> memoryview:
        if key == INCARNATION:
            return memoryview(msgspec.json.encode(Incarnation(self.incarnation, "chain")))
        return memoryview(self.inner.get(key))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return self.get(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass
class MarkedStores:
    """Opens stores of a test, each in the life that it is registered with."""

    stores: dict[StoreId, Any]

    def get(self, store: StoreId) -> Any:
        return Marked(self.stores[store], f"life of {store}")


def lanes_of(**stores: Any) -> StoreLanes:
    """The lanes of a task that writes to these stores."""
    by_id = {StoreId(store): opened for store, opened in stores.items()}
    return StoreLanes(MarkedStores(by_id), {store: f"life of {store}" for store in by_id}, 30_000)


def writer(
    store: Any,
    partitions: int,
    *,
    compression: str = "zstd",
    limits: WriterLimits = TINY,
    max_message_bytes: int = 1_048_588,
    new_upload_id: Callable[[], UploadId] | None = None,
) -> TaskWriter:
    ids = upload_ids()
    task = TaskObjects(lanes_of(a=store), limits)
    topic = TopicWriter(
        task,
        target(partitions, max_message_bytes),
        lambda partition: HOLDERS,
        new_upload_id=new_upload_id or (lambda: next(ids)),
        now_us=lambda: TASK_CLOCK_US,
        compression=compression,
    )
    return TaskWriter(task, topic)


@dataclass
class WrittenLog:
    """Objects in the order of writing, and per partition the slices that cover it from offset 0 on."""

    store: ObjectStore
    objects: list[NamedObject]
    slices: list[Slice] = field(default_factory=list)

    def key(self, slice: Slice) -> str:
        return data_key(self.objects[slice.object_number].object, "orders")

    def partition(self, partition: int) -> list[Slice]:
        return [each for each in self.slices if each.partition == partition]

    def read(self, partition: int, start: int, end: int, columns: Sequence[str] = READ_SCHEMA.names) -> pa.Table:
        batches = [
            batch
            for each in self.partition(partition)
            for _, batch in read_slice(
                self.store,
                self.key(each),
                self.objects[each.object_number],
                each,
                OffsetRange(Offset(start), Offset(end)),
                "orders",
                columns,
            )
        ]
        return pa.Table.from_batches(batches, schema=pa.schema([READ_SCHEMA.field(name) for name in columns]))


def write(
    store: ObjectStore,
    batches: Sequence[pa.RecordBatch],
    partitions: int,
    *,
    compression: str = "zstd",
    limits: WriterLimits = TINY,
    source: TimestampSource = TimestampSource.CREATE_TIME,
) -> WrittenLog:
    """The log that one task makes of the batches."""
    with writer(store, partitions, compression=compression, limits=limits) as open_writer:
        for batch in batches:
            open_writer.add(canonical(batch))
        return name(store, open_writer.finish(), source)


def name(
    store: ObjectStore,
    written: Sequence[tuple[NewObject, Sequence[NewSlice]]],
    source: TimestampSource = TimestampSource.CREATE_TIME,
) -> WrittenLog:
    """Give offsets as one command of the chain would: per partition dense, in the order of objects."""
    log = WrittenLog(store, [NamedObject(ObjectNumber(at), each) for at, (each, _) in enumerate(written)])
    ends: dict[int, int] = {}
    for _, slices in written:
        for new in slices:
            start = ends.get(new.partition, 0)
            ends[new.partition] = start + new.records
            log.slices.append(
                Slice(
                    topic_id=new.topic_id,
                    partition=new.partition,
                    start=Offset(start),
                    end=Offset(start + new.records),
                    records=new.records,
                    object_number=ObjectNumber(new.object_index),
                    position=new.position,
                    length=new.length,
                    first_batch=new.first_batch,
                    batches=new.batches,
                    min_timestamp_us=new.min_timestamp_us,
                    max_timestamp_us=new.max_timestamp_us,
                    append_time_ms=APPEND_TIME_MS,
                    timestamp_source=source,
                    leader_epoch=LeaderEpoch(0),
                )
            )
    return log


def parts_of(log: WrittenLog) -> list[SliceToRead]:
    """The slices of partition 0, to be read."""
    return [part_of(each, log.objects[each.object_number]) for each in log.partition(0)]


def part_of(slice: Slice, named: NamedObject) -> SliceToRead:
    """A slice, to be read from the stores that its object names."""
    return SliceToRead(slice, named, tuple(holder.store for holder in named.object.holders))


def range_of(slices: Iterable[SliceToRead], start: int, end: int) -> RangeToRead:
    """A plan of [start, end) in partition 0, made by hand."""
    offsets = Offset(start), Offset(end)
    return RangeToRead("orders", TopicId(5), PartitionIndex(0), *offsets, tuple(slices), 0, "", LeaderEpoch(0))


def stores_of(log: WrittenLog, **others: object) -> Stores:
    """The stores of a log: "a" is its own; others by id. Time stands still, and no failure of another test counts."""
    urls = {StoreId(each): f"memory://written-log-{each}" for each in ("a", *others)}
    stores = Stores(StoreAddresses("memory://written-log", urls), RecentFailures(lambda: 0))
    stores._open[StoreId("a")] = log.store
    for name, store in others.items():
        stores._open[StoreId(name)] = store  # type: ignore[assignment]
    return stores


def put_in_front(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> None:
    """As if this store, under the id "first", were the first holder of every object."""
    get, holding = Stores.get, Stores.holding
    monkeypatch.setattr(Stores, "get", lambda stores, each: store if each == "first" else get(stores, each))
    monkeypatch.setattr(Stores, "holding", lambda stores, named: [StoreId("first"), *holding(stores, named)])
    monkeypatch.setattr(Stores, "named", lambda stores, each: f"store {each}")
    monkeypatch.setattr(Stores, "note_failure", lambda stores, each, error: None)
    monkeypatch.setattr(Stores, "has_failed", lambda stores, each: False)


def times_log(
    times: list[int], records_per_batch: int = 3, records_per_object: int = 1_000, **kwargs: Any
) -> WrittenLog:
    """One partition with these timestamps (us) in small batches."""
    limits = WriterLimits(
        full_batch_bytes=records_per_batch * 20,
        smallest_full_batch_bytes=1,
        object_bytes=records_per_object * (1 + 16),
        gather_rows=1,
    )
    column = pa.array(times, pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"value": pa.array([b"v"] * len(times)), "timestamp": column})
    pieces = [rows.slice(start, records_per_object) for start in range(0, len(times), records_per_object)]
    return write(empty_store(), pieces, 1, limits=limits, **kwargs)


def arguments(log: WrittenLog, at: int = 0) -> tuple[ObjectStore, str, NamedObject, Slice]:
    """What a reader of slice number `at` is given."""
    each = log.slices[at]
    return log.store, log.key(each), log.objects[each.object_number], each
