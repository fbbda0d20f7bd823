"""All live slices of a cluster, by partition and offset: blocks of columns, and a small tail of Python objects.

Ten million slices fit into one process. Finding a range costs a binary search in each block. Adding a slice costs O(log
n) amortised, and removing slices never reads the whole table.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from sparklog.core.tables.block_table import BlockTable, Columns
from sparklog.core.tables.column_blocks import Block, Column, make_block, without_rows
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import (
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    Slice,
    TopicId,
    TopicPartition,
)

Keys = TypeVar("Keys", int, Column)
WALKED_OFFSETS = (
    256  # width of the first window of `walk`, so at most as many slices; each further one is twice as wide
)
# A column has the name of the field that it holds, of `Slice` or `ProducerSpan`.
DTYPES: Mapping[str, str] = {
    "partition_key": "i8",  # topic id * 2^32 + partition
    "start": "i8",
    "end": "i8",
    "records": "i8",
    "object_number": "i8",
    "position": "i8",
    "length": "i8",
    "first_batch": "i4",
    "batches": "i4",
    "min_timestamp_us": "i8",
    "max_timestamp_us": "i8",
    "append_time_ms": "i8",
    "timestamp_source": "i1",
    "leader_epoch": "i4",
    "producer_id": "i8",  # -1 in the columns: none
    "producer_epoch": "i4",
    "first_sequence": "i4",
    "last_sequence": "i4",
}


def partition_key(topic_partition: TopicPartition) -> int:
    """Return a topic partition as one integer. These integers sort by topic id, then by partition."""
    return (topic_partition.topic_id << 32) | topic_partition.partition


def partition_keys(topic_id: TopicId, partitions: int) -> range:
    """Return the `partition_key` of each partition of a topic that has this many."""
    return range(topic_id << 32, (topic_id << 32) + partitions)


def topic_partition_of(partition_key: int) -> TopicPartition:
    """Return the topic partition whose `partition_key` this integer is."""
    topic_id, partition = split_keys(partition_key)
    return TopicPartition(TopicId(topic_id), PartitionIndex(partition))


def split_keys(keys: Keys) -> tuple[Keys, Keys]:
    """Return the topic id and the partition number in a `partition_key`, or in each key of a column."""
    return keys >> 32, keys & 0xFFFFFFFF


def _partition_key_of(slice: Slice) -> int:
    return (slice.topic_id << 32) | slice.partition


_SPAN_FIELDS = ProducerSpan.__struct_fields__
_NO_SPAN = ProducerSpan(ProducerId(-1), 0, 0, 0)
# The fields of a slice between its topic partition, which comes first, and its producer, which comes last.
_PLAIN_FIELDS = Slice.__struct_fields__[2:-1]
# For each column its type, and what takes its value from a slice, or from the slice's producer span.
_COLUMNS: tuple[tuple[str, np.dtype[Any], Callable[[Any], Any]], ...] = tuple(
    (name, np.dtype(dtype), _partition_key_of if name == "partition_key" else attrgetter(name))
    for name, dtype in DTYPES.items()
)


def slice_columns(slices: Sequence[Slice]) -> dict[str, Column]:
    """The slices as columns, one row each, in the order given."""
    spans = [slice_.producer or _NO_SPAN for slice_ in slices]
    return {
        name: np.fromiter(map(value_in, spans if name in _SPAN_FIELDS else slices), dtype, len(slices))
        for name, dtype, value_in in _COLUMNS
    }


@dataclass(frozen=True, slots=True)
class SliceColumns:
    """Slices as columns, ascending by partition and offset: no Python object for each."""

    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.columns["start"])

    def __iter__(self) -> Iterator[Slice]:
        topic_ids, partitions = (column.tolist() for column in split_keys(self.columns["partition_key"]))
        spans = zip(*[self.columns[name].tolist() for name in _SPAN_FIELDS], strict=True)
        producers = [None if span[0] < 0 else span for span in spans]
        plain = [self.columns[name].tolist() for name in _PLAIN_FIELDS]
        for values in zip(topic_ids, partitions, *plain, producers, strict=True):
            yield msgspec.convert(values, Slice)

    def rows(self, low: int, high: int) -> SliceColumns:
        """The slices in rows [low, high)."""
        return SliceColumns({name: column[low:high] for name, column in self.columns.items()})


def digest(slices: SliceColumns) -> str:
    """Return a SHA-256 that identifies these slices.

    It covers the offset range, object number, byte position and byte length of each slice.
    """
    seen = hashlib.sha256()
    for name in ("start", "end", "object_number", "position", "length"):
        seen.update(np.ascontiguousarray(slices.columns[name]).tobytes())
    return seen.hexdigest()


# A list of slices, ascending, and how many of its first slices belong to the run. A run that extends another one shares
# its list: the list only grows, behind what older runs count. The first run to append to a list shares it; others copy.
_Run = tuple[list[Slice], int]


class SliceTable(BlockTable):
    """Slices of all partitions. Live slices of a partition never overlap."""

    __slots__ = ("_tail_rows",)

    DTYPES = DTYPES
    ORDER = ("partition_key", "start")
    TAIL_ROWS = 8192

    _tail: CopyOnWriteMap[int, _Run]  # by partition key

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        super().__init__(blocks)
        self._tail_rows = 0

    def __len__(self) -> int:
        return sum(block.rows - block.dead_rows for block in self.blocks) + self._tail_rows

    def add(self, slices: Iterable[Slice]) -> None:
        """Add slices that overlap no other slice of their partitions."""
        tail, added = self._tail, tuple(slices)
        for slice_ in added:
            key = (slice_.topic_id << 32) | slice_.partition
            tail[key] = _with(tail.get(key), slice_)
        self._tail_rows += len(added)
        if self._tail_rows > self.TAIL_ROWS:
            self.seal()

    def _tail_columns(self) -> Columns:
        return slice_columns(list(chain.from_iterable(_slices(self._tail[key]) for key in sorted(self._tail))))

    def _clear_tail(self) -> None:
        super()._clear_tail()
        self._tail_rows = 0

    def tail_in(self, keys: Iterable[int]) -> tuple[Block, ...]:
        """Return the slices of these partitions that are in the tail, as a tuple of one block; () if there are none."""
        runs = [run for key in keys if (run := self._tail.get(key)) is not None]
        slices = [*chain.from_iterable(map(_slices, runs))]
        return (make_block(slice_columns(slices), self.ORDER),) if slices else ()

    def find(self, topic_partition: TopicPartition, offsets: OffsetRange) -> SliceColumns:
        """The slices that overlap `offsets`, ascending."""
        key = partition_key(topic_partition)
        parts: list[Mapping[str, Column]] = []
        for block in self.blocks:
            low, high = _row_range(block, key, offsets.start, offsets.end)
            if low < high:
                rows = block.live(low, high)
                if len(rows):
                    parts.append(_take(block, rows))
        run = self._tail.get(key)
        if run:
            slices, count = run
            low = bisect_right(slices, offsets.start, 0, count, key=_end)
            high = bisect_left(slices, offsets.end, 0, count, key=_start)
            if low < high:
                parts.append(slice_columns(slices[low:high]))
        return _by_start(parts)

    def of_partitions(self, keys: range, *names: str) -> Columns:
        """Return the columns `names` of all slices of these partitions (see `partition_keys`).

        The order of the rows is arbitrary.
        """
        parts = [self._columns(())]
        for block in (*self.blocks, *self.tail_in(keys)):
            low, high = np.searchsorted(block.columns["partition_key"], [keys.start, keys.stop]).tolist()
            rows = block.live(low, high)
            if len(rows):
                parts.append(_take(block, rows))
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def walk(self, topic_partition: TopicPartition, offsets: OffsetRange) -> Iterator[Slice]:
        """Yield the slices that overlap `offsets`, ascending. Looks up one window at a time: callers may stop early."""
        at, width = offsets.start, WALKED_OFFSETS
        while at < offsets.end:
            stop = Offset(min(at + width, offsets.end))
            for slice_ in self.find(topic_partition, OffsetRange(at, stop)):
                if slice_.start >= at or at == offsets.start:  # else the window before this one had it
                    yield slice_
            at, width = stop, 2 * width

    def everything(self) -> SliceColumns:
        """All slices of all partitions, ascending by partition and offset. Copies the whole table."""
        return SliceColumns(self.all_columns())

    def remove(self, topic_partition: TopicPartition, offsets: OffsetRange) -> SliceColumns:
        """Remove the slices that lie wholly inside `offsets`, and return them, ascending."""
        key = partition_key(topic_partition)
        parts: list[Mapping[str, Column]] = []
        blocks = list(self.blocks)
        for number, block in enumerate(blocks):
            low, high = _row_range(block, key, offsets.start, offsets.end)
            if low == high:
                continue
            rows = block.live(low, high)
            inside = (block.columns["start"][rows] >= offsets.start) & (block.columns["end"][rows] <= offsets.end)
            rows = rows[inside]
            if len(rows):
                parts.append(_take(block, rows))
                blocks[number] = without_rows(block, rows)
        self.blocks = tuple(blocks)
        run = self._tail.get(key)
        if run:
            tail = _slices(run)
            goes = [slice_ for slice_ in tail if slice_.start >= offsets.start and slice_.end <= offsets.end]
            if goes:
                parts.append(slice_columns(goes))
                stays = [slice_ for slice_ in tail if slice_.start < offsets.start or slice_.end > offsets.end]
                if stays:
                    self._tail[key] = (stays, len(stays))
                else:
                    del self._tail[key]
                self._tail_rows -= len(goes)
        return _by_start(parts)

    def remove_topic(self, topic_id: TopicId) -> Column:
        """Remove all slices of a topic. Returns the object number of each, in any order."""
        first, last = topic_id << 32, (topic_id << 32) | 0xFFFFFFFF
        numbers = [np.zeros(0, dtype=DTYPES["object_number"])]
        blocks = list(self.blocks)
        for at, block in enumerate(self.blocks):
            keys = block.columns["partition_key"]
            rows = block.live(int(np.searchsorted(keys, first)), int(np.searchsorted(keys, last, side="right")))
            if len(rows):
                numbers.append(block.columns["object_number"][rows])
                blocks[at] = without_rows(block, rows)
        self.blocks = tuple(block for block in blocks if block.dead_rows < block.rows)
        for key in [key for key in self._tail if first <= key <= last]:
            slices = _slices(self._tail.pop(key))
            self._tail_rows -= len(slices)
            numbers.append(np.array([slice_.object_number for slice_ in slices], dtype=DTYPES["object_number"]))
        return np.concatenate(numbers)


def _by_start(parts: Sequence[Columns]) -> SliceColumns:
    """Join parts, each with slices of the same partition, and sort the slices by start."""
    if len(parts) == 1:
        return SliceColumns(parts[0])
    if not parts:
        return SliceColumns(slice_columns(()))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in DTYPES}
    by_start = np.argsort(joined["start"], kind="stable")
    return SliceColumns({name: column[by_start] for name, column in joined.items()})


def _slices(run: _Run) -> list[Slice]:
    slices, count = run
    return slices[:count]


def _with(run: _Run | None, added: Slice) -> _Run:
    """Return a run of the slices in `run` (None: no slices) and `added`. `run` itself stays valid and unchanged."""
    if run is None:
        return [added], 1
    slices, count = run
    if slices[count - 1].start > added.start:
        slices = slices[:count]
        slices.insert(bisect_left(slices, added.start, key=_start), added)
        return slices, count + 1
    if len(slices) == count:
        slices.append(added)
    if slices[count] is not added:  # another run has extended this one first
        slices = [*slices[:count], added]
    return slices, count + 1


def _take(block: Block, rows: Column) -> Mapping[str, Column]:
    """Return the columns of some rows of a block. `rows` ascend; if they are contiguous, nothing is copied."""
    low, high = int(rows[0]), int(rows[-1]) + 1
    if high - low == len(rows):
        return {name: column[low:high] for name, column in block.columns.items()}
    return {name: column[rows] for name, column in block.columns.items()}


def _row_range(block: Block, key: int, start: int, end: int) -> tuple[int, int]:
    """Return the rows [low, high) of the partition `key` that overlap the offsets [start, end).

    No two rows of a partition overlap in a block, so both ends are found by bisection.
    """
    keys = block.columns["partition_key"]
    if not block.rows or key < keys[0] or key > keys[-1]:
        return (0, 0)
    low = int(np.searchsorted(keys, key, side="left"))
    high = int(np.searchsorted(keys, key, side="right"))
    ends, starts = block.columns["end"][low:high], block.columns["start"][low:high]
    return (
        low + int(np.searchsorted(ends, start, side="right")),
        low + int(np.searchsorted(starts, end, side="left")),
    )


def _start(slice_: Slice) -> Offset:
    return slice_.start


def _end(slice_: Slice) -> Offset:
    return slice_.end
