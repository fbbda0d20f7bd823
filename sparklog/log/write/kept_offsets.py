"""The offsets that the rows of a write to a mirror topic keep.

In each partition, rows of one kind of timestamp that follow each other are a run, and each run becomes slices of its
own. If every offset of a run has a row, its records are stored as those of any other topic; otherwise their offsets are
stored beside them, as in compacted segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat
from msgspec.structs import replace

from sparklog.core.decide.append import OFFSETS_END
from sparklog.core.errors import InvalidInput, OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.core.row_offsets import Int64Array, offset_after
from sparklog.core.types import NewSlice, Offset, OffsetRange, TimestampSource
from sparklog.log.number_arrays import array_of
from sparklog.log.stored_schema import OFFSET, RAW, RAW_WITH_OFFSETS, StoredSchema

_SOURCES: Final = (TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN)  # by Kafka's timestampType


class WriterKey(NamedTuple):
    """The properties that all rows of one topic writer share.

    `number`: the number of their run in its partition, from 0. `stores_offsets`: their objects store offsets. `source`:
    that of their timestamps; None if the topic's config gives it.
    """

    number: int
    stores_offsets: bool
    source: TimestampSource | None

    @property
    def schema(self) -> StoredSchema:
        """The columns of the objects."""
        return RAW_WITH_OFFSETS if self.stores_offsets else RAW


PLAIN: Final = WriterKey(0, stores_offsets=False, source=None)  # rows that get new offsets


@dataclass(frozen=True, slots=True, eq=False)
class KeptOffsets:
    """The partition, the offset and the type of timestamp of each row of a write.

    `ends`: for some partitions, the offset up to which the write covers it, beyond its last row.
    """

    partitions: Int64Array
    offsets: Int64Array
    types: Int64Array
    ends: Mapping[int, int]

    @classmethod
    def of(cls, rows: pa.Table | pa.RecordBatch, ends: Mapping[int, int]) -> KeptOffsets:
        """Take the columns `partition`, `offset` and, if there is one, `timestampType` of the rows.

        Raises InvalidInput if one is missing, is no integer, or has nulls.
        """
        types = np.zeros(rows.num_rows, np.int64)
        if "timestampType" in rows.schema.names:
            types = _numbers(rows, "timestampType")
        if ((types != 0) & (types != 1)).any():
            raise InvalidInput("column 'timestampType': wanted 0 (create time) or 1 (append time), found others")
        return cls(_numbers(rows, "partition"), _numbers(rows, "offset"), types, ends)

    def runs(self, topic: str, next_offsets: Sequence[Offset]) -> Runs:
        """Divide the rows into runs. `next_offsets[p]`: the next offset of partition p of the topic.

        Raises OffsetOutOfRange if offsets are below the next offset, UnknownTopicOrPartition, and InvalidInput if they
        do not ascend, or if an end is not after the last row.
        """
        most = len(next_offsets)
        outside = self.partitions[(self.partitions < 0) | (self.partitions >= most)]
        if len(outside):
            raise UnknownTopicOrPartition(f"wanted a partition from 0 to {most - 1} of {topic}, found {outside[0]}")
        without_rows = sorted(set(self.ends) - set(np.unique(self.partitions).tolist()))
        if without_rows:
            raise InvalidInput(
                f"ends: wanted partitions of {topic} that have rows here, found {without_rows[:5]}: the next row there "
                "covers the empty offsets before it"
            )
        beyond = self.offsets[self.offsets >= OFFSETS_END]  # so no sum below can overflow
        if len(beyond):
            raise InvalidInput(f"{topic}: wanted offsets below {OFFSETS_END}, found {beyond[0]}")
        order = np.argsort(self.partitions, kind="stable")
        partitions, offsets, types = self.partitions[order], self.offsets[order], self.types[order]
        first = np.ones(len(order), dtype=np.bool_)  # rows that are the first of their partition
        first[1:] = partitions[1:] != partitions[:-1]
        before = np.empty(len(order), dtype=np.int64)  # each row's offset is at least this
        before[1:] = offsets[:-1] + 1
        before[first] = np.array(next_offsets, dtype=np.int64)[partitions[first]]
        low = np.flatnonzero(offsets < before)
        if len(low):
            place, offset, least = f"{topic}-{partitions[low[0]]}", offsets[low[0]], before[low[0]]
            if first[low[0]]:
                raise OffsetOutOfRange(f"{place}: wanted offsets from the next offset {least} on, found {offset}")
            raise InvalidInput(f"{place}: wanted ascending offsets, found {offset} after {least - 1}")
        begins = first.copy()
        begins[1:] |= types[1:] != types[:-1]
        return self._divided(topic, order, begins, before)

    def _divided(self, topic: str, order: Int64Array, begins: npt.NDArray[np.bool_], before: Int64Array) -> Runs:
        """Number the runs. `begins`: the rows, in this order, that begin a run; it covers offsets from `before` on."""
        starts = np.flatnonzero(begins)
        stops = np.append(starts[1:], len(order))[: len(starts)]  # without rows, there are no runs
        keys: list[WriterKey] = []
        number, last = 0, -1
        next_offsets: dict[int, Offset] = {}
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            partition = int(self.partitions[order[start]])
            number = number + 1 if partition == last else 0
            last = partition
            end = int(self.offsets[order[stop - 1]]) + 1
            if stop == len(order) or int(self.partitions[order[stop]]) != partition:
                end = self._end(topic, partition, end)
            next_offsets.setdefault(partition, Offset(int(before[start])))
            is_dense = end - int(before[start]) == stop - start
            keys.append(WriterKey(number, not is_dense, _SOURCES[int(self.types[order[start]])]))
        of_rows = np.empty(len(order), dtype=np.int64)
        of_rows[order] = np.cumsum(begins) - 1
        return Runs(keys, of_rows, self.offsets, next_offsets, self.ends)

    def _end(self, topic: str, partition: int, end: int) -> int:
        """Return the end of a partition's part of the write, whose last row is just below `end`."""
        wanted = self.ends.get(partition, end)
        if not end <= wanted <= OFFSETS_END:
            raise InvalidInput(
                f"{topic}-{partition}: wanted an end after the last row, from {end} on, up to {OFFSETS_END}, found "
                f"{wanted}"
            )
        return wanted


