"""Applies the records of the chain to a state. No record is refused: `decide` has checked its command before.

Nothing else changes a state, except that `Draft.end_entry` (chain/head.py) sets `n`, `time_ms` and `coordinator` at the
end of each entry.

All that is computed here and in the functions that this file calls, such as `appended_everywhere`, is part of the
format: a change of it changes the meaning of old entries.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import msgspec
from msgspec import UNSET

from sparklog.core import records
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.coordination import Coordinator
from sparklog.core.forgetting import forget, release, stored_bytes
from sparklog.core.groups.membership import CommittedOffset, ConsumerGroup
from sparklog.core.idempotence.applications import runs_after
from sparklog.core.idempotence.producers import by_producer, joined, with_batches
from sparklog.core.maintenance.cleaner import within_log
from sparklog.core.maintenance.recovery_point import note_new_replicas
from sparklog.core.placement.assignment import Assignment
from sparklog.core.replication.partition import created
from sparklog.core.replication.partition_change import changed_by
from sparklog.core.replication.replica_append import appended_everywhere
from sparklog.core.replication.rewrites import move_log_start, rewritten_everywhere
from sparklog.core.state import (
    ApplicationState,
    ClusterState,
    CopiesLowered,
    Partition,
    ProducerState,
    SequencedBatch,
    Store,
    Topic,
)
from sparklog.core.tables.result_table import NO_OBJECT, AppliedBy, label_hash
from sparklog.core.types import (
    EntryNumber,
    NamedObject,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    Slice,
    TopicId,
    TopicPartition,
)


def apply_command(state: ClusterState, command: records.AppliedCommand, at: records.At) -> None:
    """Apply the records of one command of entry `at` to `state`, and remember the command's id with the number of the
    entry.

    The ids of three kinds of commands are not remembered. A repeated append of an idempotent producer is recognized by
    its sequence numbers. A repeated commit of a group member (without an append) is recognized by its commit number. A
    repeated CLAIM changes nothing.
    """
    for record in command.records:
        apply(state, record, at)
    appended = [record for record in command.records if isinstance(record, records.Appended)]
    if not any(_is_known_otherwise(record) for record in appended or command.records):
        first = _first_object(command)
        state.results.add(AppliedBy(command.command_id, at.n, command.n0, label_hash(_label(command)), first))


def _is_known_otherwise(record: records.Record) -> bool:
    """True if a repeat of the record's command is recognized without the command's id: see `apply_command`."""
    match record:
        case records.Appended():
            return by_producer(record.slices)
        case records.OffsetsCommitted():
            return record.member_id is not None
        case _:
            return isinstance(record, records.CoordinationClaimed)


def result_of(command: records.AppliedCommand, at: records.At) -> records.CommandResult:
    """Return the result that the command's author gets."""
    result = records.CommandResult(at.n, command.n0, at.time_ms)
    for record in command.records:
        match record:
            case records.Appended() | records.AppendedByReference():
                result = _append_result(record, command.n0, at)
            case records.TopicCreated():
                result = msgspec.structs.replace(result, topic_id=record.topic_id)
            case records.LossReported():
                result = msgspec.structs.replace(result, application=record.application, lost=record.lost)
            case records.ProducerAllocated():
                result = msgspec.structs.replace(
                    result, producer_id=record.producer_id, producer_epoch=record.producer_epoch
                )
            case _:
                pass
    return result


def _label(command: records.AppliedCommand) -> str:
    """Return the label of the command's last append; "" if the command has no append."""
    for record in reversed(command.records):
        if isinstance(record, records.Appended | records.AppendedByReference):
            return record.label
    return ""


def _first_object(command: records.AppliedCommand) -> int:
    """Return the number of the object that holds the first slice of the command's append to one partition.

    If an election removes this object from the state, nothing that the command wrote is left, and the state forgets the
    command's result (`forgetting.py`).

    Returns NO_OBJECT if the command appended nothing, or appended to several partitions. In that case an election in
    one of them gives up only a part of the append, so the state keeps the result.
    """
    for record in command.records:
        if isinstance(record, records.Appended) and len(record.ranges) == 1:
            return record.slices[0].object_number
    return NO_OBJECT


