"""offsetsForTimes: the first record, by offset, whose timestamp is at or after a time (S-05)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from sparklog.core.plan import SliceToRead, named_object
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.holders import NoHolderAnswers, first_answer
from sparklog.log.object_reader import first_offset_at_or_after
from sparklog.log.read_errors import unreadable
from sparklog.log.stores import Stores

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

    Raises what `unreadable` makes of it if no holder of an object can tell.
    """
    for part in found:
        ask = partial(
            first_offset_at_or_after,
            named=part.object,
            slice=part.slice,
            timestamp_us=timestamp_us,
            start=start,
        )
        try:
            offset = first_answer(stores, part, topic, max(start, part.slice.start), ask)
        except NoHolderAnswers as unanswered:
            raise unreadable(unanswered) from unanswered
        if offset is not None:
            return offset
    return None
