"""Plans reads: from an offset range of a partition to the slices that cover it, and from many ranges to tasks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter

import msgspec
import numpy as np

from sparklog.core.errors import OffsetOutOfRange
from sparklog.core.lookup import existing_partition
from sparklog.core.placement.held_slices import Holding, named_object
from sparklog.core.reading.positions import Position, check_same_log
from sparklog.core.row_offsets import are_dense, most_records, offset_after, records_between
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import (
    EntryNumber,
    LeaderEpoch,
    NamedObject,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    StoreId,
    TopicId,
    TopicPartition,
)


class SliceToRead(msgspec.Struct, frozen=True, array_like=True):
    """A slice to read, its object, and the stores that hold it, in the order in which to try them."""

    slice: Slice
    object: NamedObject
    stores: tuple[StoreId, ...]


class RangeToRead(msgspec.Struct, frozen=True, array_like=True):
    """Offsets [start, end) of one partition, and the slices that cover them, ascending.

    The read was planned with the state of cluster `chain_id` after entry `planned_at`, in which the partition was at
    `leader_epoch`. `lost`: ranges that overlap [start, end), and that an unclean election or an operator gave up.
    """

    topic: str
    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    slices: tuple[SliceToRead, ...]
    planned_at: EntryNumber
    chain_id: str
    leader_epoch: LeaderEpoch
    lost: tuple[OffsetRange, ...] = ()

    def position_at(self, offset: Offset) -> Position:
        """The position of a reader that has read this range up to `offset`."""
        return Position(self.chain_id, self.topic_id, self.partition, offset, self.leader_epoch)


class WeighedRange(msgspec.Struct, frozen=True, array_like=True):
    """Offsets [start, end) of a partition, their stored bytes and their records, for sizing tasks.

    `marks`: pairs of an offset and the number of the range's records below it, ascending; the first is (start, 0), the
    last (end, all records). Records between two marks count as evenly spread, although in a compacted slice they may
    not be; a gap between slices has none. `marks` is None if every offset has a record.
    """

    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    size_bytes: int
    marks: tuple[tuple[int, int], ...] | None = None

    @property
    def records(self) -> int:
        """The number of records in the range."""
        return records_between(self.start, self.end) if self.marks is None else self.marks[-1][1]

    def after(self, records: int) -> Offset:
        """Return the offset after the first `records` records of the range: its end if it has no more than these.

        It is an estimate if the range has `marks`. `records` may be 0 only if the range has none.
        """
        if records >= self.records:
            return self.end
        if self.marks is None:
            return offset_after(self.start, records)
        at = bisect_right(self.marks, records, key=itemgetter(1))
        (low, before), (high, after) = self.marks[at - 1 : at + 1]
        return Offset(low + (high - low) * (records - before) // (after - before))


def check_range(topic: str, partition: Partition, start: int, end: int) -> OffsetRange:
    """Return [start, end) if it is a range between log start and high watermark, else raise OffsetOutOfRange (S-10)."""
    if start > end:
        raise OffsetOutOfRange(f"{topic}-{partition.partition}: the start {start} is greater than the end {end}")
    if start < partition.log_start or end > partition.high_watermark:
        raise OffsetOutOfRange(
            f"{topic}-{partition.partition}: wanted [{start}, {end}), the readable range is "
            f"[{partition.log_start}, {partition.high_watermark})"
        )
    return OffsetRange(Offset(start), Offset(end))


def plan_range(
    state: ClusterState, topic: Topic, partition: int, offsets: OffsetRange, most_slices: int | None = None
) -> RangeToRead:
    """Plan a read of `offsets`, which must lie between log start and high watermark (see `check_range`).

    With `most_slices`, the plan covers at most that many slices, and may end before the end of `offsets`.
    """
    key = TopicPartition(topic.topic_id, PartitionIndex(partition))
    planned = state.partitions[key]
    slices = state.slices.find(key, offsets) if offsets.start < offsets.end else None
    if slices is not None and most_slices is not None and len(slices) > most_slices:
        rest = max(offsets.start, int(slices.columns["start"][most_slices]))
        offsets, slices = OffsetRange(offsets.start, Offset(rest)), slices.rows(0, most_slices)
    return RangeToRead(
        topic.name,
        topic.topic_id,
        key.partition,
        offsets.start,
        offsets.end,
        slices_to_read(state, planned, () if slices is None else slices),
        EntryNumber(state.n),
        state.chain_id,
        planned.replication.leader_epoch,
        tuple(lost for lost in planned.replication.lost if lost.start < offsets.end and lost.end > offsets.start),
    )


def replanned(state: ClusterState, plan: RangeToRead, at: Offset) -> RangeToRead:
    """Plan the rest of a read, [at, plan.end), again with a newer state. Offsets below the log start are left out.

    Raises InconsistentClusterId (the state is of another cluster), UnknownTopicOrPartition (the topic was deleted),
    UnknownLeaderEpoch (the state is older than the plan).
    """
    check_same_log(state, plan.position_at(at))
    partition = existing_partition(state, TopicPartition(plan.topic_id, plan.partition))
    start = min(max(at, partition.log_start), plan.end)
    rest = OffsetRange(Offset(start), plan.end)
    return plan_range(state, state.topics[plan.topic_id], plan.partition, rest)


def slices_to_read(state: ClusterState, partition: Partition, slices: Iterable[Slice]) -> tuple[SliceToRead, ...]:
    """The slices of a partition, each with its object and the stores that can provide it."""
    holding = Holding(state, partition)
    readable = []
    for slice_ in slices:
        named = named_object(state, slice_)
        readable.append(SliceToRead(slice_, named, holding.of(slice_.end, named.object.holders)))
    return tuple(readable)


def weigh(state: ClusterState, topic_id: TopicId, partition: PartitionIndex, offsets: OffsetRange) -> WeighedRange:
    """Return the range with its stored bytes and records, estimated by offsets where the range cuts a slice."""
    slices = state.slices.find(TopicPartition(topic_id, partition), offsets)
    marks = _marks(slices, offsets)
    return WeighedRange(topic_id, partition, offsets.start, offsets.end, _stored_bytes(slices, offsets), marks)


def _marks(slices: SliceColumns, offsets: OffsetRange) -> tuple[tuple[int, int], ...] | None:
    starts, ends, records = (slices.columns[name] for name in ("start", "end", "records"))
    dense = are_dense(slices.columns)
    if dense.all() and most_records(slices.columns, offsets) == records_between(offsets.start, offsets.end):
        return None
    begins_run = np.ones(len(slices), dtype=np.bool_)
    begins_run[1:] = ~dense[1:] | ~dense[:-1] | (starts[1:] != ends[:-1])
    marks = [(int(offsets.start), 0)]
    for low, high in pairwise([*np.flatnonzero(begins_run).tolist(), len(slices)]):
        start, end = max(int(starts[low]), offsets.start), min(int(ends[high - 1]), offsets.end)
        before = marks[-1][1]
        share = int(records[low:high].sum()) * (end - start) // int(ends[high - 1] - starts[low])
        marks += [(start, before), (end, before + max(share, 1))]
    marks.append((int(offsets.end), marks[-1][1]))
    return tuple(dict.fromkeys(marks))


def _stored_bytes(slices: SliceColumns, offsets: OffsetRange) -> int:
    if not len(slices):
        return 0
    lengths = slices.columns["length"]
    total = int(lengths.sum())
    for row, cut in (
        (0, records_between(int(slices.columns["start"][0]), offsets.start)),
        (-1, records_between(offsets.end, int(slices.columns["end"][-1]))),
    ):
        if cut > 0:
            whole = records_between(int(slices.columns["start"][row]), int(slices.columns["end"][row]))
            total -= int(lengths[row]) * cut // whole
    return max(total, 0)


def offset_after_bytes(state: ClusterState, key: TopicPartition, offsets: OffsetRange, size_bytes: int) -> Offset:
    """The offset after about the first `size_bytes` stored bytes of a range, at least one offset after its start.

    The bytes of a slice count as evenly spread over its offsets.
    """
    left = size_bytes
    for slice_ in state.slices.walk(key, offsets):
        start, end = max(slice_.start, offsets.start), min(slice_.end, offsets.end)
        whole = slice_.end - slice_.start
        own = slice_.length * (end - start) // whole
        if own > left:
            reached = start + whole * left // slice_.length
            return Offset(min(max(reached, offsets.start + 1), offsets.end))
        left -= own
    return offsets.end


def pack(
    ranges: Sequence[WeighedRange], max_bytes: int, max_records: int | None = None, min_tasks: int | None = None
) -> list[list[WeighedRange]]:
    """Divide ranges among tasks of at most about `max_bytes` each, and return the ranges of each task, in order.

    Large ranges are cut, small ones share a task. `ranges` must be ordered by topic, partition and start. A task has at
    most `max_records` records (of compacted slices, about that many). If there are fewer tasks than `min_tasks`, ranges
    are cut further in proportion to their records, as Spark's Kafka source does.
    """
    ranges = [range_ for range_ in ranges if range_.start < range_.end]
    cut = [part for range_ in ranges for part in _cut(range_, _pieces(range_, max_bytes, max_records))]
    tasks = _packed(cut, max_bytes, max_records)
    if min_tasks is None or len(tasks) >= min_tasks or not ranges:
        return tasks
    return [
        [part]
        for range_, share in zip(ranges, _shares(ranges, min_tasks), strict=True)
        for part in _cut(range_, max(share, _pieces(range_, max_bytes, max_records)))
    ]


def _shares(ranges: Sequence[WeighedRange], tasks: int) -> list[int]:
    """Divide `tasks` among the ranges in proportion to their records, and return the number for each range.

    A range whose part is about one task or less gets 1; the other ranges divide the rest.
    """
    records = [range_.records for range_ in ranges]
    total = sum(records)
    small = [_share(count, total, tasks) == 1 for count in records]
    others = sum(count for count, is_small in zip(records, small, strict=True) if not is_small)
    rest = max(1, tasks - sum(small))
    return [1 if is_small else _share(count, others, rest) for count, is_small in zip(records, small, strict=True)]


def _share(records: int, total: int, tasks: int) -> int:
    return max(1, (2 * records * tasks + total) // (2 * total)) if total else 1  # rounded half up, as Java does


def _pieces(range_: WeighedRange, max_bytes: int, max_records: int | None) -> int:
    by_bytes = -(-range_.size_bytes // max_bytes)
    by_records = -(-range_.records // max_records) if max_records else 1
    return max(1, by_bytes, by_records)


def _cut(range_: WeighedRange, pieces: int) -> Iterable[WeighedRange]:
    records = range_.records
    pieces = min(pieces, records)
    if not records:  # one gap: only its reader sees whether records were lost in it
        yield range_
        return
    edges = [records * index // pieces for index in range(pieces + 1)]
    for low, high in pairwise(edges):
        # These differences add up to the whole size.
        share = range_.size_bytes * high // records - range_.size_bytes * low // records
        start, end = range_.start if low == 0 else range_.after(low), range_.after(high)
        marks = None if range_.marks is None else ((int(start), 0), (int(end), high - low))
        yield WeighedRange(range_.topic_id, range_.partition, start, end, share, marks)


def _packed(ranges: Iterable[WeighedRange], max_bytes: int, max_records: int | None) -> list[list[WeighedRange]]:
    tasks: list[list[WeighedRange]] = []
    size_bytes = records = 0
    for range_ in ranges:
        own = range_.records
        full = size_bytes + range_.size_bytes > max_bytes or (max_records is not None and records + own > max_records)
        if not tasks or full:
            tasks.append([])
            size_bytes = records = 0
        tasks[-1].append(range_)
        size_bytes, records = size_bytes + range_.size_bytes, records + own
    return tasks
