"""Does one task's part of a write: checks its rows, and uploads them to the stores that the plan names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.client.plans.write_plan import PlannedTopic, TaskWritten, WritePlan, create_first
from sparklog.core.config.key import did_you_mean
from sparklog.core.config.timestamp_bounds import TimestampBounds
from sparklog.core.decide.named_offsets import check_takes
from sparklog.core.errors import (
    InvalidInput,
    InvalidRecord,
    KeyExists,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from sparklog.core.idempotence.producers import sequence_after, span_of
from sparklog.core.types import NewObject, NewSlice, PartitionIndex, StoreId, TopicId, TopicPartition, UploadId
from sparklog.host.clock import SystemClock, WaitingClock, now_us
from sparklog.host.dice import new_id
from sparklog.host.recent_failures import RecentFailures
from sparklog.log.cluster_stores import Stores
from sparklog.log.header_keys import check_header_keys
from sparklog.log.kafka_columns import canonical
from sparklog.log.stored_schema import PARTITION, RAW, TOPIC, StoredSchema
from sparklog.log.write.kept_offsets import PLAIN, KeptOffsets, WriterKey
from sparklog.log.write.objects_writer import TaskObjects, WriteTarget
from sparklog.log.write.routing import by_topic, partition_of_rows
from sparklog.log.write.row_sizes import check_sizes
from sparklog.log.write.store_lanes import OpensStores, StoreLanes, reason, wiped_or_swapped
from sparklog.log.write.topic_writer import TopicWriter

_MADE_BY: Final = {"list": "from_pylist", "dict": "from_pydict", "DataFrame": "from_pandas"}  # methods of pa.Table
SLOW_HERE: Final = RecentFailures(SystemClock().monotonic_ms)  # stores that were too slow for writes here


def check_arrow(rows: object) -> None:
    """Raise InvalidInput unless `rows` is a pyarrow Table or RecordBatch."""
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        kind = type(rows).__name__
        method = _MADE_BY.get(kind)
        hint = "" if method is None else f": pa.Table.{method}(rows)"
        raise InvalidInput(f"wanted a pyarrow Table or RecordBatch, found {kind}{hint}")


def upload_task_rows(
    plan: WritePlan,
    batches: Iterable[pa.RecordBatch],
    *,
    sticky: int = 0,
    stores: OpensStores | None = None,
    clock: WaitingClock | None = None,
    kept: KeptOffsets | None = None,
) -> TaskWritten:
    """Check and upload the rows of one task.

    `sticky`: a number that chooses the first partition for records without a key. If a write has several tasks, each
    gives a different number. `stores`: by default opened from the addresses in the plan. `kept`: the offsets that the
    records of these batches keep, in the mirror topic of the plan; None if they get new ones. Raises InvalidInput and
    its subclasses (wrong columns, unknown topic, partition out of range, record too large, a key missing on a compacted
    topic), NoReplicaOnline, and, if all stores of a partition fail, StoreUnavailable or another error of stores. After
    an error, uploaded objects stay as orphans.
    """
    lanes = lanes_of(plan, stores, clock)
    try:
        with lanes:
            return _upload(plan, batches, lanes, sticky, kept)
    except (OutcomeUnknown, KeyExists) as error:
        raise in_doubt(error) from error
    finally:
        note_slow_stores(plan, lanes)


def lanes_of(plan: WritePlan, stores: OpensStores | None = None, clock: WaitingClock | None = None) -> StoreLanes:
    """Return the lanes of a task that writes by this plan. For the arguments see `upload_task_rows`."""
    return StoreLanes(
        stores or Stores(plan.addresses),
        plan.incarnations,
        plan.lag_time_max_ms,
        clock or SystemClock(),
        catching_up=plan.catching_up,
        left_out=_too_slow_lately(plan),
    )


def in_doubt(error: OutcomeUnknown | KeyExists) -> StoreUnavailable:
    """The error of a task whose upload may have landed: only an object that nothing names, so the log is unchanged."""
    return StoreUnavailable(f"wanted to upload rows, found the upload in doubt: {error.message}")


def note_slow_stores(plan: WritePlan, lanes: StoreLanes) -> None:
    """Remember the stores that were catching up and too slow for a task (`_too_slow_lately`)."""
    for store in lanes.slow_stores().intersection(plan.catching_up):
        SLOW_HERE.note(plan.addresses.failure_key(store))


def _upload(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], lanes: StoreLanes, sticky: int, kept: KeptOffsets | None
) -> TaskWritten:
    objects = TaskObjects(lanes)
    writers: dict[tuple[str, WriterKey], TopicWriter] = {}
    keyless: set[TopicId] = set()
    runs = None if kept is None or plan.topic is None else kept.runs(plan.topic, plan.topics[plan.topic].next_offsets)
    for batch in batches:
        for name, rows in _rows_by_topic(plan, batch):
            planned = _topic_of(plan, name)
            check_takes(name, planned.mirror_of, named=runs is not None)
            _check_rows(planned, rows)
            if rows.column(RAW.key).null_count:
                keyless.add(planned.topic_id)
            for key, part in ((PLAIN, rows),) if runs is None else runs.parts(rows):
                writer = writers.get((name, key))
                if writer is None:
                    writer = _writer(plan, planned, objects, sticky, key.schema)
                    writers[name, key] = writer
                writer.add(part)
    for writer in writers.values():
        writer.split_gathered()
    objects.finish()
    written, keys = _written(writers, keyless)
    if runs is not None:
        written = msgspec.structs.replace(written, slices=tuple(runs.named(zip(keys, written.slices, strict=True))))
    return without_failed(plan, written, lanes.errors())


def check_rows(plan: WritePlan, batch: pa.RecordBatch) -> None:
    """Raise the errors that `upload_task_rows` would raise for these rows. Uploads nothing.

    Java checks rows by the same rules (`TopicWriter.takes`). Once it has refused a row, this function is called with
    that row, to raise the error.
    """
    for name, rows in _rows_by_topic(plan, batch):
        planned = _topic_of(plan, name)
        _check_rows(planned, rows)
        check_sizes(rows, RAW, name, planned.max_message_bytes)
        named = rows.column(PARTITION) if PARTITION in rows.schema.names else None
        partition_of_rows(rows.column(RAW.key), named, name, planned.partitions, sticky=PartitionIndex(0))


def _too_slow_lately(plan: WritePlan) -> frozenset[StoreId]:
    """Return the stores to leave out: those that are catching up and were too slow for recent writes of this process.

    Without this, a store that hangs would delay each write by CATCHING_UP_WAIT_MS. Each write would also leave behind a
    thread that never ends, and the bytes that the thread keeps in memory. Returns no stores if a partition would then
    have none to upload to.
    """
    slow = frozenset(store for store in plan.catching_up if SLOW_HERE.is_recent(plan.addresses.failure_key(store)))
    store_sets = (holders for topic in plan.topics.values() for holders in topic.store_sets if holders)
    return slow if all(any(holder.store not in slow for holder in holders) for holders in store_sets) else frozenset()


def _written(
    writers: Mapping[tuple[str, WriterKey], TopicWriter], keyless: set[TopicId]
) -> tuple[TaskWritten, list[WriterKey]]:
    """Return the uploads of all writers, and for each slice the key of its writer."""
    objects: list[NewObject] = []
    slices: list[NewSlice] = []
    keys: list[WriterKey] = []
    for (_, key), writer in writers.items():
        for uploaded, of_object in writer.written():
            slices += [msgspec.structs.replace(slice_, object_index=len(objects)) for slice_ in of_object]
            keys += [key] * len(of_object)
            objects.append(uploaded)
    return TaskWritten(tuple(objects), tuple(slices), tuple(sorted(keyless))), keys


def without_failed(plan: WritePlan, written: TaskWritten, errors: Mapping[StoreId, BaseException]) -> TaskWritten:
    """Return `written`, the uploads of a task, corrected for stores that failed. `errors`: the error of each one.

    A failed store that was wiped or swapped has lost all objects of the task, so it is no longer a holder of any. Any
    other failed store is still a holder of the objects that it stored before its error. `not_taken` of the result has
    the reasons of all failed stores, except those that are catching up. Raises StoreUnavailable if an object has no
    holder left.
    """
    swapped = wiped_or_swapped(errors)
    objects = [_without(uploaded, swapped, errors) if swapped else uploaded for uploaded in written.objects]
    not_taken = {store: reason(error) for store, error in errors.items() if store not in plan.catching_up}
    return msgspec.structs.replace(written, objects=tuple(objects), not_taken=not_taken)


def _without(uploaded: NewObject, swapped: frozenset[StoreId], errors: Mapping[StoreId, BaseException]) -> NewObject:
    holders = tuple(holder for holder in uploaded.holders if holder.store not in swapped)
    if not holders:
        raise StoreUnavailable("; ".join(map(reason, errors.values())))
    return msgspec.structs.replace(uploaded, holders=holders)


def _rows_by_topic(plan: WritePlan, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows = canonical(batch)
    if not rows.num_rows:
        return
    if plan.topic is not None:
        yield plan.topic, rows.drop_columns([TOPIC]) if TOPIC in rows.schema.names else rows
        return
    if TOPIC not in rows.schema.names:
        raise InvalidInput("no topic given: set the option 'topic', or give the rows a column 'topic'")
    yield from by_topic(rows)


def _topic_of(plan: WritePlan, name: str) -> PlannedTopic:
    planned = plan.topics.get(name)
    if planned is None:
        known = sorted(plan.topics)
        raise UnknownTopicOrPartition(
            f"a row names topic {name!r}, the cluster had {', '.join(known[:10]) or 'no topics'} "
            f"when this write began{did_you_mean(name, known) or create_first(name)}"
        )
    return planned


def _check_rows(planned: PlannedTopic, rows: pa.RecordBatch) -> None:
    if planned.needs_key and rows.column(RAW.key).null_count:
        raise InvalidRecord(
            f"topic {planned.name} is compacted, so each record needs a key; found {rows.column(RAW.key).null_count} "
            f"without in a batch of {rows.num_rows}"
        )
    check_header_keys(rows, planned.name)
    bounds = TimestampBounds(planned.oldest_us, planned.newest_us)
    timestamps = rows.column(RAW.timestamp)
    if bounds == (None, None) or timestamps.null_count == len(timestamps):
        return
    extremes = pc.min_max(timestamps.cast(pa.int64()))
    bounds.check(planned.name, extremes["min"].as_py(), extremes["max"].as_py())


def _writer(
    plan: WritePlan, planned: PlannedTopic, objects: TaskObjects, sticky: int, schema: StoredSchema
) -> TopicWriter:
    target = WriteTarget(planned.topic_id, planned.name, planned.partitions, planned.max_message_bytes, plan.n0)
    return TopicWriter(
        objects,
        target,
        planned.stores_of,
        new_upload_id=new_upload_id,
        now_us=now_us,
        sticky=sticky,
        compression=planned.compression,
        schema=schema,
    )


def new_upload_id() -> UploadId:
    """Draw a new upload id. Call it in the process that uploads: a forked process must not use its parent's ids."""
    return UploadId(new_id())


