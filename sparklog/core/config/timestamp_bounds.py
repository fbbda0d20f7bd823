"""Bounds of record timestamps around the writer's clock: `message.timestamp.before.max.ms` and `.after.max.ms`."""

from __future__ import annotations

from typing import Final, NamedTuple

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import point_in_time_us
from sparklog.core.errors import InvalidRecord
from sparklog.core.types import TimestampSource

_TIMESTAMPS_END: Final = 1 << 63  # microseconds; timestamps lie in [-2^63, 2^63)


class TimestampBounds(NamedTuple):
    """The oldest and the newest timestamp that a topic accepts, both inclusive; None means no bound."""

    oldest_us: int | None
    newest_us: int | None

    def check(self, topic: str, low_us: int, high_us: int) -> None:
        """Raise InvalidRecord unless timestamps from `low_us` to `high_us` lie within the bounds."""
        if self.oldest_us is not None and low_us < self.oldest_us:
            raise InvalidRecord(
                f"topic {topic} takes timestamps from {point_in_time_us(self.oldest_us)} on "
                f"(message.timestamp.before.max.ms), found {point_in_time_us(low_us)}"
            )
        if self.newest_us is not None and high_us > self.newest_us:
            raise InvalidRecord(
                f"topic {topic} takes timestamps up to {point_in_time_us(self.newest_us)} "
                f"(message.timestamp.after.max.ms), found {point_in_time_us(high_us)}"
            )


def timestamp_bounds(config: TopicConfig, now_ms: int) -> TimestampBounds:
    """The bounds for a write that begins at `now_ms`; no bounds if records get the time of their commit."""
    if config.message_timestamp_type is not TimestampSource.CREATE_TIME:
        return TimestampBounds(None, None)
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return TimestampBounds(
        None if before_ms is None else _bound_us(now_ms - before_ms),
        None if after_ms is None else _bound_us(now_ms + after_ms),
    )


def _bound_us(at_ms: int) -> int | None:
    """Return a bound in microseconds; None if it has no effect, because no 64-bit timestamp lies beyond it."""
    at_us = at_ms * 1000
    return at_us if -_TIMESTAMPS_END <= at_us < _TIMESTAMPS_END else None
