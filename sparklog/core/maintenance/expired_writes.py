"""Finds records already past `retention.ms` when written, often because seconds were given as milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import counted, point_in_time_us, setting_ms
from sparklog.core.maintenance.retention_rule import expired_below_us
from sparklog.core.state import ClusterState
from sparklog.core.types import NewSlice, TimestampSource, TopicId

_YEAR_US = 365 * 86_400 * 1_000_000


class ExpiredWrite(msgspec.Struct, frozen=True):
    """Records of one write to a topic that are older than its `retention.ms`. `newest_us`: their largest timestamp."""

    topic_id: TopicId
    topic: str
    records: int
    newest_us: int
    retention_ms: int

    def warning(self, now_ms: int) -> str:
        """The warning for the user."""
        is_one = self.records == 1
        text = (
            f"topic {self.topic} has {setting_ms('retention.ms', self.retention_ms)}, and "
            f"{counted(self.records, 'record')} just written {'is' if is_one else 'are'} older: the next retention run "
            f"would remove {'it' if is_one else 'them'}"
        )
        from_now_us = self.newest_us * 1000 - now_ms * 1000  # if it was given in seconds
        if -50 * _YEAR_US < from_now_us < _YEAR_US:
            text += f"; the newest is of {point_in_time_us(self.newest_us)}: were seconds given for milliseconds?"
        return text


def expired_writes(state: ClusterState, slices: Sequence[NewSlice], now_ms: int) -> list[ExpiredWrite]:
    """Return, for each topic, the records in `slices` that are already older than `retention.ms`.

    The next run of retention would remove them. It removes whole slices, so a slice counts only if its newest record is
    too old. A topic without such records is left out.
    """
    limits: dict[TopicId, int | None] = {}
    expired: dict[TopicId, ExpiredWrite] = {}
    for slice_ in slices:
        topic = state.topics.get(slice_.topic_id)
        if topic is None:
            continue
        if slice_.topic_id not in limits:
            limits[slice_.topic_id] = _below_us(state.topic_config(topic), now_ms)
        below_us, newest_us = limits[slice_.topic_id], slice_.max_timestamp_us
        if below_us is None or newest_us >= below_us:
            continue
        retention_ms = state.topic_config(topic).retention_ms or 0
        before = expired.get(slice_.topic_id, ExpiredWrite(topic.topic_id, topic.name, 0, newest_us, retention_ms))
        expired[slice_.topic_id] = msgspec.structs.replace(
            before, records=before.records + slice_.records, newest_us=max(before.newest_us, newest_us)
        )
    return list(expired.values())


def _below_us(config: TopicConfig, now_ms: int) -> int | None:
    by_creation = config.message_timestamp_type is TimestampSource.CREATE_TIME
    return expired_below_us(config, now_ms) if by_creation else None
