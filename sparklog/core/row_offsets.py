"""Offsets of the rows of a slice. Only this module knows how records are numbered.

An append gives its records consecutive offsets: record i of a slice has offset `slice.start + i`. Compaction drops
records, so a compacted slice has fewer records than offsets. The offsets of its remaining records are stored in a
column of its object, and the index has the first and the last offset of each batch. A compacted slice covers the
offsets of dropped records at its ends, too, so no gap is left between slices. Slices that a mirror appended are the
same if some of their offsets have no record in Kafka. All that is said here of compacted slices holds for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparklog.core.tables.column_blocks import Column
from sparklog.core.types import Offset, OffsetRange, Slice

Int64Array = npt.NDArray[np.int64]


def offset_after(start: int, records: int) -> Offset:
    """Return the offset after `records` records that an append or a roll numbers from `start` on."""
    return Offset(start + records)


def records_between(start: int, end: int) -> int:
    """Return the number of records to which an append gave offsets in [start, end); negative if start > end.

    Compaction may have left fewer of them. In a compacted slice only `Slice.records` and the rows themselves are exact.
    """
    return end - start


def is_dense(slice: Slice) -> bool:
    """True if every offset of the slice has a record. If not, the slice is compacted, and its object stores offsets."""
    return slice.records == records_between(slice.start, slice.end)


def are_dense(slices: Mapping[str, Column]) -> npt.NDArray[np.bool_]:
    """Return the result of `is_dense` for each slice. `slices`: the columns of a slice table."""
    dense: npt.NDArray[np.bool_] = slices["records"] == slices["end"] - slices["start"]
    return dense


def most_records(slices: Mapping[str, Column], offsets: OffsetRange) -> int:
    """Return the number of records in the range: exact unless the range cuts a compacted slice.

    `slices`: the columns of a slice table, with slices that overlap the range. A compacted slice that the range cuts
    counts with the largest number of records that it can have in the range.
    """
    return int(most_records_in_each(slices, offsets.start, offsets.end).sum())


def most_records_in_each(slices: Mapping[str, Column], start: int | Column, end: int | Column) -> Column:
    """Return the number of records of each slice in its range [start, end), as `most_records` counts them."""
    inside = np.minimum(slices["end"], end) - np.maximum(slices["start"], start)
    records: Column = np.clip(inside, 0, slices["records"])
    return records


def within(slice: Slice, offsets: OffsetRange) -> OffsetRange | None:
    """Return the part of the range `offsets` that lies in the slice, or None if they don't overlap."""
    start, end = max(offsets.start, slice.start), min(offsets.end, slice.end)
    return OffsetRange(start, end) if start < end else None


