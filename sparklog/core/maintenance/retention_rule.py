"""Plans retention: the slices to drop, and the retired objects to delete (R-01 to R-04). Time is an argument.

Even the newest slice is dropped when it is old enough: unlike Kafka's log, this one has no active segment.
"""

from __future__ import annotations

import msgspec
import numpy as np

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import setting_bytes, setting_ms
from sparklog.core.row_offsets import most_records
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset, OffsetRange, TopicPartition


class RetentionCut(msgspec.Struct, frozen=True):
    """The slices that retention drops in one partition: `slices` of them, from the log start up to offset `to`.

    `records` is an upper limit if the log start cuts a compacted segment. `reason` is the setting that led to the cut.
    """

    topic: str
    partition: Partition
    to: Offset
    slices: int
    records: int
    size_bytes: int
    reason: str


def expired_below_us(config: TopicConfig, now_ms: int) -> int | None:
    """Return the time that is `retention.ms` before `now_ms`; None if the topic deletes nothing by age.

    A slice is older than `retention.ms` if its largest timestamp, in microseconds, is below the returned time.
    """
    return (now_ms - config.retention_ms) * 1000 if config.delete and config.retention_ms is not None else None


def expires_ms(config: TopicConfig, max_timestamp_us: int) -> int | None:
    """Return the first time at which a slice with this largest timestamp is older than `retention.ms`.

    None if the topic deletes nothing by age.
    """
    if not config.delete or config.retention_ms is None:
        return None
    return max_timestamp_us // 1000 + config.retention_ms + 1


def plan_retention(state: ClusterState, topic: Topic, partition: Partition, now_ms: int) -> RetentionCut | None:
    """Return the slices that the topic's retention drops from the partition at `now_ms`; None if it drops none.

    Only whole slices below the high watermark are dropped, oldest first, whether sealed or not. A slice is dropped if
    its largest timestamp is older than `retention.ms`, or if the partition still has `retention.bytes` or more without
    it. A topic whose `cleanup.policy` is only `compact` keeps everything.
    """
    config = state.topic_config(topic)
    if not config.delete:
        return None
    expired_us = expired_below_us(config, now_ms)
    key = TopicPartition(topic.topic_id, partition.partition)
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark)).columns
    below_hw = slices["end"] <= partition.high_watermark
    by_time = by_size = 0
    if expired_us is not None:
        by_time = _leading((slices["max_timestamp_us"] < expired_us) & below_hw)
    if config.retention_bytes is not None:
        remains = partition.size_bytes - np.cumsum(slices["length"])
        by_size = _leading((remains >= config.retention_bytes) & below_hw)
    count = max(by_time, by_size)
    if count == 0:
        return None
    if config.retention_ms is not None and by_time >= by_size:
        reason = setting_ms("retention.ms", config.retention_ms)
    else:
        reason = setting_bytes("retention.bytes", config.retention_bytes or 0)
    to = Offset(int(slices["end"][count - 1]))
    goes = {name: slices[name][:count] for name in ("start", "end", "records")}
    return RetentionCut(
        topic.name,
        partition,
        to,
        count,
        most_records(goes, OffsetRange(partition.log_start, to)),
        int(slices["length"][:count].sum()),
        reason,
    )


def _leading(goes: np.typing.NDArray[np.bool_]) -> int:
    """Return the number of true values before the first false one."""
    stays = np.flatnonzero(~goes)
    return int(stays[0]) if len(stays) else len(goes)
