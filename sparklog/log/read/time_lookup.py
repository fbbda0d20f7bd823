"""offsetsForTimes: find the first record, by offset, whose timestamp is at or after a time.

Timestamps may be in any order. The slices that may have such a record are searched in offset order, and in each slice
only the batches that may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.plan import SliceToRead, slices_to_read
from sparklog.core.row_offsets import is_dense, numbered_by_chain, within
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import NamedObject, Offset, OffsetRange, Slice, TimestampSource, TopicPartition
from sparklog.log.batch import timestamps_us
from sparklog.log.cluster_stores import Stores
from sparklog.log.message_decoder import LARGEST_TIMES_BYTES
from sparklog.log.read.first_holder import NoHolderAnswers, first_answer
from sparklog.log.read.object_reader import index_of_slice, read_batches
from sparklog.log.read.read_errors import damage_of, unreadable
from sparklog.storage.object_store import ObjectStore

CANDIDATES: Final = 64  # slices looked up at once; the first one nearly always has the answer
CHAIN_LOOKS: Final = 5  # times to ask the chain, because rolls may keep replacing the objects

ChainNow = Callable[[], tuple[ClusterState, Stores]]


def first_at_or_after(now: ChainNow, topic: str, partition: int, timestamp_us: int) -> Offset | None:
    """Return the offset of a partition's first readable record with a timestamp at or after the time, or None.

    `now` returns the newest state and its stores. If an object is gone or damaged, `now` is called again, because a
    rewrite may have replaced the object.

    Raises UnknownTopicOrPartition. If no holder can provide an object, raises the error that `read_errors.unreadable`
    returns.
    """
    start, slices, stores = _look(now, topic, partition, timestamp_us, Offset(0))
    looks_left = CHAIN_LOOKS
    while slices:
        try:
            offset = first_in(slices, stores, topic, timestamp_us, start)
        except NoHolderAnswers as unanswered:
            failed, looks_left = slices, looks_left - 1
            if unanswered.may_be_replaced and looks_left:
                start, slices, stores = _look(now, topic, partition, timestamp_us, start)
            if slices == failed:
                raise unreadable(unanswered) from unanswered
            continue
        if offset is not None:
            return offset
        start, slices, stores = _look(now, topic, partition, timestamp_us, slices[-1].slice.end)
    return None


def _look(
    now: ChainNow, topic: str, partition: int, timestamp_us: int, start: Offset
) -> tuple[Offset, list[SliceToRead], Stores]:
    """Return the offset to begin at (`start`, or the log start if higher), the slices to search, and the stores."""
    state, stores = now()
    described = topic_of(state, topic)
    of_partition = partition_of(state, described, partition)
    start = max(start, of_partition.log_start)
    return start, candidates(state, described, of_partition, timestamp_us, start), stores


def candidates(
    state: ClusterState, topic: Topic, partition: Partition, timestamp_us: int, start: Offset
) -> list[SliceToRead]:
    """Return the first slices (at most CANDIDATES) that may hold a record at or after the time, ascending by offset.

    Slices before `start` are left out. `start` is not below the log start.
    """
    key = TopicPartition(topic.topic_id, partition.partition)
    if start >= partition.high_watermark:
        return []
    slices = state.slices.find(key, OffsetRange(start, partition.high_watermark))
    rows = np.flatnonzero(slices.columns["max_timestamp_us"] >= timestamp_us)[:CANDIDATES]
    first = [slice_ for row in rows.tolist() for slice_ in slices.rows(row, row + 1)]
    return list(slices_to_read(state, partition, first))


def first_in(
    slices: Sequence[SliceToRead], stores: Stores, topic: str, timestamp_us: int, start: Offset
) -> Offset | None:
    """Return the offset of the first record in these slices, from `start` on, with a timestamp at or after the time.

    None if no record has such a timestamp. Raises NoHolderAnswers.
    """
    for part in slices:
        ask = partial(first_in_slice, named=part.object, slice=part.slice, timestamp_us=timestamp_us, start=start)
        offset = first_answer(stores, part, topic, max(start, part.slice.start), ask)
        if offset is not None:
            return offset
    return None


def first_in_slice(
    store: ObjectStore, object_key: str, named: NamedObject, slice: Slice, timestamp_us: int, start: Offset
) -> Offset | None:
    """Return the offset of the first record in a slice, from `start` on, with a timestamp at or after the time.

    None if no record has such a timestamp. Reads the index, and the timestamps of as few batches as possible (usually
    one). Raises what `read_batches` and `index_of_slice` raise.
    """
    wanted = within(slice, OffsetRange(start, max(start, slice.end)))
    if wanted is None:
        return None
    appended_then = slice.timestamp_source is TimestampSource.APPEND_TIME
    newest_us = slice.append_time_ms * 1000 if appended_then else slice.max_timestamp_us
    if newest_us < timestamp_us:
        return None
    if appended_then and is_dense(slice):
        return next(numbered_by_chain(wanted, 1)).start
    with damage_of(slice.start, slice.end):
        index = index_of_slice(store, object_key, named, slice)
    begin, stop = index.offsets.batches_in(wanted)
    may_hold = np.flatnonzero(appended_then | (index.batches.max_timestamp_us[begin:stop] >= timestamp_us)) + begin
    for at in may_hold.tolist():
        if index.batches.records[at] == 1 and index.batches.length[at] > LARGEST_TIMES_BYTES:
            # The index has the time of a large record, so it is not read.
            return Offset(int(index.offsets.starts[at]))
        times = index.batches.object_schema.timestamp
        ((rows, batch),) = read_batches(store, object_key, index, at, at + 1, [times], most_bytes=LARGEST_TIMES_BYTES)
        low, _ = rows.rows_in(wanted)
        late_enough = appended_then | (timestamps_us(batch.column(0))[low:] >= timestamp_us)
        if late_enough.any():
            return rows.at(low + int(late_enough.argmax()))
    return None
