"""Which slices may hold the first record at or after a time (S-05)."""

from __future__ import annotations

import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.types import Offset
from sparklog.log import time_lookup
from sparklog.log.time_lookup import candidates
from tests.core.planned_log import PlannedLog


@pytest.fixture
def log() -> PlannedLog:
    """Four slices of ten records, written at 5, 9, 3 and 7 ms."""
    made = PlannedLog({})
    for timestamp_ms in (5, 9, 3, 7):
        made.append_slice(10, 100, timestamp_ms)
    return made


def starts(log: PlannedLog, timestamp_ms: int, start: int = 0) -> list[int]:
    found = candidates(log.state, log.topic, log.partition(), timestamp_ms * 1000, Offset(start))
    return [each.slice.start for each in found]


# M: S-05
def test_slices_that_are_all_older_are_left_out(log: PlannedLog) -> None:
    assert starts(log, 0) == [0, 10, 20, 30]
    assert starts(log, 5) == [0, 10, 30]
    assert starts(log, 6) == [10, 30]
    assert starts(log, 10) == []


# M: S-05
def test_slices_before_the_start_are_left_out(log: PlannedLog) -> None:
    assert starts(log, 0, 10) == [10, 20, 30]
    assert starts(log, 0, 15) == [10, 20, 30], "the start may lie inside"
    assert starts(log, 0, 40) == starts(log, 0, 41) == []


# M: S-05
def test_slices_below_the_start_and_above_the_high_watermark_are_left_out(log: PlannedLog) -> None:
    log.submit(MoveLogStart(log.topic.topic_id, log.partition().partition, Offset(19)))
    log.replace_partition(high_watermark=Offset(30))
    assert starts(log, 0, 19) == [10, 20]


def test_so_many_are_handed_out_at_once(log: PlannedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_lookup, "CANDIDATES", 2)
    assert starts(log, 6) == [10, 30]
    assert starts(log, 0) == [0, 10]
