"""Write records as sealed segments of one partition, to several stores at once.

A segment is written batch by batch, never held whole in memory. Small neighbouring batches are joined to about 1 MiB.
If `segment.bytes` is small, batches are cut so that no segment exceeds it. A roll writes dense segments, unless a
mirror left offsets empty. A compaction writes segments that store the offset of each record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pyarrow as pa

from sparklog.core.commands import RewrittenSlice
from sparklog.core.row_offsets import offset_after
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    ObjectKind,
    Offset,
    PartitionIndex,
    Slice,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.log.batch import SMALL_BATCH_BYTES, BatchEncoder, EncodedBatch
from sparklog.log.stored_schema import RAW, TIMESTAMP, StoredSchema
from sparklog.log.write.open_object import OpenObject, not_yet_written, slices_of
from sparklog.log.write.raw_rows import cuts, joined
from sparklog.log.write.row_sizes import raw_sums
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.log.write.task_memory import LIMITS

_MESSAGE_BYTES: Final = 640  # approximate overhead of a stored batch: matters if `segment.bytes` is tiny


class SegmentTarget(msgspec.Struct, frozen=True):
    """The partition, the stores and the maximum size of the segments to write. `n0`: the chain position of the plan."""

    topic_id: TopicId
    topic: str
    partition: PartitionIndex
    n0: EntryNumber
    holders: tuple[Holder, ...]
    segment_bytes: int
    compression: str


class Rewritten(msgspec.Struct, frozen=True):
    """The uploaded segments, with one slice each, in offset order and without a gap between them."""

    objects: tuple[NewObject, ...]
    slices: tuple[RewrittenSlice, ...]


class Origin(msgspec.Struct, frozen=True):
    """Properties that all records of a segment share. Where one of them changes, a new segment begins."""

    leader_epoch: LeaderEpoch
    timestamp_source: TimestampSource

    @classmethod
    def of(cls, slice: Slice) -> Origin:
        """Return the origin of a slice's records after a rewrite, which puts append times into the timestamp column."""
        created = slice.timestamp_source is TimestampSource.CREATE_TIME
        return cls(
            slice.leader_epoch, TimestampSource.CREATE_TIME if created else TimestampSource.APPEND_TIME_IN_COLUMN
        )


def with_append_time(rows: pa.RecordBatch, slice: Slice, schema: StoredSchema) -> pa.RecordBatch:
    """Return stored rows with the timestamps that readers see: the append time of their slice, or those in the column.

    The append time replaces the column's values if the slice's timestamps are APPEND_TIME.
    """
    if slice.timestamp_source is not TimestampSource.APPEND_TIME:
        return rows
    column = pa.repeat(pa.scalar(slice.append_time_ms * 1000, pa.int64()), rows.num_rows).cast(TIMESTAMP)
    at = rows.schema.get_field_index(schema.timestamp)
    return rows.set_column(at, rows.schema.field(at), column)


