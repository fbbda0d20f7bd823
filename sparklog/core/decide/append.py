"""Appends: uploaded objects become records of the log, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import UNSET
from msgspec.structs import replace

from sparklog.core.commands import Append, ProducerEpoch
from sparklog.core.decide.named_offsets import check_named_offsets
from sparklog.core.decide.uploads import check_uploads
from sparklog.core.errors import (
    InvalidInput,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    Landed,
    OutOfOrderSequence,
    RequestTimedOut,
    SparklogError,
    StaleBrokerEpoch,
)
from sparklog.core.idempotence.applications import check_run
from sparklog.core.idempotence.producers import check_batch_left, joined, repeated_batch
from sparklog.core.lookup import existing_partition
from sparklog.core.names.topic_names import check_not_internal
from sparklog.core.names.write_names import check_write_name
from sparklog.core.records import AgentChanged, Appended, AppendedRange, At, CommandResult
from sparklog.core.replication.election import take_over
from sparklog.core.replication.partition import Replication, check_epoch
from sparklog.core.replication.partition_change import PartitionChange, change_from
from sparklog.core.replication.replica_append import (
    Acks,
    HeldSlice,
    append,
    appended_everywhere,
    committed,
    is_fully_replicated,
)
from sparklog.core.row_offsets import offset_after
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NamedObject,
    NewSlice,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    ProducerId,
    ProducerSpan,
    Slice,
    TimestampSource,
    TopicId,
    TopicPartition,
)

OFFSETS_END = 1 << 62  # far enough below the limit of the state's columns that no later sum overflows one


def known_append(state: ClusterState, command: Append) -> CommandResult | None:
    """Return the result of the earlier write that the command repeats; None if it repeats none.

    A write is a repeat if its producer has already written the same batches, or if its application has already written
    the same version or a higher one. But if a higher one was written, `check_run` refuses a write whose application has
    a run or a `made_of`.

    Raises the errors of `check_run` and `repeated_batch`. Raises WriteLost if an election left only a part of a
    repeated batch, and InvalidInput if a name of the write is too long, or if only some of the batches are repeats. If
    the command has acks=all without `pull`, raises the errors of `_check_committed` for a repeated batch that is not on
    every in-sync replica yet.
    """
    _check_names(command)
    application = command.application
    if application is not None:
        check_run(state, application)
        before = state.applications.get(application.app_id)
        if before is not None and before.has_written(application.version):
            return before.result
    spans = _producer_spans(command.slices)
    repeats = []
    for topic_partition, of_partition in spans.items():
        place = partition_name(state, topic_partition)
        span = joined(of_partition, place)
        try:
            repeat = repeated_batch(state.producers.get(span.producer_id), topic_partition, span, place)
        except OutOfOrderSequence:
            check_batch_left(state, topic_partition, span, place)
            raise
        if repeat is not None:
            if command.acks is Acks.ALL and not command.pull:
                _check_committed(state, topic_partition, repeat.end, place)
            repeats.append(
                AppendedRange(topic_partition.topic_id, topic_partition.partition, repeat.start, repeat.end, 0)
            )
    if not repeats:
        return None
    if len(repeats) < len(spans):
        raise InvalidInput("an append repeats batches of its producer in some partitions and is new in others")
    records = sum(range_.records for range_ in repeats)
    at = EntryNumber(state.n)
    return CommandResult(at, at, state.time_ms, tuple(repeats), records)


def decide_append(state: ClusterState, command: Append, at: At) -> tuple[Appended | AgentChanged, ...]:
    """Return the append, with offsets for its slices and the changes to the replicas.

    An AgentChanged record follows for each store that holds an object of the write although its agent was reported as
    down: the store can be reached again (rule E8).
    """
    _check_shape(state, command)
    _check_fence(state, command.fence)
    replicas_of = _partitions(state, command)
    check_named_offsets(state, command, replicas_of)
    silent = [
        store.store
        for object_ in command.objects
        for holder in object_.holders
        if (store := check_holder(state, holder)).agent_up is False
    ]
    changes = _replicas_after(state, command, replicas_of)
    _check_keys(state, command)
    appended = assign_offsets(state, command, at, changes)
    last = max((written.end for written in appended.ranges), default=0)
    if last > OFFSETS_END:
        raise InvalidInput(f"an offset is at most {OFFSETS_END}, found {last}")
    if not silent:
        return (appended,)
    return (appended, *(AgentChanged(store, up=None) for store in dict.fromkeys(silent)))


def assign_offsets(state: ClusterState, command: Append, at: At, changes: tuple[PartitionChange, ...] = ()) -> Appended:
    """Assign offsets to the slices: contiguous from each partition's next offset on, in the order of the command.

    Slices that name their offsets get these; `check_named_offsets` has checked that they are contiguous, too.
    `changes`: the changes that the append makes to replicas. If a change opens a new leader epoch, the partition's
    slices get that epoch.
    """
    numbers = [ObjectNumber(state.next_object_number + index) for index in range(len(command.objects))]
    before: dict[TopicPartition, Replication] = {}
    epochs = {change.topic_partition: change.leader_epoch for change in changes if change.leader_epoch is not UNSET}
    ends: dict[TopicPartition, Offset] = {}
    sizes: dict[TopicPartition, int] = {}
    empty: dict[TopicPartition, int] = {}
    sources: dict[int, TimestampSource] = {}
    append_time_us = at.time_ms * 1000
    slices = []
    for new in command.slices:
        topic_partition = TopicPartition(new.topic_id, new.partition)
        replicas = before.get(topic_partition)
        if replicas is None:
            replicas = before[topic_partition] = state.partitions[topic_partition].replication
            start = replicas.next_offset
        else:
            start = ends[topic_partition]
        source = sources.get(new.topic_id) if new.timestamp_source is None else new.timestamp_source
        if source is None:
            source = state.topic_config(state.topics[new.topic_id]).message_timestamp_type
            sources[new.topic_id] = source
        overlaid = source is TimestampSource.APPEND_TIME
        if new.offsets is None:
            end = ends[topic_partition] = offset_after(start, new.records)
        else:
            end = ends[topic_partition] = new.offsets.end
            empty[topic_partition] = empty.get(topic_partition, 0) + new.offset_count - new.records
        sizes[topic_partition] = sizes.get(topic_partition, 0) + new.length
        # The producer is set later: a call with more than fifteen keywords passes a dict and costs four times as much.
        slice_ = Slice(
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
            leader_epoch=epochs.get(topic_partition, replicas.leader_epoch) if epochs else replicas.leader_epoch,
        )
        slices.append(slice_ if new.producer is None else replace(slice_, producer=new.producer))
    return Appended(
        tuple(NamedObject(number, object_) for number, object_ in zip(numbers, command.objects, strict=True)),
        tuple(slices),
        tuple(
            AppendedRange(key.topic_id, key.partition, replicas.next_offset, ends[key], sizes[key], empty.get(key, 0))
            for key, replicas in before.items()
        ),
        command.application,
        command.label,
        changes,
    )


def _producer_spans(slices: Sequence[NewSlice]) -> dict[TopicPartition, list[ProducerSpan]]:
    spans: dict[TopicPartition, list[ProducerSpan]] = {}
    for slice_ in slices:
        if slice_.producer is not None:
            spans.setdefault(TopicPartition(slice_.topic_id, slice_.partition), []).append(slice_.producer)
    if spans and any(slice_.producer is None for slice_ in slices):
        raise InvalidInput("an append comes from a producer or from none: some of its slices have sequences, some not")
    return spans


def _check_committed(state: ClusterState, topic_partition: TopicPartition, end: Offset, place: str) -> None:
    """Check that every in-sync replica has a repeated batch, which ends at `end`, so that acks=all may be confirmed.

    Raises RequestTimedOut if not, and NotEnoughReplicasAfterAppend if too few replicas are in sync. `place`: the name
    of the partition, for errors.
    """
    replicas = state.partitions[topic_partition].replication
    with named_in_errors(place):
        if not committed(replicas, end, min_isr_of(state, topic_partition.topic_id), named=True):
            raise RequestTimedOut(
                f"the batch is written up to offset {end}, the high watermark is {replicas.high_watermark}: send it "
                f"again until the stores in sync, {list(replicas.isr)}, have it",
                landed=Landed.YES,
            )


def is_replicated(state: ClusterState, ranges: Sequence[AppendedRange]) -> bool:
    """True if the records of a write with `acks=all` and `pull` are on every in-sync replica; False if not yet.

    Raises UnknownTopicOrPartition if the topic was deleted, NotLeaderOrFollower if an election gave up the records, and
    NotEnoughReplicasAfterAppend if too few replicas are in sync.
    """
    replicated = True
    for written in ranges:
        topic_partition = TopicPartition(written.topic_id, written.partition)
        value = existing_partition(state, topic_partition).replication
        last = OffsetRange(Offset(written.end - 1), written.end)
        named = value.log_start >= written.end or len(state.slices.find(topic_partition, last)) > 0
        with named_in_errors(partition_name(state, topic_partition)):
            done = committed(value, written.end, min_isr_of(state, written.topic_id), named=named)
        replicated = replicated and done
    return replicated


def _check_names(command: Append) -> None:
    check_write_name("writeId", command.label)
    if command.application is not None:
        check_write_name("txnAppId", command.application.app_id)
        check_write_name("the id of the run", command.application.run)
        check_write_name("txnDigest", command.application.made_of)


def _check_shape(state: ClusterState, command: Append) -> None:
    if not command.slices and command.application is None and command.consumed is None:
        raise InvalidInput("an append names at least one slice, an application's version or offsets; found none")
    check_uploads(state, command.objects, command.slices, ObjectKind.APPEND)


def _check_fence(state: ClusterState, fence: ProducerEpoch | None) -> None:
    """Raise InvalidProducerEpoch if a newer instance of `fence`, the producer of a transaction, has begun.

    If `fence` is None, the append is no transaction.
    """
    known = None if fence is None else state.producers.get(ProducerId(fence.producer_id))
    if fence is not None and known is not None and known.producer_epoch > fence.producer_epoch:
        raise InvalidProducerEpoch(
            f"producer {fence.producer_id} is at epoch {known.producer_epoch}, the transaction has epoch "
            f"{fence.producer_epoch}: a newer instance is active"
        )


def check_holder(state: ClusterState, holder: Holder) -> Store:
    """Return the holder's store. Raises StaleBrokerEpoch unless the store still has the holder's registration."""
    store = state.stores.get(holder.store)
    if store is None or store.registration != holder.registration or store.fenced:
        registered = "not registered" if store is None else f"registered as {store.registration}"
        registered += " and fenced" if store is not None and store.fenced else ""
        raise StaleBrokerEpoch(
            f"an object names store {holder.store} as {holder.registration}, the store is {registered}"
        )
    return store


def _partitions(state: ClusterState, command: Append) -> dict[TopicPartition, Replication]:
    """Return the replicas of the partitions written to.

    Checks that the partitions exist, that the command's epochs are current, and that no topic is internal.
    """
    epochs = {TopicPartition(begun.topic_id, begun.partition): begun.leader_epoch for begun in command.epochs}
    replicas_of: dict[TopicPartition, Replication] = {}
    for slice_ in command.slices:
        topic_partition = TopicPartition(slice_.topic_id, slice_.partition)
        if topic_partition in replicas_of:
            continue
        replicas = replicas_of[topic_partition] = existing_partition(state, topic_partition).replication
        check_not_internal(state.topics[slice_.topic_id].name)
        epoch = epochs.get(topic_partition)
        if epoch is None:
            raise InvalidInput(f"an append to {partition_name(state, topic_partition)} names no leader epoch for it")
        if epoch != replicas.leader_epoch:
            with named_in_errors(partition_name(state, topic_partition)):
                check_epoch(replicas, epoch)
    return replicas_of


def _replicas_after(
    state: ClusterState, command: Append, replicas_of: Mapping[TopicPartition, Replication]
) -> tuple[PartitionChange, ...]:
    """Return the changes of replicas that must be recorded with the write, at most one for each partition.

    A partition has a change if after the write some replica lacks a part of the log, or if a move ends with the write.
    A write with an application, with `consumed` or to several partitions needs acks=all without `pull`, or raises
    InvalidRequiredAcks. If partitions refuse the write, raises the error of the first one.
    """
    is_more = command.application is not None or command.consumed is not None or len(replicas_of) > 1
    if (command.acks is not Acks.ALL or command.pull) and is_more:
        raise InvalidRequiredAcks(
            "a write with txnAppId or offsets of a group, or to several partitions at once, needs acks=all on every "
            f"in-sync store, so that an election can't undo a part of it; found acks={command.acks.name.lower()}"
            + (" with replication=pull" if command.pull else "")
        )
    holders = [frozenset(holder.store for holder in object_.holders) for object_ in command.objects]
    unusual = {key: None for key, replicas in replicas_of.items() if not is_fully_replicated(replicas)}
    everywhere = frozenset.intersection(*holders) if holders else frozenset()
    if not all(everywhere.issuperset(stores) for stores in {replicas.replicas for replicas in replicas_of.values()}):
        for new in command.slices:  # slow, so only if some object is not on every replica
            topic_partition = TopicPartition(new.topic_id, new.partition)
            if not holders[new.object_index].issuperset(replicas_of[topic_partition].replicas):
                unusual[topic_partition] = None
    held: dict[TopicPartition, list[HeldSlice]] = {topic_partition: [] for topic_partition in unusual}
    if unusual:
        for new in command.slices:  # one pass for all partitions: there may be many partitions with many slices each
            of_partition = held.get(TopicPartition(new.topic_id, new.partition))
            if of_partition is not None:
                of_partition.append(HeldSlice(new.offset_count, holders[new.object_index]))
    changes = []
    for topic_partition, slices in held.items():
        before = replicas_of[topic_partition]
        with named_in_errors(partition_name(state, topic_partition)):
            after = _appended(command, before, slices, min_isr_of(state, topic_partition.topic_id))
        change = change_from(appended_everywhere(before, after.next_offset), after, topic_partition)
        changes += [change] if change is not None else []
    return tuple(changes)


def _appended(command: Append, before: Replication, held: Sequence[HeldSlice], min_isr: int) -> Replication:
    """Return the replicas of one partition after the write. `held`: the write's slices in that partition.

    If the leader's store lacks some of these slices and the command has `take_over`, another replica becomes the
    leader.
    """
    everywhere = frozenset.intersection(*(slice_.holders for slice_ in held))
    if command.take_over and before.leader not in everywhere:
        before = take_over(before, everywhere, min_isr)
    return append(before, held, command.acks, before.leader_epoch, min_isr, pull=command.pull)


def min_isr_of(state: ClusterState, topic_id: TopicId) -> int:
    """Return `min.insync.replicas` of a topic."""
    return state.topic_config(state.topics[topic_id]).min_insync_replicas


def _check_keys(state: ClusterState, command: Append) -> None:
    """Refuse records without a key in a topic that became compacted after they were uploaded."""
    for topic_id in command.keyless:
        topic = state.topics.get(topic_id)
        if topic is not None and state.topic_config(topic).compact:
            raise InvalidRecord(
                f"topic {topic.name} is compacted, so each record needs a key; found records without one in a write "
                "that was begun before cleanup.policy was set to compact"
            )


@contextmanager
def named_in_errors(place: str) -> Iterator[None]:
    """Prefix the message of a SparklogError raised in the block with `place`, the name of a partition."""
    try:
        yield
    except SparklogError as error:
        raise type(error)(f"{place}: {error.message}", landed=error.landed) from error


def partition_name(state: ClusterState, topic_partition: TopicPartition) -> str:
    """Return the partition as TOPIC-NUMBER, for messages."""
    topic = state.topics.get(topic_partition.topic_id)
    name = f"topic id {topic_partition.topic_id}" if topic is None else topic.name
    return f"{name}-{topic_partition.partition}"