@dataclass(frozen=True, slots=True, eq=False)
class RowOffsets:
    """The offsets of the rows of a batch, or of a part of one, ascending.

    Row i has offset `start + i`, or `stored[i]` if the batch belongs to a compacted slice. Then `start` is `stored[0]`.
    """

    start: Offset
    rows: int
    stored: Int64Array | None = None

    @classmethod
    def of_column(cls, stored: Int64Array) -> RowOffsets:
        """Return the offsets in `stored`: the offset column of a batch in a compacted segment, or a part of the column.

        `stored` must not be empty.
        """
        return cls(Offset(int(stored[0])), len(stored), stored)

    def at(self, row: int) -> Offset:
        """Return the offset of row `row`, counted from 0."""
        return Offset(self.start + row if self.stored is None else int(self.stored[row]))

    @property
    def end(self) -> Offset:
        """The offset after the last row, at which a reader continues."""
        return Offset(self.start + self.rows if self.stored is None else int(self.stored[-1]) + 1)

    def rows_in(self, offsets: OffsetRange) -> tuple[int, int]:
        """Return the rows [low, high) whose offsets lie in the range."""
        if self.stored is not None:
            low = int(np.searchsorted(self.stored, offsets.start))
            return low, max(low, int(np.searchsorted(self.stored, offsets.end)))
        low = min(max(offsets.start - self.start, 0), self.rows)
        return low, max(low, min(offsets.end - self.start, self.rows))

    def cut(self, low: int, high: int) -> RowOffsets:
        """Return the offsets of rows [low, high). In a compacted slice, `low` must be less than `high`."""
        if self.stored is not None:
            return RowOffsets.of_column(self.stored[low:high])
        return RowOffsets(self.at(low), high - low)

    def column(self) -> Int64Array:
        """The offset of each row, as an array."""
        if self.stored is not None:
            return self.stored
        return np.arange(self.start, self.start + self.rows, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SliceOffsets:
    """The offsets of the batches of a slice: batch i has `records[i]` records, with offsets in [starts[i], ends[i]).

    `are_stored`: the slice is compacted. Then the offset column of a batch says which of these offsets have records.
    """

    starts: Int64Array
    ends: Int64Array
    records: npt.NDArray[np.int32]
    are_stored: bool = False

    @classmethod
    def of(cls, slice: Slice, records: npt.NDArray[np.int32]) -> SliceOffsets:
        """Return the offsets of a dense slice. `records`: the number of records in each of its batches."""
        ends = slice.start + np.cumsum(records, dtype=np.int64)
        return cls(ends - records, ends, records)

    @classmethod
    def stored(
        cls, slice: Slice, records: npt.NDArray[np.int32], base: Int64Array, last: Int64Array
    ) -> SliceOffsets | None:
        """Return the offsets of a compacted slice; None if they can't be right.

        `records`: the number of records in each batch; `base` and `last`: the first and the last offset of each batch.
        They can't be right if they do not ascend, leave the slice, or have less room in a batch than it has records.
        """
        inside = (base >= slice.start) & (base <= last) & (last < slice.end)  # so no difference below can overflow
        if not inside.all() or (base[1:] <= last[:-1]).any() or (last - base < records - 1).any():
            return None
        return cls(base, last + 1, records, True)

    def batches_in(self, offsets: OffsetRange) -> tuple[int, int]:
        """Return the batches [begin, stop) that may have records in the range."""
        begin = int(np.searchsorted(self.ends, offsets.start, side="right"))
        return begin, max(begin, int(np.searchsorted(self.starts, offsets.end, side="left")))

    def of_batch(self, batch: int) -> RowOffsets:
        """Return the offsets of the rows of batch number `batch`, in a dense slice."""
        assert not self.are_stored
        return RowOffsets(Offset(int(self.starts[batch])), int(self.records[batch]))

    def of_column(self, batch: int, column: Int64Array) -> RowOffsets | None:
        """Return the offsets of the rows of batch number `batch` in a compacted slice, from its offset column.

        Returns None if the column does not ascend, or does not fit the batch's record count, first and last offset.
        """
        fits = (
            len(column) == self.records[batch]
            and (column[0], column[-1] + 1) == (self.starts[batch], self.ends[batch])
            and bool((np.diff(column) > 0).all())
        )
        return RowOffsets.of_column(column) if fits else None


def end_of_records(slices: Iterable[Slice], offsets: OffsetRange, most: int) -> Offset:
    """Return the offset after the first `most` records of the range; the end of the range if it has fewer.

    `slices` cover the range, in order. Counting stops at the first compacted slice, because only reading shows how many
    records lie in a part of it. Then the result is the end of that slice, or the end of the range if that comes first.
    """
    left = most
    for slice in slices:
        inside = within(slice, offsets)
        if inside is None:
            continue
        if not is_dense(slice):
            return inside.end
        if inside.end - inside.start >= left:
            return offset_after(inside.start, left)
        left -= inside.end - inside.start
    return offsets.end


def numbered_by_chain(offsets: OffsetRange, most_rows: int) -> Iterator[RowOffsets]:
    """Yield the offsets in a range of a dense slice, in parts of at most `most_rows` rows. Needs no index."""
    for start in range(offsets.start, offsets.end, most_rows):
        yield RowOffsets(Offset(start), min(offsets.end - start, most_rows))
