"""Appends: uploaded objects become records of the log, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sparklog.core.commands import Append
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidInput,
    InvalidRecord,
    NotEnoughReplicas,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from sparklog.core.numbering import offset_behind
from sparklog.core.producers import joined, repeated_batch
from sparklog.core.readable import counted, numbered
from sparklog.core.records import Appended, AppendedRange, At, CommandResult
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NamedObject,
    NewObject,
    NewSlice,
    ObjectKind,
    ObjectNumber,
    Offset,
    ProducerSpan,
    Slice,
    TimestampSource,
    TopicPartition,
)
from sparklog.core.uploads import check_uploads
from sparklog.core.write_names import check_write_name

OFFSETS_END = 1 << 62  # far enough below the limit of the state's columns that no later sum overflows one


def known_append(state: ClusterState, command: Append) -> CommandResult | None:
    """The result of an earlier write of the same application version or of the same producer batches, or None.

    Raises the producer's error if its sequences neither repeat a batch nor continue after the last one.
    """
    application = command.application
    if application is not None:
        before = state.applications.get(application.app_id)
        if before is not None and application.version <= before.version:
            return before.result
    spans = _producer_spans(command.slices)
    repeats = []
    for topic_partition, of_partition in spans.items():
        place = where(state, topic_partition)
        span = joined(of_partition, place)
        repeat = repeated_batch(state.producers.get(span.producer_id), topic_partition, span, place)
        if repeat is not None:
            repeats.append(
                AppendedRange(topic_partition.topic_id, topic_partition.partition, repeat.start, repeat.end, 0)
            )
    if not repeats:
        return None
    if len(repeats) < len(spans):
        raise InvalidInput("an append repeats batches of its producer in some partitions and is new in others")
    records = sum(each.records for each in repeats)
    at = EntryNumber(state.n)
    return CommandResult(at, at, state.time_ms, tuple(repeats), records)


def decide_append(state: ClusterState, command: Append, at: At) -> Appended:
    """The record of an append, with the offsets assigned to its slices."""
    _check_shape(command)
    for each in command.objects:
        _check_holders(state, each)
    _check_partitions(state, command)
    _check_keys(state, command)
    appended = assign_offsets(state, command, at)
    last = max((written.end for written in appended.ranges), default=0)
    if last > OFFSETS_END:
        raise InvalidInput(f"an offset is at most {OFFSETS_END}, found {last}")
    return appended


def assign_offsets(state: ClusterState, command: Append, at: At) -> Appended:
    """Assign offsets to the slices: dense from each partition's next offset on, in the order of the command."""
    numbers = [ObjectNumber(state.next_object_number + index) for index in range(len(command.objects))]
    before: dict[TopicPartition, Partition] = {}
    ends: dict[TopicPartition, Offset] = {}
    sizes: dict[TopicPartition, int] = {}
    sources: dict[int, TimestampSource] = {}
    append_time_us = at.time_ms * 1000
    slices = []
    for new in command.slices:
        topic_partition = TopicPartition(new.topic_id, new.partition)
        partition = before.get(topic_partition)
        if partition is None:
            partition = before[topic_partition] = state.partitions[topic_partition]
            start = partition.next_offset
        else:
            start = ends[topic_partition]
        source = sources.get(new.topic_id)
        if source is None:
            source = state.topic_config(state.topics[new.topic_id]).message_timestamp_type
            sources[new.topic_id] = source
        overlaid = source is TimestampSource.APPEND_TIME
        end = ends[topic_partition] = offset_behind(start, new.records)
        sizes[topic_partition] = sizes.get(topic_partition, 0) + new.length
        # The producer is set later: a call with more than fifteen keywords passes a dict and costs four times as much.
        made = Slice(
            topic_id=new.topic_id,
            partition=new.partition,
            start=start,
            end=end,
            records=new.records,
            object_number=numbers[new.object_index],
            position=new.position,
            length=new.length,
            first_batch=new.first_batch,
            batches=new.batches,
            min_timestamp_us=append_time_us if overlaid else new.min_timestamp_us,
            max_timestamp_us=append_time_us if overlaid else new.max_timestamp_us,
            append_time_ms=at.time_ms,
            timestamp_source=source,
            leader_epoch=partition.leader_epoch,
        )
        slices.append(made if new.producer is None else replace(made, producer=new.producer))
    return Appended(
        tuple(NamedObject(number, each) for number, each in zip(numbers, command.objects, strict=True)),
        tuple(slices),
        tuple(
            AppendedRange(key.topic_id, key.partition, partition.next_offset, ends[key], sizes[key])
            for key, partition in before.items()
        ),
        command.application,
        command.label,
    )


