"""From when to when a topic has records, and its next cut."""

from __future__ import annotations

import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.describe.topic_times import TopicTimes, topic_times
from sparklog.core.types import Offset, PartitionIndex
from tests.core.decided_log import TOPIC
from tests.core.planned_log import PlannedLog


def test_times_are_those_of_the_first_and_the_last_slice() -> None:
    log = PlannedLog({"retention.ms": "500"})
    assert topic_times(log.state, log.topic) == TopicTimes(None, None, None)
    for at_ms in (1_000, 3_000, 2_000):
        log.append_slice(10, 100, timestamp_ms=at_ms)
    assert topic_times(log.state, log.topic) == TopicTimes(1_000, 2_000, 1_501)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(10)))
    assert topic_times(log.state, log.topic) == TopicTimes(3_000, 2_000, 3_501)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(30)))
    assert topic_times(log.state, log.topic) == TopicTimes(None, None, None)


@pytest.mark.parametrize("config", [{"retention.ms": "-1"}, {"cleanup.policy": "compact"}])
def test_a_topic_that_no_time_limits_has_no_next_cut(config: dict[str, str]) -> None:
    log = PlannedLog(config)
    log.append_slice(10, 100, timestamp_ms=1_000)
    assert topic_times(log.state, log.topic) == TopicTimes(1_000, 1_000, None)
