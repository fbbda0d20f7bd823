"""offsetsForTimes: the first record, by offset, whose timestamp is at or after a time (S-05)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sparklog.core.plan import SliceToRead, named_object
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.holders import NOT_FROM_HERE, first_answer
from sparklog.log.object_reader import first_offset_at_or_after
from sparklog.log.read_errors import unreadable
from sparklog.log.stores import Stores
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

CANDIDATES = 64  # slices handed out at once; nearly always the first one answers


def candidates(
    state: ClusterState, topic: Topic, partition: Partition, timestamp_us: int, start: Offset
) -> list[SliceToRead]:
    """The first slices that may hold a record at or after the time, ascending by offset.

    `start` is the offset from which to look, at or above the log start.
    """
    key = TopicPartition(topic.topic_id, partition.partition)
    if start >= partition.high_watermark:
        return []
    slices = state.slices.find(key, OffsetRange(start, partition.high_watermark))
    rows = np.flatnonzero(slices.columns["max_timestamp_us"] >= timestamp_us)[:CANDIDATES]
    return [SliceToRead(each, named_object(state, each)) for row in rows.tolist() for each in slices.rows(row, row + 1)]


def first_in(
    found: Iterable[SliceToRead], stores: Stores, topic: str, timestamp_us: int, start: Offset
) -> Offset | None:
    """The first offset >= `start` at or after the time among these slices, or None. Reads as few batches as it can.

    Raises DataLoss, Damaged, StoreUnavailable or StoreAccessDenied if no holder of an object can tell: the error of
    the last one.
    """
    for part in found:
        offset = _first_in(part, stores, topic, timestamp_us, start)
        if offset is not None:
            return offset
    return None


def _first_in(part: SliceToRead, stores: Stores, topic: str, timestamp_us: int, start: Offset) -> Offset | None:
    key = data_key(part.object.object, topic)
    holders = stores.holding(part.object)

    def ask(store: ObjectStore) -> Offset | None:
        return first_offset_at_or_after(store, key, part.object, part.slice, timestamp_us, start)

    try:
        return first_answer(holders, ask)
    except NOT_FROM_HERE as error:
        place, at = f"{topic}-{part.slice.partition}", max(start, part.slice.start)
        raise unreadable(error, place, at, part.slice.end, stores.named(holders[-1])) from error
