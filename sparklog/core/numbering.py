"""How records are numbered. Only this module knows that the offsets of a log are dense.

An append gives its records consecutive offsets: record i of a slice has offset `slice.start + i`, and a range holds as
many records as offsets. Compaction will drop records and store the offsets of the others in a column. Then only this
module has to learn to read them from there; its callers stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparklog.core.types import Offset, OffsetRange, Slice


def offset_behind(start: int, records: int) -> Offset:
    """The next offset after `records` records that an append or a roll numbers from `start` on."""
    return Offset(start + records)


def offset_before(end: int, records: int) -> Offset:
    """The offset at which the last `records` records before `end` begin; below 0 if there can't be that many."""
    return Offset(end - records)


def records_between(start: int, end: int) -> int:
    """How many records have offsets in [start, end); negative if the start is greater than the end."""
    return end - start


def is_dense(slice: Slice) -> bool:
    """Whether every offset of the slice has a record, so that this version can number them."""
    return slice.records == records_between(slice.start, slice.end)


def within(slice: Slice, offsets: OffsetRange) -> OffsetRange | None:
    """The part of a range that lies in the slice, or None."""
    start, end = max(offsets.start, slice.start), min(offsets.end, slice.end)
    return OffsetRange(start, end) if start < end else None


@dataclass(frozen=True, slots=True)
class RowOffsets:
    """The offsets of the rows of a batch, or of a part of one, ascending."""

    start: Offset
    rows: int

    def at(self, row: int) -> Offset:
        """The offset of one row; rows count from 0."""
        return Offset(self.start + row)

    @property
    def behind(self) -> Offset:
        """The offset to continue from after these rows."""
        return Offset(self.start + self.rows)

    def rows_in(self, offsets: OffsetRange) -> tuple[int, int]:
        """The rows [low, high) whose offsets lie in the range."""
        low = min(max(offsets.start - self.start, 0), self.rows)
        return low, max(low, min(offsets.end - self.start, self.rows))

    def cut(self, low: int, high: int) -> RowOffsets:
        """The offsets of rows [low, high)."""
        return RowOffsets(self.at(low), high - low)

    def column(self) -> npt.NDArray[np.int64]:
        """One offset per row."""
        return np.arange(self.start, self.start + self.rows, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SliceOffsets:
    """Which offsets the batches of a slice hold: batch i has `records[i]`, in [starts[i], ends[i])."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    records: npt.NDArray[np.int32]

    @classmethod
    def of(cls, slice: Slice, records: npt.NDArray[np.int32]) -> SliceOffsets:
        """The offsets of a slice whose batches hold these numbers of records."""
        ends = slice.start + np.cumsum(records, dtype=np.int64)
        return cls(ends - records, ends, records)

    def batches_in(self, offsets: OffsetRange) -> tuple[int, int]:
        """The batches [begin, stop) that may hold records of the range."""
        begin = int(np.searchsorted(self.ends, offsets.start, side="right"))
        return begin, max(begin, int(np.searchsorted(self.starts, offsets.end, side="left")))

    def of_batch(self, batch: int) -> RowOffsets:
        """The offsets of a batch's rows."""
        return RowOffsets(Offset(int(self.starts[batch])), int(self.records[batch]))


def numbered_by_chain(offsets: OffsetRange, most_rows: int) -> Iterator[RowOffsets]:
    """The offsets of a slice's records in a range, from the chain alone, in parts of at most `most_rows` rows."""
    for start in range(offsets.start, offsets.end, most_rows):
        yield RowOffsets(Offset(start), min(offsets.end - start, most_rows))
