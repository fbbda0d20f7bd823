"""Rewrite slices of append objects into sealed segments of one partition, batch by batch.

A stored batch that is large enough is copied without decoding. Smaller neighbours are decoded and joined. Either way
the checksum is verified first. Append times are written into the timestamp column.

If a mirror has left some offsets of the slices without a record, the offset of each record is stored with it, as by a
compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from sparklog.core.errors import Damaged
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.row_offsets import is_dense
from sparklog.core.types import Offset, OffsetRange, TimestampSource, UploadId
from sparklog.log.batch import EncodedBatch, decodings, verify
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.first_holder import NoHolderAnswers, from_first_holder
from sparklog.log.read.object_reader import index_of_slice
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES, ranged_reads
from sparklog.log.read.read_errors import unreadable
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.stored_schema import RAW, StoredSchema
from sparklog.log.write.segments_writer import Origin, Rewritten, SegmentsWriter, SegmentTarget, with_append_time
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.object_store import ObjectStore

COPIED_BATCH_BYTES: Final = 256 << 10  # stored batches of at least this size are copied without decoding


def rewrite(
    slices: Sequence[SliceToRead],
    target: SegmentTarget,
    stores: Stores,
    lanes: StoreLanes,
    new_upload_id: Callable[[], UploadId],
) -> Rewritten:
    """Upload the records of the slices as sealed segments, to the holders of `target`, by `lanes`.

    There is at least one slice, and each begins where the one before it ends. All have the same `Origin`. The segments
    are dense if all slices are; otherwise they store offsets. A segment holds at most `segment_bytes` of stored
    batches, or a single batch of one record. In the result, the holders of a segment are the stores that took it.

    Raises DataLoss, Damaged, StoreUnavailable or StoreAccessDenied if no holder can serve a slice, and what an upload
    raises if every store fails. Segments uploaded before the error become orphans.
    """
    if not all(is_dense(part.slice) for part in slices):
        return compact(slices, None, target, stores, lanes, new_upload_id)
    first = slices[0].slice
    append_time_ms = max(part.slice.append_time_ms for part in slices)
    with SegmentsWriter(target, lanes, first.start, new_upload_id) as writer:
        writer.begin_run(Origin.of(first), append_time_ms)
        for part in slices:
            overlaid = part.slice.timestamp_source is TimestampSource.APPEND_TIME
            for stored in _stored_batches(part, target.topic, stores):
                may_copy = not overlaid and stored.schema is RAW
                if may_copy and COPIED_BATCH_BYTES <= stored.batch.message.size <= target.segment_bytes:
                    writer.copy(stored.batch)
                    continue
                writer.add(with_append_time(stored.rows(), part.slice, RAW))
        rewritten = writer.finish()
    end, wanted = rewritten.slices[-1].end, slices[-1].slice.end
    if end != wanted:  # a swap would turn the difference into a gap or an overlap
        raise Damaged(f"{target.topic}-{target.partition}: wanted records up to offset {wanted}, found up to {end}")
    return rewritten


def reads_of(slices: Sequence[SliceToRead]) -> int:
    """Return the approximate number of requests to read the slices: one index per object, and ranged reads."""
    indexes = len({part.object.number for part in slices})
    return indexes + sum(-(-part.slice.length // RANGED_READ_BYTES) for part in slices)


# ---- reading ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _StoredBatch:
    """A stored batch whose checksum was verified, with its position in the object `key`, which has this schema."""

    key: str
    position: int
    batch: EncodedBatch
    schema: StoredSchema

    def rows(self) -> pa.RecordBatch:
        """Decode the records, with the columns of `RAW`."""
        message = self.batch.message
        crcs, columns = [self.batch.crc32c], RAW.names
        (decoding,) = decodings(self.key, self.position, message, [message.size], crcs, columns, self.schema)
        return decoding()


def _stored_batches(part: SliceToRead, topic: str, stores: Stores) -> Iterator[_StoredBatch]:
    """Read the batches of a slice, in order, each from the first holder that has it intact."""
    try:
        for _, stored in from_first_holder(stores, part, topic, part.slice.start, partial(_batches_from, part)):
            yield stored
    except NoHolderAnswers as unanswered:
        raise unreadable(unanswered) from unanswered


def _batches_from(
    part: SliceToRead, store: ObjectStore, key: str, start: Offset
) -> Iterator[tuple[Offset, _StoredBatch]]:
    """Read the batches of a slice, in reads of about `RANGED_READ_BYTES`. Yields (offset after the batch, batch).

    `start`: the offset at which the first batch to read begins. Raises Damaged if the CRC32C of a batch is wrong.
    """
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
            yield Offset(int(index.offsets.ends[row])), _StoredBatch(key, position, batch, of.object_schema)