def apply(state: ClusterState, record: records.Record, at: records.At) -> None:
    """Apply one record of entry `at` to `state`. An `AppendedByReference` must have been expanded to an `Appended`."""
    match record:
        case records.Appended():
            _append(state, record, at)
        case records.SlicesSwapped():
            _swap(state, record)
        case records.LogStartMoved():
            _move_log_start(state, record)
        case records.CleanerMoved():
            state.cleaners[TopicPartition(record.topic_id, record.partition)] = record.cleaner
        case records.ObjectsDeleted():
            state.objects.remove_many(record.numbers)
            state.retired.remove_many(record.numbers)
        case records.FloorRaised():
            _raise_floor(state, record)
        case records.ApplicationsForgotten():
            for app_id in record.app_ids:
                state.applications.pop(app_id, None)
        case records.LossReported():
            _hear_of_loss(state, record)
        case records.ClusterCreated():
            state.chain_id, state.config = record.chain_id, record.config
        case records.ClusterRestored():
            _restore(state, record)
        case records.StoreRegistered():
            state.stores[record.store] = Store(
                record.store, record.registration, record.url, record.incarnation, record.zone, registered_at=at.n
            )
            state.next_registration = record.registration + 1
        case records.StoreFenced():
            store = state.stores[record.store]
            state.stores[record.store] = msgspec.structs.replace(store, registration=record.registration, fenced=True)
            state.next_registration = record.registration + 1
        case records.StoreRemoved():
            del state.stores[record.store]
        case records.AgentChanged():
            store = state.stores[record.store]
            state.stores[record.store] = msgspec.structs.replace(
                store, agent_up=record.up, had_agent=store.had_agent or record.up is True
            )
        case records.RecoveryPointMoved():
            store = state.stores[record.store]
            state.stores[record.store] = msgspec.structs.replace(store, recovery_point=record.to)
        case records.PartitionsChanged():
            note_new_replicas(state, record.changes, at)
            _change_partitions(state, record)
        case records.CoordinationClaimed():
            state.coordinator = Coordinator(record.epoch, record.name, record.address, at.n)
        case records.CoordinationResigned():
            state.coordinator = msgspec.structs.replace(state.coordinator, address="")
        case records.TopicCreated():
            topic = Topic(
                record.topic_id,
                record.name,
                len(record.assignment),
                record.config,
                at.time_ms,
                mirror_of=record.mirror_of,
            )
            state.topics[record.topic_id] = topic.on(store for replicas in record.assignment for store in replicas)
            state.topic_ids[record.name] = record.topic_id
            state.next_topic_id = record.topic_id + 1
            _add_partitions(state, record.topic_id, 0, record.assignment)
        case records.TopicPromoted():
            topic = state.topics[record.topic_id]
            state.topics[record.topic_id] = msgspec.structs.replace(
                topic, mirror_of=None, promoted_from=topic.mirror_of
            )
        case records.ClusterAltered():
            _alter_cluster(state, record, at)
        case records.TopicAltered():
            topic = state.topics[record.topic_id]
            state.topics[record.topic_id] = msgspec.structs.replace(topic, config=record.config)
        case records.PartitionsAdded():
            topic = state.topics[record.topic_id]
            total = record.first + len(record.assignment)
            wider = msgspec.structs.replace(topic, partitions=total)
            state.topics[record.topic_id] = wider.on(store for replicas in record.assignment for store in replicas)
            _add_partitions(state, record.topic_id, record.first, record.assignment)
        case records.TopicDeleted():
            _delete_topic(state, record)
        case records.ProducerAllocated():
            state.producers[record.producer_id] = _begun(state, record, at)
            state.next_producer_id = max(state.next_producer_id, record.producer_id + 1)
        case records.JobRan():
            state.jobs[record.job] = record
        case records.GroupChanged():
            state.groups[record.group.name] = record.group
            state.next_group_number = max(state.next_group_number, record.group.number + 1)
        case records.OffsetsCommitted():
            _commit_offsets(state, record, at)
        case records.OffsetsForgotten():
            _forget_offsets(state, record)
        case records.AppendedByReference():
            raise TypeError("an append by reference is expanded before it is applied")
        case _:
            assert_never(record)


def _restore(state: ClusterState, record: records.ClusterRestored) -> None:
    state.ancestors, state.chain_id = (*state.lineage, *record.given_up), record.chain_id
    state.coordinator = msgspec.structs.replace(state.coordinator, address="")
    for store, url in record.urls.items():
        state.stores[store] = msgspec.structs.replace(state.stores[store], url=url)