class Runs:
    """Divides the batches of a write into parts for the topic writers, and names the offsets of their slices.

    Call `parts` with each batch, in order; then `named`.
    """

    def __init__(
        self,
        keys: Sequence[WriterKey],
        of_rows: Int64Array,
        offsets: Int64Array,
        next_offsets: Mapping[int, Offset],
        ends: Mapping[int, int],
    ) -> None:
        self._writers = list(dict.fromkeys(keys))
        numbers = {key: number for number, key in enumerate(self._writers)}
        self._of_rows = np.array([numbers[key] for key in keys], dtype=np.int64)[of_rows]
        self._offsets = offsets
        self._next_offsets = next_offsets
        self._ends = ends
        self._at = 0

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[WriterKey, pa.RecordBatch]]:
        """Yield the rows of the next batch for each writer, with a column `offset` if it stores offsets."""
        part = slice(self._at, self._at + rows.num_rows)
        self._at = part.stop
        writers, offsets = self._of_rows[part], self._offsets[part]
        for number in np.unique(writers).tolist():
            chosen = np.flatnonzero(writers == number)
            of_writer = rows if len(chosen) == rows.num_rows else rows.take(pa.array(chosen))
            key = self._writers[number]
            if key.stores_offsets:
                of_writer = of_writer.append_column(OFFSET, array_of(offsets[chosen]))
            yield key, of_writer

    def named(self, slices: Iterable[tuple[WriterKey, NewSlice]]) -> Iterator[NewSlice]:
        """Yield the uploaded slices with the offsets that they cover, ascending in each partition.

        The slices of a partition that one writer wrote come in the order of writing.
        """
        in_order = sorted(slices, key=lambda each: (each[1].partition, each[0].number))
        for partition, group in groupby(in_order, key=lambda each: int(each[1].partition)):
            of_partition = list(group)
            start = self._next_offsets[partition]
            for at, (key, slice_) in enumerate(of_partition):
                end = slice_.offsets.end if slice_.offsets is not None else offset_after(start, slice_.records)
                if at == len(of_partition) - 1:
                    end = Offset(self._ends.get(partition, end))
                yield replace(slice_, offsets=OffsetRange(start, end), timestamp_source=key.source)
                start = end


def _numbers(rows: pa.Table | pa.RecordBatch, name: str) -> Int64Array:
    if name not in rows.schema.names:
        raise InvalidInput(f"rows that keep their offsets need a column {name!r}, found {', '.join(rows.schema.names)}")
    column = rows.column(name)
    if not pat.is_integer(column.type) or column.null_count:
        raise InvalidInput(
            f"column {name!r}: wanted integers without nulls, found {column.type} with {column.null_count} nulls"
        )
    try:
        numbers: Int64Array = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"column {name!r}: wanted integers below 2^63, found others: {error}") from error
    return numbers
