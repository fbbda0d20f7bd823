"""Writes whose records the next retention run would remove."""

from __future__ import annotations

import pytest

from sparklog.core.maintenance.expired_writes import ExpiredWrite
from sparklog.core.types import TopicId

NOW_MS = 1_750_000_000_000


@pytest.mark.parametrize(
    ("newest_ms", "asks"),
    [
        (NOW_MS // 1000, True),
        (NOW_MS // 1000 - 86_400 * 365 * 40, True),
        (NOW_MS // 1000 + 86_400 * 30, True),
        (NOW_MS - 86_400_000 * 8, False),  # only old
        (0, False),
        (-5, False),
        (NOW_MS // 1_000_000, False),
    ],
)
def test_a_time_that_would_be_right_in_seconds_is_asked_about(newest_ms: int, asks: bool) -> None:
    warning = ExpiredWrite(TopicId(1), "t", 2, newest_ms * 1000, 1000).warning(NOW_MS)
    assert warning.startswith("topic t has retention.ms=1000 (1 second), and 2 records just written are older: ")
    assert ("were seconds given for milliseconds?" in warning) is asks


def test_one_record_is_spoken_of_as_one() -> None:
    warning = ExpiredWrite(TopicId(1), "t", 1, 0, 1000).warning(NOW_MS)
    assert warning.endswith("and 1 record just written is older: the next retention run would remove it")