def _alter_cluster(state: ClusterState, record: records.ClusterAltered, at: records.At) -> None:
    before = effective_cluster(state.config).metadata_copies
    state.config = record.config
    if effective_cluster(state.config).metadata_copies < before:
        lowered = state.copies_lowered
        if lowered is not None and lowered.n == at.n:  # by an earlier command of this entry
            before = max(before, lowered.copies_before)
        state.copies_lowered = CopiesLowered(at.n, before)


def _add_partitions(state: ClusterState, topic_id: TopicId, first: int, assignment: Assignment) -> None:
    added = {}
    for index, replicas in enumerate(assignment, first):
        key = TopicPartition(topic_id, PartitionIndex(index))
        added[key] = Partition(topic_id, key.partition, created(replicas))
    state.partitions.put_all(added)


def _change_partitions(state: ClusterState, record: records.PartitionsChanged) -> None:
    forgotten = forget(state, record.changes)
    after = {}
    for change in record.changes:
        key = change.topic_partition
        before = state.partitions[key]
        size_bytes = before.size_bytes - forgotten.get(key, 0)
        after[key] = Partition(key.topic_id, key.partition, changed_by(change, before.replication), size_bytes)
        if change.forgotten_from is not UNSET:
            _keep_cleaner_within(state, key, after[key].log_start, change.forgotten_from)
        if change.replicas is not UNSET:
            state.topics[key.topic_id] = state.topics[key.topic_id].on(change.replicas)
    state.partitions.put_all(after)


def _append(state: ClusterState, record: records.Appended, at: records.At) -> None:
    _name_objects(state, record.objects, record.slices)
    state.slices.add(record.slices)
    after = {}
    keys = [TopicPartition(range_.topic_id, range_.partition) for range_ in record.ranges]
    for range_, key, before in zip(record.ranges, keys, state.partitions.get_all(keys), strict=True):
        replication = appended_everywhere(before.replication, range_.end)
        after[key] = Partition(key.topic_id, key.partition, replication, before.size_bytes + range_.size_bytes)
    for change in record.changes:
        plain = after[change.topic_partition]
        after[change.topic_partition] = msgspec.structs.replace(
            plain, replication=changed_by(change, plain.replication)
        )
    state.partitions.put_all(after)
    _remember_producers(state, record, at)
    if record.application is not None:
        result = _append_result(record, EntryNumber(at.n), at)
        runs = runs_after(state, record.application)
        state.applications[record.application.app_id] = ApplicationState(record.application.version, result, None, runs)


def _append_result(
    record: records.Appended | records.AppendedByReference, n0: EntryNumber, at: records.At
) -> records.CommandResult:
    total = sum(range_.records for range_ in record.ranges)
    return records.CommandResult(at.n, n0, at.time_ms, record.ranges, total, record.application, record.label)


def _hear_of_loss(state: ClusterState, record: records.LossReported) -> None:
    app_id = record.application.app_id
    known = state.applications.get(app_id)
    if known is not None:
        state.applications[app_id] = msgspec.structs.replace(known, lost=None)


def _remember_producers(state: ClusterState, record: records.Appended, at: records.At) -> None:
    spans: dict[TopicPartition, list[ProducerSpan]] = {}
    for slice_ in record.slices:
        if slice_.producer is not None:
            spans.setdefault(TopicPartition(slice_.topic_id, slice_.partition), []).append(slice_.producer)
    if not spans:
        return
    batches: dict[ProducerId, dict[TopicPartition, SequencedBatch]] = {}
    for written in record.ranges:
        key = TopicPartition(written.topic_id, written.partition)
        span = joined(spans[key], "")
        batch = SequencedBatch(span.first_sequence, span.last_sequence, written.start, written.end)
        batches.setdefault(span.producer_id, {})[key] = batch
    for producer_id, of_producer in batches.items():
        state.producers[producer_id] = with_batches(state.producers[producer_id], of_producer, _newest(state, at))


def _begun(state: ClusterState, record: records.ProducerAllocated, at: records.At) -> ProducerState:
    """Return the state of a producer at the beginning of a new epoch, in which it has no batches yet.

    The producer's `last_used_ms` never goes back. Otherwise the producer could be forgotten too early.
    """
    known = state.producers.get(record.producer_id)
    used_ms = max(_newest(state, at), 0 if known is None else known.last_used_ms)
    return ProducerState(record.producer_id, record.producer_epoch, used_ms)


def _newest(state: ClusterState, at: records.At) -> int:
    """Return the time in milliseconds of entry `at`, or of the entry before it if that is later.

    The entry before may be later, because the clock of the author of `at` may be slow.
    """
    return max(at.time_ms, state.time_ms)


