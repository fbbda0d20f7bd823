"""The times of the next deletions by retention, from the chain alone."""

from __future__ import annotations

import numpy as np

from sparklog.core.maintenance.retention_rule import expires_ms, plan_retention
from sparklog.core.placement.held_slices import whole_log
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.slice_search import NO_SLICE, slices_at
from sparklog.core.tables.slice_table import partition_key
from sparklog.core.types import TopicPartition


def next_cuts_ms(state: ClusterState, topic: Topic, now_ms: int) -> list[int | None]:
    """Return, for each partition, when retention first removes some of its present records; None for never.

    If `retention.bytes` removes some, that is `now_ms`.
    """
    cuts_ms: list[int | None] = []
    for partition in state.partitions_of(topic):
        key = TopicPartition(topic.topic_id, partition.partition)
        newest_us = state.slices.find(key, whole_log(partition)).columns["max_timestamp_us"]
        cut_ms = expires_ms(state.topic_config(topic), int(newest_us[0])) if len(newest_us) else None
        if plan_retention(state, topic, partition, now_ms) is not None:  # retention.bytes depends on no time
            cut_ms = now_ms if cut_ms is None else min(cut_ms, now_ms)
        cuts_ms.append(cut_ms)
    return cuts_ms


def next_cut_by_time_ms(state: ClusterState, topic: Topic) -> int | None:
    """Return the earliest time at which the first slice of a partition becomes older than `retention.ms`.

    None if the topic deletes nothing by age, or if no records can be read. `retention.bytes` may delete the slice
    earlier.
    """
    full = [partition for partition in state.partitions_of(topic) if partition.log_start < partition.high_watermark]
    keys = np.array(
        [partition_key(TopicPartition(topic.topic_id, partition.partition)) for partition in full], dtype=np.int64
    )
    first = slices_at(state.slices, keys, np.array([partition.log_start for partition in full], dtype=np.int64))
    newest_us = first["max_timestamp_us"][first["start"] != NO_SLICE]
    return expires_ms(state.topic_config(topic), int(newest_us.min())) if len(newest_us) else None
