"""Find the offset where the last records of a partition begin. In a compacted slice, this reads the column `offset`."""

from __future__ import annotations

from functools import partial

import numpy as np

from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.plan import SliceToRead, slices_to_read
from sparklog.core.row_offsets import is_dense, offset_after
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.first_holder import NoHolderAnswers, first_answer
from sparklog.log.read.object_reader import index_of_slice, read_batches
from sparklog.log.read.read_errors import unreadable
from sparklog.log.read.time_lookup import CHAIN_LOOKS, ChainNow
from sparklog.storage.object_store import ObjectStore


def start_of_last(now: ChainNow, topic: str, partition: int, records: int) -> Offset:
    """Return the offset at which the last `records` records below the high watermark begin; at least the log start.

    If `records` is 0 or the partition has no records, this is the high watermark. `now` returns the newest state and
    its stores. If an object is gone or damaged, `now` is called again, because a rewrite may have replaced the object.

    Raises UnknownTopicOrPartition. If no holder can provide an object, raises the error that `read_errors.unreadable`
    returns.
    """
    for looks_left in reversed(range(CHAIN_LOOKS)):
        at, log_start, stores = _look(now, topic, partition, records)
        if isinstance(at, int):
            return max(at, log_start)
        part, row = at
        try:
            return max(_offset_of(part, row, stores, topic), log_start)
        except NoHolderAnswers as unanswered:
            if not unanswered.may_be_replaced or not looks_left:
                raise unreadable(unanswered) from unanswered
    raise AssertionError("the last look returns or raises")


def _look(
    now: ChainNow, topic: str, partition: int, records: int
) -> tuple[Offset | tuple[SliceToRead, int], Offset, Stores]:
    """Return the place where the last `records` records begin in the newest state, the log start, and the stores.

    The place is an offset. In a compacted slice, only reading shows the offset, so there the place is the slice, and
    the number of the record in it (from 0).
    """
    state, stores = now()
    described = topic_of(state, topic)
    of_partition = partition_of(state, described, partition)
    start, end = of_partition.log_start, of_partition.high_watermark
    key = TopicPartition(described.topic_id, of_partition.partition)
    slices = state.slices.find(key, OffsetRange(start, end)) if start < end else None
    if slices is None or not len(slices) or records < 1:
        return end, start, stores
    to_end = np.cumsum(slices.columns["records"][::-1])[::-1]  # from the beginning of each slice to the end of the log
    holding = np.flatnonzero(to_end >= records)
    if not len(holding):
        return start, start, stores
    at = int(holding[-1])
    (slice_,) = slices.rows(at, at + 1)
    row = int(to_end[at]) - records
    if is_dense(slice_):
        return offset_after(slice_.start, row), start, stores
    (part,) = slices_to_read(state, of_partition, [slice_])
    return (part, row), start, stores


def _offset_of(part: SliceToRead, row: int, stores: Stores, topic: str) -> Offset:
    """The offset of record number `row` (from 0) of a compacted slice."""
    return first_answer(stores, part, topic, part.slice.start, partial(_offset_at, part, row))


def _offset_at(part: SliceToRead, row: int, store: ObjectStore, key: str) -> Offset:
    index = index_of_slice(store, key, part.object, part.slice)
    totals = np.cumsum(index.offsets.records)
    batch = int(np.searchsorted(totals, row, side="right"))
    ((offsets, _),) = read_batches(store, key, index, batch, batch + 1, [])
    return offsets.at(row - int(totals[batch] - index.offsets.records[batch]))