def _name_objects(state: ClusterState, objects: tuple[NamedObject, ...], slices: tuple[Slice, ...]) -> None:
    if len(objects) == 1:
        state.objects.add(objects[0], len(slices))
        state.next_object_number = objects[0].number + 1
        return
    named_by = Counter(slice_.object_number for slice_ in slices)
    for named in objects:
        state.objects.add(named, named_by[named.number])
        state.next_object_number = named.number + 1


def _swap(state: ClusterState, record: records.SlicesSwapped) -> None:
    key = TopicPartition(record.topic_id, record.partition)
    removed = state.slices.remove(key, OffsetRange(record.start, record.end))
    _name_objects(state, record.objects, record.slices)
    state.slices.add(record.slices)
    release(state, removed.columns["object_number"], record.delete_after_ms, state.topics[record.topic_id])
    before = state.partitions[key]
    size_bytes = before.size_bytes - stored_bytes(removed) + sum(slice_.length for slice_ in record.slices)
    replication = rewritten_everywhere(before.replication)
    if record.change is not None:
        replication = changed_by(record.change, replication)
    state.partitions[key] = Partition(key.topic_id, key.partition, replication, size_bytes)


def _move_log_start(state: ClusterState, record: records.LogStartMoved) -> None:
    key = TopicPartition(record.topic_id, record.partition)
    removed = state.slices.remove(key, OffsetRange(Offset(0), record.to))
    release(state, removed.columns["object_number"], record.delete_after_ms, state.topics[record.topic_id])
    before = state.partitions[key]
    replication = move_log_start(before.replication, record.to)
    if record.change is not None:
        replication = changed_by(record.change, replication)
    size_bytes = before.size_bytes - stored_bytes(removed)
    state.partitions[key] = Partition(key.topic_id, key.partition, replication, size_bytes)
    _keep_cleaner_within(state, key, record.to, replication.next_offset)


def _keep_cleaner_within(state: ClusterState, key: TopicPartition, log_start: Offset, end: Offset) -> None:
    """Limit the partition's cleaner to the log [log_start, end): offsets outside do not count as cleaned (C-02)."""
    cleaner = state.cleaners.get(key)
    if cleaner is None:
        return
    left = within_log(cleaner, log_start, end)
    if left is None:
        del state.cleaners[key]
    elif left != cleaner:
        state.cleaners[key] = left


def _delete_topic(state: ClusterState, record: records.TopicDeleted) -> None:
    topic = state.topics[record.topic_id]
    release(state, state.slices.remove_topic(record.topic_id), record.delete_after_ms, topic)
    for index in range(topic.partitions):
        key = TopicPartition(record.topic_id, PartitionIndex(index))
        del state.partitions[key]
        state.cleaners.pop(key, None)
    del state.topics[record.topic_id]
    del state.topic_ids[topic.name]
    state.offsets.remove_topic(record.topic_id)
    for producer in list(state.producers.values()):
        kept = {key: value for key, value in producer.batches.items() if key.topic_id != record.topic_id}
        if len(kept) < len(producer.batches):
            state.producers[producer.producer_id] = msgspec.structs.replace(producer, batches=kept)


def _commit_offsets(state: ClusterState, record: records.OffsetsCommitted, at: records.At) -> None:
    group = state.groups.get(record.group) or ConsumerGroup(record.group, record.group_number)
    member = None if record.member_id is None else group.member(record.member_id)
    if member is not None:
        group = group.with_member(msgspec.structs.replace(member, renewed_at=at.n, commits=record.commit))
    state.groups[record.group] = group
    state.next_group_number = max(state.next_group_number, group.number + 1)
    committed_ms = _newest(state, at)
    state.offsets.put_all(
        group.number,
        {
            TopicPartition(offset.topic_id, offset.partition): CommittedOffset(
                offset.offset, offset.leader_epoch, offset.metadata, committed_ms
            )
            for offset in record.offsets
        },
    )


def _forget_offsets(state: ClusterState, record: records.OffsetsForgotten) -> None:
    for name in record.groups:
        state.offsets.remove_group(state.groups.pop(name).number)
    for forgotten in record.offsets:
        state.offsets.remove(state.groups[forgotten.group].number, forgotten.partitions)


def _raise_floor(state: ClusterState, record: records.FloorRaised) -> None:
    state.floor = record.floor
    state.results.drop_below(record.floor)
    for producer_id in record.expired_producers:
        state.producers.pop(producer_id, None)
