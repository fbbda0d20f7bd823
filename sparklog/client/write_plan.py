"""A write to several partitions and topics: planned once, written by many tasks, committed by one command.

    plan_write (driver) -> write_rows (each task, uploads) -> append_command (driver) -> one chain entry

Plans and the results of tasks are plain values that travel between processes as bytes. Nothing is visible before the
commit. Objects that no commit names are orphans, which vacuum removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.commands import Append, Application, PartitionEpoch
from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import (
    InvalidInput,
    InvalidRecord,
    KeyExists,
    NoReplicaOnline,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownTopicOrPartition,
)
from sparklog.core.plan import topic_of
from sparklog.core.producers import sequence_after, span_of
from sparklog.core.state import ClusterState
from sparklog.core.timestamp_bounds import TimestampBounds, timestamp_bounds
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    TopicId,
    UploadId,
)
from sparklog.host.clock import now_us
from sparklog.host.dice import new_id
from sparklog.log.object_writer import ObjectWriter, WriteTarget
from sparklog.log.records_schema import canonical
from sparklog.log.routing import by_topic
from sparklog.log.stores import StorePlaces, Stores


class PlannedTopic(msgspec.Struct, frozen=True, array_like=True):
    """A topic to write to, as it was when the write began. `epochs[p]` is the leader epoch of partition p."""

    topic_id: TopicId
    name: str
    partitions: int
    epochs: tuple[LeaderEpoch, ...]
    holders: tuple[Holder, ...]
    max_message_bytes: int
    compression: str
    needs_key: bool
    oldest_us: int | None
    newest_us: int | None


class WritePlan(msgspec.Struct, frozen=True):
    """Everything a task needs to know. `n0` and `command_id` are the same for all attempts and resubmissions.

    If `topic` is None, each row names its topic. `oldest_us` and `newest_us` of a topic are the limits of create times.
    """

    places: StorePlaces
    chain_id: str
    n0: EntryNumber
    command_id: CommandId
    topics: dict[str, PlannedTopic]
    topic: str | None


class TaskWritten(msgspec.Struct, frozen=True):
    """The uploads of one task. The `object_index` of a slice is an index into `objects`.

    `keyless` are the topics to which the task wrote records without a key.
    """

    objects: tuple[NewObject, ...] = ()
    slices: tuple[NewSlice, ...] = ()
    keyless: tuple[TopicId, ...] = ()


def plan_write(
    state: ClusterState,
    places: StorePlaces,
    command_id: CommandId,
    *,
    topic: str | None,
    compression: str | None,
    now_ms: int,
) -> WritePlan:
    """Plan a write to `topic`, or to the topics that rows will name. Raises UnknownTopicOrPartition."""
    names = [topic_of(state, topic).name] if topic is not None else list(state.topic_ids)
    return WritePlan(
        places,
        state.chain_id,
        EntryNumber(max(state.n, 0)),
        command_id,
        {name: _planned(state, name, compression, now_ms) for name in names},
        topic,
    )


def _planned(state: ClusterState, name: str, compression: str | None, now_ms: int) -> PlannedTopic:
    topic = state.topics[state.topic_ids[name]]
    config = state.topic_config(topic)
    partitions = state.partitions_of(topic)
    stores = {store for isr in {partition.replication.isr for partition in partitions} for store in isr}
    return PlannedTopic(
        topic.topic_id,
        name,
        topic.partitions,
        tuple(partition.replication.leader_epoch for partition in partitions),
        tuple(Holder(store, state.stores[store].registration) for store in sorted(stores)),
        config.max_message_bytes,
        config.compression_type or compression or "zstd",
        config.compact,
        *timestamp_bounds(config, now_ms),
    )


def write_rows(plan: WritePlan, batches: Iterable[pa.RecordBatch], *, task: int = 0) -> TaskWritten:
    """Upload the rows of one task. Its number, `task`, makes tasks start keyless records at different partitions.

    Raises InvalidInput and its subclasses (wrong columns, unknown topic, partition out of range, record too large, a
    key missing on a compacted topic), StoreUnavailable and other errors of stores. Earlier uploads stay as orphans.
    """
    stores = Stores(plan.places)
    writers: dict[str, ObjectWriter] = {}
    keyless: set[TopicId] = set()
    try:
        for batch in batches:
            for name, rows in _rows_by_topic(plan, batch):
                planned = _topic_of(plan, name)
                _check_rows(planned, rows)
                if rows.column("key").null_count:
                    keyless.add(planned.topic_id)
                writer = writers.get(name)
                if writer is None:
                    writer = writers[name] = _writer(plan, planned, stores, task)
                writer.add(rows)
        objects: list[NewObject] = []
        slices: list[NewSlice] = []
        for writer in writers.values():
            for written, of_object in writer.finish():
                slices += [msgspec.structs.replace(slice_, object_index=len(objects)) for slice_ in of_object]
                objects.append(written)
        return TaskWritten(tuple(objects), tuple(slices), tuple(sorted(keyless)))
    except (OutcomeUnknown, KeyExists) as error:
        # Only an object that nothing names is in doubt: the log itself is certainly unchanged.
        raise StoreUnavailable(f"wanted to upload rows, found it in doubt: {error.message}") from error
    finally:
        for writer in writers.values():
            writer.abort()


def append_command(
    plan: WritePlan,
    written: Sequence[TaskWritten],
    *,
    application: Application | None = None,
    label: str = "",
) -> Append | None:
    """One command for everything the tasks uploaded, in their order; None if there is nothing to commit.

    An application's version is committed even without rows, so that a repeat with rows adds nothing, as in Delta.
    """
    objects: list[NewObject] = []
    slices: list[NewSlice] = []
    for of_task in written:
        slices += [
            msgspec.structs.replace(slice_, object_index=slice_.object_index + len(objects))
            for slice_ in of_task.slices
        ]
        objects += of_task.objects
    if not slices and application is None:
        return None
    by_id = {topic.topic_id: topic for topic in plan.topics.values()}
    touched = dict.fromkeys((slice_.topic_id, slice_.partition) for slice_ in slices)
    epochs = tuple(
        PartitionEpoch(topic_id, partition, by_id[topic_id].epochs[partition]) for topic_id, partition in touched
    )
    keyless = {topic_id for of_task in written for topic_id in of_task.keyless}
    return Append(tuple(objects), tuple(slices), epochs, application, label, tuple(sorted(keyless)))


def _rows_by_topic(plan: WritePlan, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    rows = canonical(batch)
    if not rows.num_rows:
        return
    if plan.topic is not None:
        yield plan.topic, rows.drop_columns(["topic"]) if "topic" in rows.schema.names else rows
        return
    if "topic" not in rows.schema.names:
        raise InvalidInput("which topic? set the option 'topic', or give the rows a column 'topic'")
    yield from by_topic(rows)


def _topic_of(plan: WritePlan, name: str) -> PlannedTopic:
    planned = plan.topics.get(name)
    if planned is None:
        known = sorted(plan.topics)
        raise UnknownTopicOrPartition(
            f"a row names topic {name!r}, the cluster had {', '.join(known[:10]) or 'no topics'} "
            f"when this write began{did_you_mean(name, known)}"
        )
    return planned


def _check_rows(planned: PlannedTopic, rows: pa.RecordBatch) -> None:
    if planned.needs_key and rows.column("key").null_count:
        raise InvalidRecord(
            f"topic {planned.name} is compacted, so each record needs a key; found {rows.column('key').null_count} "
            f"without in a batch of {rows.num_rows}"
        )
    bounds = TimestampBounds(planned.oldest_us, planned.newest_us)
    given = rows.column("timestamp")
    if bounds == (None, None) or given.null_count == len(given):
        return
    found = pc.min_max(given.cast(pa.int64()))
    bounds.check(planned.name, found["min"].as_py(), found["max"].as_py())


def _writer(plan: WritePlan, planned: PlannedTopic, stores: Stores, task: int) -> ObjectWriter:
    if not planned.holders:
        raise NoReplicaOnline(f"no partition of topic {planned.name} was in sync on any store when this write began")
    target = WriteTarget(
        planned.topic_id, planned.name, planned.partitions, planned.max_message_bytes, plan.n0, planned.holders
    )
    return ObjectWriter(
        [stores.get(holder.store) for holder in planned.holders],
        target,
        new_upload_id=new_upload_id,
        now_us=now_us,
        sticky=task,
        compression=planned.compression,
    )


def new_upload_id() -> UploadId:
    """A new upload id. It must be drawn in the process that uploads, so after any fork."""
    return UploadId(new_id())


def check_partition_named(rows: pa.Table | pa.RecordBatch) -> None:
    """Refuse rows of an idempotent producer without a partition: a repeat might choose another one."""
    if "partition" not in rows.schema.names or rows.column("partition").null_count:
        raise InvalidInput(
            "an append with a producer names its partition: give the rows a column 'partition' without nulls, so that "
            "a repeat goes where the first one went"
        )


def producer_slices(slices: Sequence[NewSlice], producer: tuple[int, int, int]) -> tuple[NewSlice, ...]:
    """The slices of one partition with the sequences of an idempotent producer: (id, epoch, first sequence)."""
    producer_id, epoch, sequence = producer
    if len({(slice_.topic_id, slice_.partition) for slice_ in slices}) > 1:
        raise InvalidInput("an append with a producer goes to one partition: sequences are counted per partition")
    numbered = []
    for slice_ in slices:
        span = span_of(producer_id, epoch, sequence, slice_.records)
        numbered.append(msgspec.structs.replace(slice_, producer=span))
        sequence = sequence_after(sequence, slice_.records)
    return tuple(numbered)
