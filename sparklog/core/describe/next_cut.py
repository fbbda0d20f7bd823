"""The time of a topic's next deletion by retention, from the chain alone."""

from __future__ import annotations

import numpy as np

from sparklog.core.maintenance.retention_rule import expires_ms
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.slice_search import NO_SLICE, slices_at
from sparklog.core.tables.slice_table import partition_key
from sparklog.core.types import TopicPartition


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
