"""Which slices are due to become sealed segments (S-06)."""

from __future__ import annotations

import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.maintenance import roll_rule
from sparklog.core.maintenance.roll_rule import plan_roll
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange
from tests.core.decided_log import place
from tests.core.planned_log import PlannedLog

HOUR_MS = 3_600_000


def due(log: PlannedLog, *, everything: bool = False) -> list[tuple[int, int]]:
    planned = plan_roll(log.state, log.topic, log.partition(), log.now_ms, everything=everything)
    return [(each.start, each.end) for each in planned]


def test_slices_are_gathered_until_the_next_one_would_pass_segment_bytes() -> None:  # M: S-06
    log = PlannedLog({"segment.bytes": "1000"})
    for records, length in ((8, 900), (2, 800), (1, 100), (1, 100), (1, 100)):
        log.append_slice(records, length)
    assert due(log) == [(0, 8), (8, 12)], "what comes after offset 12 waits for more"
    assert due(log, everything=True) == [(0, 8), (8, 12), (12, 13)]


def test_a_slice_that_reaches_segment_bytes_is_due_by_itself() -> None:  # M: S-06
    log = PlannedLog({"segment.bytes": "1000"})
    log.append_slice(50, 5_000)
    (planned,) = plan_roll(log.state, log.topic, log.partition(), log.now_ms)
    assert (planned.start, planned.end, planned.records, planned.size_bytes) == (0, 50, 50, 5_000)
    assert planned.reason == "segment.bytes=1000"


def test_what_is_left_is_due_segment_ms_after_its_first_slice_was_appended() -> None:  # M: S-06
    log = PlannedLog({"segment.ms": str(HOUR_MS)})
    log.append_slice(1, 100, timestamp_ms=0)
    log.now_ms += HOUR_MS // 2
    log.append_slice(1, 100)
    assert due(log) == [], "it is not the records' own time that counts: history that is loaded now is gathered too"
    log.now_ms += HOUR_MS // 2
    assert due(log) == [(0, 2)]


def test_an_empty_partition_never_rolls() -> None:  # M: S-06
    log = PlannedLog({"segment.ms": "1"})
    log.now_ms += HOUR_MS
    assert due(log, everything=True) == []


# M: S-06
def test_sealed_segments_stay_and_end_what_is_gathered_before_them() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    for _ in range(4):
        log.append_slice(1, 100)
    log.seal(1, 3)
    assert due(log) == [(0, 1)], "nothing can be joined to it any more; offset 3 may be joined with what comes"
    assert due(log, everything=True) == [(0, 1), (3, 4)]


def test_a_slice_that_the_log_start_cuts_stays() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    log.append_slice(10, 100)
    log.append_slice(5, 100)
    log.submit(MoveLogStart(log.topic.topic_id, log.partition().partition, Offset(4)))
    assert due(log, everything=True) == [(10, 15)]


def test_timestamp_sources_are_not_mixed() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    log.append_slice(1, 100)
    topic = log.state.topics[log.topic.topic_id]
    topic.config["message.timestamp.type"] = "LogAppendTime"
    log.append_slice(1, 100)
    log.append_slice(1, 100)
    assert due(log, everything=True) == [(0, 1), (1, 3)]


def test_slices_of_two_leader_epochs_are_not_joined() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    log.append_slice(2, 100)
    log.replace_partition(
        leader_epoch=LeaderEpoch(1), epochs=((LeaderEpoch(0), Offset(0)), (LeaderEpoch(1), Offset(2)))
    )
    log.append_slice(3, 100)
    planned = plan_roll(log.state, log.topic, log.partition(), log.now_ms, everything=True)
    assert [(each.start, each.end) for each in planned] == [(0, 2), (2, 5)]


def test_nothing_is_joined_over_offsets_that_no_slice_covers() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    for _ in range(4):
        log.append_slice(2, 100)
    log.state.slices.remove(place(), OffsetRange(Offset(4), Offset(6)))
    assert due(log) == [(0, 4)], "nothing can be joined to it any more"
    assert due(log, everything=True) == [(0, 4), (6, 8)]


def test_what_is_not_on_every_in_sync_store_stays() -> None:
    log = PlannedLog({"segment.bytes": "1000"})
    log.append_slice(2, 100)
    log.append_slice(3, 100)
    log.replace_partition(high_watermark=Offset(4))
    assert due(log, everything=True) == [(0, 2)]


def test_a_segment_is_made_of_a_bounded_number_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_rule, "MOST_SLICES", 3)
    log = PlannedLog({})
    for _ in range(7):
        log.append_slice(1, 100)
    assert due(log) == [(0, 3), (3, 6)]


def test_a_plan_is_the_same_when_the_tables_were_sealed_into_blocks() -> None:
    log = PlannedLog({"segment.bytes": "300"})
    for _ in range(10):
        log.append_slice(1, 100)
    log.seal(2, 4)
    before = due(log, everything=True)
    log.state.slices.seal()
    log.state.objects.seal()
    assert due(log, everything=True) == before == [(0, 2), (4, 7), (7, 10)]