def check_partition_named(rows: pa.Table | pa.RecordBatch) -> None:
    """Raise InvalidInput unless each row names its partition, as an idempotent producer needs.

    Otherwise a repeat of the write might choose another partition.
    """
    if "partition" not in rows.schema.names or rows.column("partition").null_count:
        raise InvalidInput(
            "an append with a producer names its partition: give the rows a column 'partition' without nulls, so that "
            "a repeat goes to the same one"
        )


def producer_slices(slices: Sequence[NewSlice], producer: tuple[int, int, int]) -> tuple[NewSlice, ...]:
    """Return `slices` with the sequence numbers of an idempotent producer. `producer`: (id, epoch, first sequence).

    Raises InvalidInput if the slices are of several partitions.
    """
    producer_id, epoch, sequence = producer
    written = {TopicPartition(slice_.topic_id, slice_.partition) for slice_ in slices}
    if len(written) > 1:
        raise InvalidInput("an append with a producer goes to one partition: sequences are counted per partition")
    return sequenced(slices, producer_id, epoch, dict.fromkeys(written, sequence))


def sequenced(
    slices: Sequence[NewSlice], producer_id: int, epoch: int, first_sequences: Mapping[TopicPartition, int]
) -> tuple[NewSlice, ...]:
    """Return `slices` with consecutive sequence numbers of an idempotent producer, counted in each partition.

    `first_sequences`: for each partition, the sequence number of its first record here.
    """
    next_ = dict(first_sequences)
    numbered = []
    for slice_ in slices:
        key = TopicPartition(slice_.topic_id, slice_.partition)
        span = span_of(producer_id, epoch, next_[key], slice_.records)
        numbered.append(msgspec.structs.replace(slice_, producer=span))
        next_[key] = sequence_after(next_[key], slice_.records)
    return tuple(numbered)
