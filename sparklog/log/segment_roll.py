"""Rewrite slices of append objects into sealed segments of one partition, batch by batch.

A large enough stored batch is copied without decoding. Smaller neighbours are decoded and joined into batches of about
1 MiB. Either way the checksum is verified first, and a whole segment is never in memory. If `segment.bytes` is small,
batches are cut so that each segment stays within it. Append times are written into the timestamp column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa

from sparklog.core.commands import RewrittenSlice
from sparklog.core.errors import Damaged
from sparklog.core.numbering import offset_before, offset_behind
from sparklog.core.plan import SliceToRead
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    TimestampSource,
    TopicId,
    UploadId,
)
from sparklog.log.batch import SMALL_BATCH_BYTES, BatchEncoder, EncodedBatch, decode, verify
from sparklog.log.holders import NoHolderAnswers, from_first_holder
from sparklog.log.object_reader import index_of_slice
from sparklog.log.open_object import OpenObject, slices_of
from sparklog.log.ranged_reads import RANGED_READ_BYTES, ranged_reads
from sparklog.log.raw_rows import cuts, joined, raw_sums
from sparklog.log.read_errors import unreadable
from sparklog.log.records_schema import RAW_SCHEMA, TIMESTAMP
from sparklog.log.store_lanes import StoreLanes
from sparklog.log.stores import Stores
from sparklog.storage.object_store import ObjectStore

COPIED_BATCH_BYTES: Final = 256 << 10  # stored batches of at least this size are copied without decoding
FULL_BATCH_BYTES: Final = 1 << 20  # raw bytes of a batch joined from smaller ones
_MESSAGE_BYTES: Final = 640  # approximate overhead of a stored batch: matters if `segment.bytes` is tiny
_BACKLOG_BYTES: Final = 16 << 20  # how far a store may be behind the fastest before the roll waits for it
_TIMESTAMP_AT: Final = RAW_SCHEMA.get_field_index("timestamp")


class SegmentTarget(msgspec.Struct, frozen=True):
    """The names of the segments and where they go. `n0` is the chain position of the plan."""

    topic_id: TopicId
    topic: str
    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    n0: EntryNumber
    holders: tuple[Holder, ...]
    segment_bytes: int
    compression: str


class Rewritten(msgspec.Struct, frozen=True):
    """The uploaded segments, with one slice each, in offset order."""

    objects: tuple[NewObject, ...]
    slices: tuple[RewrittenSlice, ...]


def rewrite(
    slices: Sequence[SliceToRead],
    target: SegmentTarget,
    stores: Stores,
    lanes: StoreLanes,
    new_upload_id: Callable[[], UploadId],
) -> Rewritten:
    """Upload the records of adjoining slices (at least one) as sealed segments, to the holders of `target` by `lanes`.

    A segment holds at most `segment_bytes` of stored batches, or a single batch of one record. Either all slices have
    CREATE_TIME or none has. The holders of an uploaded segment are the stores that took it. Raises DataLoss, Damaged,
    StoreUnavailable or StoreAccessDenied if no holder can serve a slice, and what an upload raises if every store
    fails; segments uploaded before the error become orphans.
    """
    first = slices[0].slice
    created = first.timestamp_source is TimestampSource.CREATE_TIME
    source = TimestampSource.CREATE_TIME if created else TimestampSource.APPEND_TIME_IN_COLUMN
    append_time_ms = max(part.slice.append_time_ms for part in slices)
    with _SegmentsWriter(target, lanes, first.start, source, append_time_ms, new_upload_id) as writer:
        for part in slices:
            overlaid = part.slice.timestamp_source is TimestampSource.APPEND_TIME
            for stored in _stored_batches(part, target.topic, stores):
                if not overlaid and COPIED_BATCH_BYTES <= stored.batch.message.size <= target.segment_bytes:
                    writer.copy(stored.batch)
                    continue
                rows = stored.rows()
                writer.add(_with_timestamp(rows, part.slice.append_time_ms) if overlaid else rows)
        rewritten = writer.finish()
    found, wanted = rewritten.slices[-1].end, slices[-1].slice.end
    if found != wanted:  # a swap would turn the difference into a gap or an overlap
        raise Damaged(f"{target.topic}-{target.partition}: wanted records up to offset {wanted}, found up to {found}")
    return rewritten


def reads_of(slices: Sequence[SliceToRead]) -> int:
    """The approximate number of requests needed to read the slices: an index per object, and ranged reads."""
    indexes = len({part.object.number for part in slices})
    return indexes + sum(-(-part.slice.length // RANGED_READ_BYTES) for part in slices)


def _with_timestamp(rows: pa.RecordBatch, append_time_ms: int) -> pa.RecordBatch:
    column = pa.repeat(pa.scalar(append_time_ms * 1000, pa.int64()), rows.num_rows).cast(TIMESTAMP)
    return rows.set_column(_TIMESTAMP_AT, RAW_SCHEMA.field(_TIMESTAMP_AT), column)


# ---- reading ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _StoredBatch:
    """A verified batch and its position in the object."""

    key: str
    position: int
    batch: EncodedBatch

    def rows(self) -> pa.RecordBatch:
        """The records, with the columns of `RAW_SCHEMA`."""
        message = self.batch.message
        (rows,) = decode(self.key, self.position, message, [message.size], [self.batch.crc32c], RAW_SCHEMA.names)
        return rows


def _stored_batches(part: SliceToRead, topic: str, stores: Stores) -> Iterator[_StoredBatch]:
    """The batches of a slice in order, each from the first holder that has it intact."""
    try:
        for _, stored in from_first_holder(stores, part, topic, part.slice.start, partial(_batches_from, part)):
            yield stored
    except NoHolderAnswers as unanswered:
        raise unreadable(unanswered) from unanswered


def _batches_from(
    part: SliceToRead, store: ObjectStore, key: str, start: Offset
) -> Iterator[tuple[Offset, _StoredBatch]]:
    """The batches of a slice from `start` on (the first offset of a batch), in reads of about `RANGED_READ_BYTES`."""
    index = index_of_slice(store, key, part.object, part.slice)
    begin, stop = index.offsets.batches_in(OffsetRange(start, part.slice.end))
    of = index.batches
    for read in ranged_reads(of, begin, stop):
        (view,) = store.get_ranges(key, [(read.start, read.end)])
        body = pa.py_buffer(view)
        for row in range(read.begin, read.stop):
            position = int(of.position[row])
            batch = EncodedBatch(
                part.slice.partition,
                body.slice(position - read.start, int(of.length[row])),
                int(of.records[row]),
                int(of.min_timestamp_us[row]),
                int(of.max_timestamp_us[row]),
                int(of.crc32c[row]),
            )
            verify(batch.message, batch.crc32c, "record batch", key, position)
            yield index.offsets.of_batch(row).behind, _StoredBatch(key, position, batch)


# ---- writing ----------------------------------------------------------------------------------------


class _SegmentsWriter:
    """Order of calls: `copy` and `add` any number of times, then `finish`. Leaving early drops the open segment."""

    def __init__(
        self,
        target: SegmentTarget,
        lanes: StoreLanes,
        start: Offset,
        source: TimestampSource,
        append_time_ms: int,
        new_upload_id: Callable[[], UploadId],
    ) -> None:
        self._target = target
        self._lanes = lanes
        self._next_offset = start
        self._source = source
        self._append_time_ms = append_time_ms
        self._new_upload_id = new_upload_id
        self._encoder = BatchEncoder(target.compression)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._open: OpenObject | None = None
        self._objects: list[NewObject] = []
        self._slices: list[RewrittenSlice] = []

    def __enter__(self) -> _SegmentsWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._open is not None:
            self._open.abort()

    def copy(self, batch: EncodedBatch) -> None:
        """Append a stored batch unchanged."""
        self._encode_pending()
        self._append(batch)

    def add(self, rows: pa.RecordBatch) -> None:
        """Append records, to be joined with their neighbours."""
        self._pending.append(rows)
        self._pending_bytes += int(raw_sums(rows)[-1])
        if self._pending_bytes >= FULL_BATCH_BYTES:
            self._encode_pending()

    def finish(self) -> Rewritten:
        """Publish the open segment, and return all of them."""
        self._encode_pending()
        self._close()
        return Rewritten(tuple(self._objects), tuple(self._slices))

    def _encode_pending(self) -> None:
        if not self._pending:
            return
        rows = joined(self._pending)
        self._pending, self._pending_bytes = [], 0
        for start, end in cuts(raw_sums(rows), FULL_BATCH_BYTES * 4 // 3):
            self._encode(rows.slice(start, end - start))

    def _encode(self, rows: pa.RecordBatch) -> None:
        """Append the rows as one batch, or as several if one batch would exceed a segment."""
        batch = self._encoder.encode(self._target.partition, rows)
        segment_bytes = self._target.segment_bytes
        if batch.message.size <= segment_bytes or rows.num_rows == 1:
            self._append(batch)
            return
        sums = raw_sums(rows)
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
        self._next_offset = offset_behind(self._next_offset, batch.records)

    def _close(self) -> None:
        if self._open is None:
            return
        self._open.close()
        named, index = self._open.published()
        (new,) = slices_of(len(self._objects), named, index)
        start = offset_before(self._next_offset, new.records)
        self._objects.append(named)
        self._slices.append(
            RewrittenSlice(
                new=new,
                start=start,
                end=self._next_offset,
                append_time_ms=self._append_time_ms,
                timestamp_source=self._source,
                leader_epoch=self._target.leader_epoch,
            )
        )
        self._open = None

    def _begin(self) -> OpenObject:
        target = self._target
        named = NewObject(
            kind=ObjectKind.SEGMENT,
            n0=target.n0,
            upload_id=self._new_upload_id(),
            topic_id=target.topic_id,
            size_bytes=0,
            crc32c=0,
            index_size_bytes=0,
            index_crc32c=0,
            holders=target.holders,
            partition=target.partition,
            base_offset=self._next_offset,
            leader_epoch=target.leader_epoch,
        )
        return OpenObject(self._lanes, named, target.topic, here=len(target.holders) == 1, backlog_bytes=_BACKLOG_BYTES)
