"""Rewrites slices of one partition into sealed segments that hold only chosen records. Each record keeps its offset.

The offset is stored with the record. If the topic uses append times, which only the chain has until then, they are
stored with the records, too. Batches without a record to keep are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from sparklog.core.describe.readable import counted
from sparklog.core.errors import Damaged, InvalidInput
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.row_offsets import Int64Array, SliceOffsets
from sparklog.core.types import Offset, OffsetRange, UploadId
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.first_holder import NoHolderAnswers, from_first_holder
from sparklog.log.read.object_reader import index_of_slice, read_batches
from sparklog.log.read.read_errors import unreadable
from sparklog.log.stored_schema import OFFSET, RAW, RAW_WITH_OFFSETS
from sparklog.log.write.segments_writer import Origin, Rewritten, SegmentsWriter, SegmentTarget, with_append_time
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.object_store import ObjectStore


def compact(
    slices: Sequence[SliceToRead],
    kept: Int64Array | None,
    target: SegmentTarget,
    stores: Stores,
    lanes: StoreLanes,
    new_upload_id: Callable[[], UploadId],
) -> Rewritten:
    """Upload the records at the offsets `kept` (None: all) as sealed segments, to the holders of `target`, by `lanes`.

    There is at least one slice, and each begins where the one before it ends. `kept` ascends, and each offset in it is
    that of a record in the slices. The segments cover the same offsets as the slices, without a gap. A segment holds at
    most `segment_bytes` of stored batches, or a single batch of one record. Its records have one leader epoch and one
    kind of timestamp. In the result, the holders of a segment are the stores that took it.

    `kept` must not be empty, because a slice must hold a record. If a range keeps none, rewrite it together with a
    neighbour. Only if the neighbours keep none either, keep the very last record of them all. (Don't keep a record that
    a later one replaced: if the later one is a tombstone and is dropped, the old record would reappear.)

    Raises InvalidInput if there is a gap between the slices, if nothing is kept, or if `kept` has an offset outside of
    the slices. Raises Damaged if an offset in `kept` has no record. Raises DataLoss, Damaged, StoreUnavailable or
    StoreAccessDenied if no holder can serve a slice, and what an upload raises if every store fails. Segments uploaded
    before the error become orphans.
    """
    place = f"{target.topic}-{target.partition}"
    start, end = slices[0].slice.start, slices[-1].slice.end
    for before, after in pairwise(slices):
        if before.slice.end != after.slice.start:  # records that an election gave up must stay visible as a gap
            raise InvalidInput(f"{place}: wanted slices without a gap, found one at offset {before.slice.end}")
    if kept is not None and (not len(kept) or kept[0] < start or kept[-1] >= end):
        shown = f"from {kept[0]} to {kept[-1]}" if len(kept) else "none"
        raise InvalidInput(f"{place}: wanted offsets to keep in [{start}, {end}), at least one, found {shown}")
    with SegmentsWriter(target, lanes, start, new_upload_id, RAW_WITH_OFFSETS) as writer:
        for origin, run in groupby(slices, key=lambda part: Origin.of(part.slice)):
            parts = tuple(run)
            writer.begin_run(origin, max(part.slice.append_time_ms for part in parts))
            for part in parts:
                for offsets, rows in _kept_rows(part, kept, target.topic, stores):
                    stored = with_append_time(rows, part.slice, RAW)
                    writer.add(stored.append_column(OFFSET, pa.array(offsets)))
        rewritten = writer.finish(end)
    written = sum(slice_.new.records for slice_ in rewritten.slices)
    if kept is not None and written != len(kept):
        raise Damaged(f"{place} [{start}, {end}): wanted {counted(len(kept), 'record')} to keep, found {written:,}")
    return rewritten


def _kept_rows(
    part: SliceToRead, kept: Int64Array | None, topic: str, stores: Stores
) -> Iterator[tuple[Int64Array, pa.RecordBatch]]:
    """Read the kept rows of a slice from the first holder that has them. Yields (offsets, rows as in `RAW`)."""
    try:
        for _, rows in from_first_holder(stores, part, topic, part.slice.start, partial(_kept_from, part, kept)):
            yield rows
    except NoHolderAnswers as unanswered:
        raise unreadable(unanswered) from unanswered


def _kept_from(
    part: SliceToRead, kept: Int64Array | None, store: ObjectStore, key: str, start: Offset
) -> Iterator[tuple[Offset, tuple[Int64Array, pa.RecordBatch]]]:
    index = index_of_slice(store, key, part.object, part.slice)
    if kept is None:
        runs = [index.offsets.batches_in(OffsetRange(start, part.slice.end))]
    else:
        runs = _runs(index.offsets, kept[np.searchsorted(kept, start) :])
    for begin, stop in runs:
        for offsets, batch in read_batches(store, key, index, begin, stop, RAW.names):
            column = offsets.column()
            rows = None if kept is None else _rows_of(column, kept)
            if rows is not None and len(rows) < batch.num_rows:
                column, batch = column[rows], batch.take(pa.array(rows))
            yield offsets.end, (column, batch.select(RAW.names))


def _runs(offsets: SliceOffsets, kept: Int64Array) -> list[tuple[int, int]]:
    """Return the batches that may hold records to keep, as runs [begin, stop) of batch numbers.

    `kept` has the offsets of the records to keep, and `offsets` describes the batches of a slice.
    """
    needed = np.searchsorted(kept, offsets.starts) < np.searchsorted(kept, offsets.ends)
    edges = np.flatnonzero(np.diff(needed, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _rows_of(column: Int64Array, kept: Int64Array) -> Int64Array:
    """Return the row numbers of the kept records in a batch. `column` has the offsets of the batch's records."""
    wanted = kept[np.searchsorted(kept, column[0]) : np.searchsorted(kept, column[-1] + 1)]
    rows = np.searchsorted(column, wanted)
    kept_rows: Int64Array = rows[column[rows] == wanted]
    return kept_rows
