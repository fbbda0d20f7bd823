"""Which timestamps a topic takes."""

from __future__ import annotations

import pytest

from sparklog.core.config.timestamp_bounds import TimestampBounds, timestamp_bounds
from sparklog.core.config.topic_config import effective, parse_topic_config
from sparklog.core.errors import InvalidRecord

NOW_MS = 1_704_067_200_000


def bounds(**config: int | str) -> TimestampBounds:
    keys = {f"message.timestamp.{name.replace('_', '.')}": value for name, value in config.items()}
    return timestamp_bounds(effective(parse_topic_config(keys)), NOW_MS)


def test_bounds_are_counted_from_the_writers_clock() -> None:
    assert bounds(before_max_ms=1, after_max_ms=2) == ((NOW_MS - 1) * 1000, (NOW_MS + 2) * 1000)
    assert bounds() == (None, (NOW_MS + 3_600_000) * 1000)


def test_times_of_commits_have_no_bounds() -> None:
    assert bounds(type="LogAppendTime", before_max_ms=1, after_max_ms=1) == (None, None)


def test_both_bounds_are_legal_and_what_is_beyond_is_named_with_its_key() -> None:
    limits = TimestampBounds(1_000_000, 2_000_000)
    limits.check("t", 1_000_000, 2_000_000)
    with pytest.raises(InvalidRecord, match=r"topic t .* from 1970-01-01T00:00:01.000Z on .*before.*00:00:00.999999Z"):
        limits.check("t", 999_999, 1_500_000)
    with pytest.raises(InvalidRecord, match=r"topic t .* up to 1970-01-01T00:00:02.000Z .*after.*00:00:02.000001Z"):
        limits.check("t", 1_500_000, 2_000_001)


def test_without_bounds_every_time_is_legal() -> None:
    TimestampBounds(None, None).check("t", -(1 << 63), (1 << 63) - 1)
