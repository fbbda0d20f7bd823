"""The times of a topic's oldest and newest records, and of its next deletion by retention, from the chain alone."""

from __future__ import annotations

import msgspec
import numpy as np

from sparklog.core.maintenance.retention_rule import expires_ms
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.slice_search import NO_SLICE, slices_at
from sparklog.core.tables.slice_table import partition_key
from sparklog.core.types import TopicPartition


class TopicTimes(msgspec.Struct, frozen=True):
    """The oldest and the newest timestamp in all partitions of a topic, and the time of its next deletion by retention.

    `oldest_ms` is the smallest timestamp in the first slices of the partitions, `newest_ms` the largest in their last
    slices. If the timestamps don't ascend from slice to slice, there may be older or newer ones in other slices.
    `next_cut_ms`: the earliest time at which the first slice of a partition becomes older than `retention.ms`; None if
    the topic deletes nothing by age. `retention.bytes` may delete the slice earlier. All three fields are None if no
    records can be read.
    """

    oldest_ms: int | None
    newest_ms: int | None
    next_cut_ms: int | None


def topic_times(state: ClusterState, topic: Topic) -> TopicTimes:
    """Return the times of the records of a topic."""
    full = [partition for partition in state.partitions_of(topic) if partition.log_start < partition.high_watermark]
    keys = np.array(
        [partition_key(TopicPartition(topic.topic_id, partition.partition)) for partition in full], dtype=np.int64
    )
    first = slices_at(state.slices, keys, np.array([partition.log_start for partition in full], dtype=np.int64))
    last = slices_at(state.slices, keys, np.array([partition.high_watermark - 1 for partition in full], dtype=np.int64))
    of_first, of_last = first["start"] != NO_SLICE, last["start"] != NO_SLICE
    if not of_first.any():
        return TopicTimes(None, None, None)
    newest = last["max_timestamp_us"][of_last]
    return TopicTimes(
        int(first["min_timestamp_us"][of_first].min()) // 1000,
        int(newest.max()) // 1000 if len(newest) else None,
        expires_ms(state.topic_config(topic), int(first["max_timestamp_us"][of_first].min())),
    )
