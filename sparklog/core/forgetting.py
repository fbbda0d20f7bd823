"""Removes slices from the state, with everything that depends on them.

An object that no slice names any more is retired, or removed if an election gave up its slices. If an election chooses
a leader that lacks some slices, the log forgets these slices (rule E4), and the state forgets the sequence numbers of
their records.

A clean election forgets only records above the high watermark. The state then forgets the results of their writes as
well, so that a repeat of such a write counts as a first write.

An unclean election may also forget committed records. The results of their writes stay, and report what is left
(`replication/lost_records.py`). The state notes the losses of each producer and application until it has been notified
of them. Groups that had consumed lost records go back to the offset where the loss begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from sparklog.core.idempotence.producers import sequence_after
from sparklog.core.records import AppendedRange, LostRecords, LostVersion
from sparklog.core.replication.lost_records import given_up
from sparklog.core.replication.partition_change import PartitionChange
from sparklog.core.state import ApplicationState, ClusterState, ProducerState, SequencedBatch, Topic
from sparklog.core.tables.column_blocks import Column
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, TopicPartition


def forget(state: ClusterState, changes: Iterable[PartitionChange]) -> dict[TopicPartition, int]:
    """Forget the slices that elections gave up. Returns their stored bytes by partition.

    An object that no slice names any more becomes an orphan, as if it had never been named. If the election was clean,
    a repeat of the command that named the object counts as a first write. The repeat may name the object again until
    FLOOR has passed the object's n0.
    """
    starts: dict[TopicPartition, Offset] = {}
    sizes: dict[TopicPartition, int] = {}
    gone: list[Column] = []
    taken: dict[TopicPartition, OffsetRange] = {}  # given up by unclean elections
    lost_from: dict[TopicPartition, Offset] = {}  # where the loss by unclean elections begins
    for change in changes:
        if change.forgotten_from is msgspec.UNSET:
            continue
        key = change.topic_partition
        starts[key] = change.forgotten_from
        removed = state.slices.remove(key, _whole_slices(state, key, change.forgotten_from))
        sizes[key] = stored_bytes(removed)
        orphans = _no_longer_named(state, removed.columns["object_number"])
        state.objects.remove_many(orphans.tolist())
        if change.lost is msgspec.UNSET:
            gone.append(orphans)
        else:
            if len(removed):
                columns = removed.columns
                taken[key] = OffsetRange(Offset(columns["start"][0].item()), Offset(columns["end"][-1].item()))
            lost_from[key] = change.forgotten_from
            _remember_losses(state, f"{state.topics[key.topic_id].name}-{key.partition}", removed)
    state.offsets.cut(lost_from)
    if gone:
        state.results.forget(np.concatenate(gone))
    if starts:
        _forget_sequences(state, starts)
        _forget_versions(state, taken)
    return sizes


def release(state: ClusterState, object_numbers: Column, delete_after_ms: int, topic: Topic) -> None:
    """Count slices of `topic` as forgotten, and retire the objects that have no slice left.

    `object_numbers`: the number of the object of each of these slices. The bytes of the retired objects may be deleted
    from `delete_after_ms` on.
    """
    gone = _no_longer_named(state, object_numbers)
    state.retired.add_all(gone, delete_after_ms, topic.name, topic.stores)


def _no_longer_named(state: ClusterState, object_numbers: Column) -> Column:
    """Count slices as forgotten, and return the numbers of the objects that have no slice left.

    `object_numbers`: the number of the object of each of these slices.
    """
    numbers, counts = np.unique(object_numbers, return_counts=True)
    firsts = state.objects.slice_counts(numbers)
    before = _released(state, numbers)
    counts += before
    is_gone = counts >= firsts
    for number in numbers[is_gone & (before > 0)].tolist():
        del state.released[ObjectNumber(number)]
    some = zip(numbers[~is_gone].tolist(), counts[~is_gone].tolist(), strict=True)
    state.released.put_all({ObjectNumber(number): count for number, count in some})
    gone: Column = numbers[is_gone]
    return gone


def stored_bytes(slices: SliceColumns) -> int:
    """Return the stored bytes of these slices, without indexes."""
    return int(slices.columns["length"].sum())


def _whole_slices(state: ClusterState, key: TopicPartition, start: Offset) -> OffsetRange:
    """Return the range from `start`, or from the beginning of the slice in which `start` lies, to the end of the log.

    `start` lies inside a slice only if the log start lies there, too. The new leader then has nothing of the slice, and
    the records below the log start were deleted before, so the whole slice is forgotten.
    """
    rest = OffsetRange(start, state.partitions[key].next_offset)
    starts = state.slices.find(key, rest).columns["start"]
    return OffsetRange(Offset(min(start, starts.item(0))), rest.end) if len(starts) else rest


def _released(state: ClusterState, numbers: Column) -> Column:
    """Return how many slices of each of these objects were forgotten earlier. `numbers` ascends."""
    counts = np.zeros(len(numbers), dtype=np.int64)
    if len(numbers) <= len(state.released):
        counts[:] = [state.released.get(ObjectNumber(number), 0) for number in numbers.tolist()]
    else:
        for number, count in state.released.items():
            at = int(numbers.searchsorted(number))
            if at < len(numbers) and numbers[at] == number:
                counts[at] = count
    return counts


def _forget_sequences(state: ClusterState, starts: Mapping[TopicPartition, Offset]) -> None:
    """Forget the parts of producers' batches that an election gave up.

    In each partition, the next batch of a producer then continues at the sequence number after those that are left.
    `starts`: in each partition, the first offset that was forgotten.
    """
    for producer in list(state.producers.values()):
        batches = dict(producer.batches)
        for key in starts.keys() & producer.batches.keys():
            known = batches.pop(key)
            left = tuple(_cut(batch, starts[key]) for batch in known if batch.start < starts[key])
            left = left or _last_batch(state, producer, key)
            if left:
                batches[key] = left
        if batches != producer.batches:
            state.producers[producer.producer_id] = msgspec.structs.replace(producer, batches=batches)


def _cut(batch: SequencedBatch, end: Offset) -> SequencedBatch:
    """Return the part of a batch below `end`, which is greater than `batch.start`."""
    if batch.end <= end:
        return batch
    last = sequence_after(batch.first_sequence, end - batch.start - 1)
    return msgspec.structs.replace(batch, last_sequence=last, end=end)


def _last_batch(state: ClusterState, producer: ProducerState, key: TopicPartition) -> tuple[SequencedBatch, ...]:
    """Return the newest slice of the producer's present epoch in the log, as a batch; () if the log has no such slice.

    Call this if all remembered batches of the producer in this partition were forgotten: it takes their place.
    """
    partition = state.partitions[key]
    columns = state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset)).columns
    own = (columns["producer_id"] == producer.producer_id) & (columns["producer_epoch"] == producer.producer_epoch)
    rows = np.flatnonzero(own)
    if not len(rows):
        return ()
    names = ("first_sequence", "last_sequence", "start", "end")
    first, last, start, end = (columns[name].item(rows[-1]) for name in names)
    return (SequencedBatch(first, last, Offset(start), Offset(end)),)


def _remember_losses(state: ClusterState, place: str, removed: SliceColumns) -> None:
    """Add to each producer the records that it lost: the offsets from its first to its last slice in `removed`.

    `removed` are the slices that an unclean election gave up in one partition. `place` is the name of the partition.
    """
    producer_ids = removed.columns["producer_id"]
    for producer_id in np.unique(producer_ids[producer_ids >= 0]).tolist():
        producer = state.producers.get(producer_id)
        if producer is not None:
            own = producer_ids == producer_id
            start, end = removed.columns["start"][own].min().item(), removed.columns["end"][own].max().item()
            lost = (*producer.lost, LostRecords(place, Offset(start), Offset(end)))
            state.producers[producer_id] = msgspec.structs.replace(producer, lost=lost)


def _forget_versions(state: ClusterState, taken: Mapping[TopicPartition, OffsetRange]) -> None:
    """Note for each application which records of its last version were given up by unclean elections.

    If nothing of that version is left, it no longer counts as written, so it can be written again. Older versions still
    count as written. `taken`: in each partition, the offsets of the slices that these elections gave up.
    """
    for app_id, known in list(state.applications.items()):
        written = known.result.ranges
        if not any(
            _overlaps(range_, taken.get(TopicPartition(range_.topic_id, range_.partition))) for range_ in written
        ):
            continue
        lost, is_whole = given_up(state, written)
        version, result = known.version, known.result
        if is_whole:
            version -= 1
            result = msgspec.structs.replace(result, ranges=(), records=0, application=None, label="")
        state.applications[app_id] = ApplicationState(
            version, result, LostVersion(known.version, lost, is_whole), known.runs
        )


def _overlaps(written: AppendedRange, taken: OffsetRange | None) -> bool:
    return taken is not None and written.start < taken.end and taken.start < written.end