def _producer_spans(slices: Sequence[NewSlice]) -> dict[TopicPartition, list[ProducerSpan]]:
    spans: dict[TopicPartition, list[ProducerSpan]] = {}
    for each in slices:
        if each.producer is not None:
            spans.setdefault(TopicPartition(each.topic_id, each.partition), []).append(each.producer)
    if spans and any(each.producer is None for each in slices):
        raise InvalidInput("an append comes from a producer or from none: some of its slices have sequences, some not")
    return spans


def _check_shape(command: Append) -> None:
    if not command.slices and command.application is None:
        raise InvalidInput("an append names at least one slice, or an application's version; found neither")
    check_write_name("writeId", command.label)
    if command.application is not None:
        check_write_name("txnAppId", command.application.app_id)
    check_uploads(command.objects, command.slices, ObjectKind.APPEND)


def _check_holders(state: ClusterState, each: NewObject) -> None:
    for holder in each.holders:
        check_holder(state, holder)


def check_holder(state: ClusterState, holder: Holder) -> None:
    """Refuse a holder that is not registered under the number that the object gives (rule F1)."""
    store = state.stores.get(holder.store)
    if store is None or store.registration != holder.registration:
        found = "not registered" if store is None else f"registered as {store.registration}"
        raise StaleBrokerEpoch(f"an object names store {holder.store} as {holder.registration}, the store is {found}")


def _check_partitions(state: ClusterState, command: Append) -> None:
    """Check that each partition exists, its leader epoch is current, and its in-sync replicas hold the objects."""
    epochs = {TopicPartition(each.topic_id, each.partition): each.leader_epoch for each in command.epochs}
    holders = [frozenset(holder.store for holder in each.holders) for each in command.objects]
    fewest: dict[int, int] = {}  # min.insync.replicas, by topic
    checked: set[tuple[TopicPartition, int]] = set()
    for each in command.slices:
        topic_partition = TopicPartition(each.topic_id, each.partition)
        known = len(checked)
        checked.add((topic_partition, each.object_index))
        if len(checked) == known:
            continue
        partition = existing_partition(state, topic_partition)
        epoch = epochs.get(topic_partition)
        if epoch is None:
            raise InvalidInput(f"an append to {where(state, topic_partition)} names no leader epoch for it")
        if epoch != partition.leader_epoch:
            check_epoch(state, partition, epoch)
        if each.topic_id not in fewest:
            fewest[each.topic_id] = state.topic_config(state.topics[each.topic_id]).min_insync_replicas
        if len(partition.isr) < fewest[each.topic_id]:
            raise NotEnoughReplicas(
                f"{where(state, topic_partition)} is in sync on {counted(len(partition.isr), 'store')} "
                f"({', '.join(partition.isr)}), its "
                f"topic wants {fewest[each.topic_id]} (min.insync.replicas)"
            )
        held_by = holders[each.object_index]
        if not held_by.issuperset(partition.isr):
            missing = [store for store in partition.isr if store not in held_by]
            raise NotEnoughReplicas(
                f"a write to {where(state, topic_partition)} needs to be on every in-sync store "
                f"{list(partition.isr)}, it is not on {missing}"
            )


def _check_keys(state: ClusterState, command: Append) -> None:
    """Refuse records without a key in a topic that became compacted after they were uploaded."""
    for topic_id in command.keyless:
        topic = state.topics.get(topic_id)
        if topic is not None and state.topic_config(topic).compact:
            raise InvalidRecord(
                f"topic {topic.name} is compacted, so each record needs a key; found records without one in a write "
                "that was begun before cleanup.policy was set to compact"
            )


def existing_partition(state: ClusterState, topic_partition: TopicPartition) -> Partition:
    """The partition. Raises UnknownTopicOrPartition."""
    partition = state.partitions.get(topic_partition)
    if partition is None:
        topic = state.topics.get(topic_partition.topic_id)
        found = (
            f"topic id {topic_partition.topic_id} is not in the cluster (the topic was deleted, or created again)"
            if topic is None
            else f"topic {topic.name} has {numbered(topic.partitions)}"
        )
        raise UnknownTopicOrPartition(f"wanted partition {topic_partition.partition}, {found}")
    return partition


def check_epoch(state: ClusterState, partition: Partition, epoch: int) -> None:
    """Refuse a write that was begun under another leader epoch (rule F1)."""
    if epoch == partition.leader_epoch:
        return
    place = where(state, TopicPartition(partition.topic_id, partition.partition))
    message = f"the write was begun under epoch {epoch}, {place} is at epoch {partition.leader_epoch}"
    raise FencedLeaderEpoch(message) if epoch < partition.leader_epoch else UnknownLeaderEpoch(message)


def where(state: ClusterState, topic_partition: TopicPartition) -> str:
    """`topic-partition`, for messages."""
    topic = state.topics.get(topic_partition.topic_id)
    name = f"topic id {topic_partition.topic_id}" if topic is None else topic.name
    return f"{name}-{topic_partition.partition}"
