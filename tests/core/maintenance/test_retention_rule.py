"""What retention takes, and when its bytes may be deleted (R-01 to R-04)."""

from __future__ import annotations

import pytest

from sparklog.core.commands import DeleteTopic, MoveLogStart
from sparklog.core.maintenance.retention_rule import (
    RetentionCut,
    expired_below_us,
    expires_ms,
    plan_retention,
)
from sparklog.core.maintenance.retired_objects import due_for_deletion
from sparklog.core.types import Offset
from tests.core.planned_log import PlannedLog

NOW_MS = 1_000_000


def planned(log: PlannedLog, now_ms: int = NOW_MS) -> RetentionCut | None:
    return plan_retention(log.state, log.topic, log.partition(), now_ms)


def move(log: PlannedLog, to: int) -> None:
    log.submit(MoveLogStart(log.topic.topic_id, log.partition().partition, Offset(to)))


def test_segments_whose_largest_timestamp_is_older_than_retention_ms_go() -> None:  # M: R-01
    log = PlannedLog({"retention.ms": "1000"})
    for at_ms in (NOW_MS - 1_001, NOW_MS - 1_001, NOW_MS - 1_000, NOW_MS - 5_000):
        log.append_slice(10, 100, timestamp_ms=at_ms)
    cut = planned(log)
    assert cut is not None
    assert (cut.to, cut.slices, cut.records, cut.size_bytes) == (20, 2, 20, 200), "a younger one keeps those behind"


@pytest.mark.parametrize("max_timestamp_us", [0, 1, 999, 1_000, 1_234_567])
def test_a_slice_has_expired_from_the_time_on_at_which_it_expires(max_timestamp_us: int) -> None:
    log = PlannedLog({"retention.ms": "1000"})
    config = log.state.topic_config(log.topic)
    at_ms = expires_ms(config, max_timestamp_us)
    assert at_ms is not None
    assert [max_timestamp_us < (expired_below_us(config, now_ms) or 0) for now_ms in (at_ms - 1, at_ms)] == [
        False,
        True,
    ]


def test_it_is_the_time_of_records_that_counts_not_that_of_the_append() -> None:  # M: R-01
    log = PlannedLog({"retention.ms": "1000"}, now_ms=NOW_MS)
    log.append_slice(1, 100, timestamp_ms=0)
    assert planned(log) is not None


def test_oldest_segments_go_while_what_remains_is_still_at_least_retention_bytes() -> None:  # M: R-02
    log = PlannedLog({"retention.ms": "-1", "retention.bytes": "250"})
    for _ in range(5):
        log.append_slice(1, 100)
    cut = planned(log)
    assert cut is not None
    assert (cut.to, cut.reason) == (2, "retention.bytes=250"), "300 bytes stay: without the third it would be 200"


def test_a_sealed_segment_goes_whole_or_not_at_all() -> None:  # M: R-03
    log = PlannedLog({"retention.ms": "1000"})
    log.append_slice(3, 100, timestamp_ms=0)
    log.append_slice(3, 100, timestamp_ms=NOW_MS)
    log.seal(0, 6)
    cut = planned(log)
    assert cut is not None
    assert cut.to == 6, "the planned log's sealed segments have timestamp 0"


def test_a_log_start_inside_a_segment_counts_only_the_records_that_are_left() -> None:  # M: R-03
    log = PlannedLog({"retention.ms": "1000"})
    log.append_slice(10, 100, timestamp_ms=0)
    move(log, 4)
    cut = planned(log)
    assert cut is not None
    assert (cut.to, cut.records) == (10, 6)


# M: R-02
def test_nothing_goes_from_a_log_without_limits_or_that_is_only_compacted() -> None:
    for config in ({"retention.ms": "-1"}, {"cleanup.policy": "compact", "retention.ms": "1"}):
        log = PlannedLog(config)
        log.append_slice(1, 100, timestamp_ms=0)
        assert planned(log) is None


def test_retired_objects_are_due_when_their_own_delay_has_passed() -> None:  # M: R-04
    log = PlannedLog({"file.delete.delay.ms": "60000", "rewrite.delete.delay.ms": "3600000"})
    for _ in range(3):
        log.append_slice(1, 100)
    log.seal(1, 2)
    move(log, 1)

    def due(after_ms: int) -> list[int]:
        return due_for_deletion(log.state, log.now_ms + after_ms).tolist()

    assert due(59_999) == []
    assert due(60_000) == [0], "what retention forgot"
    assert due(3_599_999) == [0]
    assert due(3_600_000) == [0, 1], "and what the roll replaced"


def test_objects_of_a_deleted_topic_are_due_by_its_name() -> None:  # M: R-04
    log = PlannedLog({})
    log.append_slice(1, 100)
    log.submit(DeleteTopic(log.topic.topic_id))
    later_ms = log.now_ms + 60_000
    assert due_for_deletion(log.state, later_ms, {"orders"}).tolist() == [0]
    assert due_for_deletion(log.state, later_ms, {"bills"}).tolist() == []