class SegmentsWriter:
    """Writes segments. For each run call `begin_run`, then `copy` and `add` any number of times. At the end `finish`.

    A run is a sequence of records with the same origin. Records come ascending by offset, from `start` on. Their
    offsets are consecutive, unless `schema` stores them: then some offsets may be empty, without a record. A slice
    includes the empty offsets before each of its records. `finish` may extend the last slice over empty offsets after
    its last record. Leaving the context before `finish` drops the open segment.

    The methods raise what an upload raises, and ValueError if the offsets in the column go back.
    """

    def __init__(
        self,
        target: SegmentTarget,
        lanes: StoreLanes,
        start: Offset,
        new_upload_id: Callable[[], UploadId],
        schema: StoredSchema = RAW,
    ) -> None:
        self._target = target
        self._lanes = lanes
        self._next_offset = start
        self._new_upload_id = new_upload_id
        self._schema = schema
        self._encoder = BatchEncoder(target.compression, schema)
        self._origin: Origin | None = None
        self._append_time_ms = 0
        self._start = start  # of the open segment
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._open: OpenObject | None = None
        self._objects: list[NewObject] = []
        self._slices: list[RewrittenSlice] = []

    def __enter__(self) -> SegmentsWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._open.abort()

    def begin_run(self, origin: Origin, append_time_ms: int) -> None:
        """Begin a segment for the records that follow, all of this origin.

        `append_time_ms` is the latest of their append times.
        """
        self._encode_pending()
        self._close()
        self._origin, self._append_time_ms = origin, append_time_ms

    def copy(self, batch: EncodedBatch) -> None:
        """Append a stored batch unchanged. It has the schema of this writer."""
        self._encode_pending()
        self._append(batch)

    def add(self, rows: pa.RecordBatch) -> None:
        """Append records, to be joined with their neighbours. They may lack the schema's columns of lists."""
        self._pending.append(rows)
        sums = raw_sums(rows, self._schema)
        self._pending_bytes += int(sums[-1] - sums[0])
        if self._pending_bytes >= LIMITS.full_batch_bytes:
            self._encode_pending()

    def finish(self, end: Offset | None = None) -> Rewritten:
        """Publish the open segment, and return all segments. At least one record must have been added.

        `end`: the offset at which the last slice ends; None if it ends after the last record.
        """
        self._encode_pending()
        self._close()
        slices = self._slices
        if end is not None:
            assert slices[-1].end <= end
            slices = [*slices[:-1], msgspec.structs.replace(slices[-1], end=end)]
        return Rewritten(tuple(self._objects), tuple(slices))

    def _encode_pending(self) -> None:
        if not self._pending:
            return
        rows = joined(self._pending, self._schema)
        self._pending, self._pending_bytes = [], 0
        for start, end in cuts(raw_sums(rows, self._schema), LIMITS.largest_batch_bytes):
            self._encode(rows.slice(start, end - start))

    def _encode(self, rows: pa.RecordBatch) -> None:
        """Append the rows as one batch, or as several if one batch would exceed a segment."""
        batch = self._encoder.encode(TopicPartition(self._target.topic_id, self._target.partition), rows)
        segment_bytes = self._target.segment_bytes
        if batch.message.size <= segment_bytes or rows.num_rows == 1:
            self._append(batch)
            return
        sums = raw_sums(rows, self._schema)
        raw_bytes = int(sums[-1] - sums[0])
        limit_bytes = raw_bytes * segment_bytes // batch.message.size
        if limit_bytes < SMALL_BATCH_BYTES:  # such small batches are not compressed
            limit_bytes = segment_bytes - _MESSAGE_BYTES
        for start, end in cuts(sums, max(1, min(limit_bytes, raw_bytes // 2))):
            self._encode(rows.slice(start, end - start))

    def _append(self, batch: EncodedBatch) -> None:
        if self._open is not None and self._open.batch_bytes + batch.message.size > self._target.segment_bytes:
            self._close()
        if self._open is None:
            self._open = self._begin()
        self._open.append(batch)
        self._next_offset = self._offset_after(batch)

    def _offset_after(self, batch: EncodedBatch) -> Offset:
        if self._schema.offset is None:
            return offset_after(self._next_offset, batch.records)
        assert batch.offsets is not None
        first, last = batch.offsets
        if first < self._next_offset:  # the index would lead readers to the wrong batch
            raise ValueError(f"wanted records at or after offset {self._next_offset}, found {first}")
        return offset_after(last, 1)

    def _close(self) -> None:
        if self._open is None:
            return
        assert self._origin is not None
        self._open.close()
        named, index = self._open.published()
        (new,) = slices_of(len(self._objects), named, index)
        self._objects.append(named)
        self._slices.append(
            RewrittenSlice(
                new=new,
                start=self._start,
                end=self._next_offset,
                append_time_ms=self._append_time_ms,
                timestamp_source=self._origin.timestamp_source,
                leader_epoch=self._origin.leader_epoch,
            )
        )
        self._open = None

    def _begin(self) -> OpenObject:
        target = self._target
        assert self._origin is not None
        self._start = self._next_offset
        named = not_yet_written(
            ObjectKind.SEGMENT,
            target.n0,
            self._new_upload_id(),
            target.topic_id,
            target.holders,
            partition=target.partition,
            base_offset=self._start,
            leader_epoch=self._origin.leader_epoch,
        )
        return OpenObject(
            self._lanes,
            named,
            target.topic,
            here=len(target.holders) == 1,
            schema=self._schema,
        )
