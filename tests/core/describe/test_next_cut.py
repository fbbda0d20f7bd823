"""A topic's next cut by time."""

from __future__ import annotations

import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.describe.next_cut import next_cut_by_time_ms
from sparklog.core.describe.topic_rows import topic_row
from sparklog.core.types import Offset, PartitionIndex
from tests.core.decided_log import TOPIC
from tests.core.planned_log import PlannedLog


def seen_ms(log: PlannedLog) -> tuple[int | None, int | None, int | None]:
    """The oldest and the newest time of the topic, and its next cut."""
    row = topic_row(log.state, log.topic)
    oldest_ms, newest_ms = (at_us and at_us // 1000 for at_us in (row.oldest_us, row.newest_us))
    return oldest_ms, newest_ms, next_cut_by_time_ms(log.state, log.topic)


def test_the_next_cut_is_that_of_the_first_slice() -> None:
    log = PlannedLog({"retention.ms": "500"})
    assert seen_ms(log) == (None, None, None)
    for at_ms in (1_000, 3_000, 2_000):
        log.append_slice(10, 100, timestamp_ms=at_ms)
    assert seen_ms(log) == (1_000, 3_000, 1_501)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(10)))
    assert seen_ms(log) == (2_000, 3_000, 3_501)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(30)))
    assert seen_ms(log) == (None, None, None)


@pytest.mark.parametrize("config", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}])
def test_a_topic_that_no_time_limits_has_no_next_cut(config: dict[str, str]) -> None:
    log = PlannedLog(config)
    log.append_slice(10, 100, timestamp_ms=1_000)
    assert seen_ms(log) == (1_000, 1_000, None)
