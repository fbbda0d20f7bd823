"""The first record at or after a time (S-05): which slices may hold it, and which batches of one are read."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.core.commands import MoveLogStart
from sparklog.core.types import Offset, TimestampSource
from sparklog.log.read import time_lookup
from sparklog.log.read.time_lookup import candidates, first_in_slice
from sparklog.storage.memory import MemoryStore
from tests.core.planned_log import PlannedLog
from tests.kit.faulty_store import FaultyStore
from tests.log.written_log import APPEND_TIME_MS, arguments, times_log


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


# ---- in one slice -----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(-1, 32), st.integers(0, 61))
@example([9, *[1] * 6, 9], 5, 1)  # what is late enough in the first batch lies before the start
@example([1] * 30, 1, 0)  # the second slice lies behind the start
def test_first_offset_by_time_equals_a_full_scan(times: list[int], wanted: int, start: int):  # M: S-05
    log = times_log(times, records_per_object=25)
    found = []
    for at in range(len(log.slices)):
        each = log.slices[at]
        begin = max(start, each.start)
        model = [offset for offset in range(begin, each.end) if times[offset] >= wanted]
        answer = first_in_slice(*arguments(log, at), wanted, Offset(start))
        assert answer == (model[0] if model else None)
        found.append(answer)
    assert first_in_slice(*arguments(log), wanted, Offset(0)) == next(
        (offset for offset in range(log.slices[0].end) if times[offset] >= wanted), None
    )


def test_append_time_answers_without_reading():
    log = times_log([5, 6], source=TimestampSource.APPEND_TIME)
    watched = FaultyStore(log.store)
    rest = arguments(log)[1:]
    assert first_in_slice(watched, *rest, APPEND_TIME_MS * 1000, Offset(0)) == 0
    assert first_in_slice(watched, *rest, APPEND_TIME_MS * 1000, Offset(1)) == 1
    assert first_in_slice(watched, *rest, APPEND_TIME_MS * 1000 + 1, Offset(0)) is None
    assert watched.calls == []


# M: S-05
def test_look_up_by_time_reads_one_batch():
    log = times_log(list(range(60)), records_per_batch=5)
    watched = FaultyStore(log.store)
    assert first_in_slice(watched, *arguments(log)[1:], 17, Offset(0)) == 17
    assert len(watched.ranges) == 1


def test_the_time_of_a_large_record_is_known_without_reading_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sparklog.log.read.time_lookup.LARGEST_TIMES_BYTES", 1)
    log = times_log([3, 9, 4], records_per_batch=1)
    watched = FaultyStore(log.store)
    assert [first_in_slice(watched, *arguments(log)[1:], time, Offset(0)) for time in (2, 4, 9)] == [0, 1, 1]
    assert first_in_slice(watched, *arguments(log)[1:], 4, Offset(2)) == 2
    assert watched.ranges == []


# M: S-05
def test_look_up_by_time_does_not_read_the_batches_before_its_start():
    log = times_log([9] * 60, records_per_batch=5)
    watched = FaultyStore(log.store)
    assert first_in_slice(watched, *arguments(log)[1:], 9, Offset(43)) == 43
    assert len(watched.ranges) == 1


# M: S-05
@pytest.mark.parametrize("source", [TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME])
@pytest.mark.parametrize(("timestamp_us", "start"), [(3, 3), (3, 9), (4 + APPEND_TIME_MS * 1000, 0)])
def test_what_a_slice_can_not_hold_is_known_without_reading(source: TimestampSource, timestamp_us: int, start: int):
    log = times_log([3, 2, 1], source=source)
    watched = FaultyStore(MemoryStore("memory://no-index"))
    assert first_in_slice(watched, *arguments(log)[1:], timestamp_us, Offset(start)) is None
    assert watched.calls == []


# M: S-05
def test_times_before_the_epoch_are_found_too():
    log = times_log([-5, -3, -4])
    assert first_in_slice(*arguments(log), -4, Offset(0)) == 1


def test_append_time_of_a_slice_behind_the_start_is_that_of_its_first_record():
    log = times_log([5, 6, 7, 8], records_per_object=2, source=TimestampSource.APPEND_TIME)
    second = log.slices[1]
    assert second.start == 2
    assert first_in_slice(*arguments(log, 1), APPEND_TIME_MS * 1000, Offset(0)) == 2
