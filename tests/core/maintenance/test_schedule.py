"""When tasks are due: walks through random times, lengths of runs and failures, and the rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.maintenance.schedule import LONGEST_PAUSE_MS, LONGEST_WAIT_MS, Schedule, Task

MINUTE_MS = 60_000
ROLL, RETENTION = Task("roll", 5 * MINUTE_MS), Task("retention", 5 * MINUTE_MS)
VACUUM = Task("vacuum", 24 * 60 * MINUTE_MS)


def fresh(*tasks: Task, ages_ms: dict[str, int] | None = None, delay_ms: int = 0, now_ms: int = 0) -> Schedule:
    return Schedule(tasks, now_ms, delay_ms=delay_ms, ages_ms=ages_ms or {})


def run(schedule: Schedule, name: str, start_ms: int, end_ms: int, *, broke_off: bool = False) -> int:
    """One run; returns when the next one is due."""
    schedule.started(name, start_ms)
    schedule.ended(name, end_ms, broke_off=broke_off)
    return schedule[name].due_ms


# M: N-06
def test_a_task_comes_again_after_its_interval_counted_from_the_beginning_of_its_run() -> None:
    schedule = fresh(RETENTION)
    assert schedule.due(0) == ["retention"]
    assert run(schedule, "retention", 0, 20_000) == RETENTION.interval_ms
    assert schedule.due(RETENTION.interval_ms - 1) == []
    assert schedule.wait_ms(RETENTION.interval_ms - 1) == 1
    assert schedule.due(RETENTION.interval_ms) == ["retention"]


def test_roll_comes_first_and_a_roll_that_hangs_stops_no_other_task() -> None:
    schedule = fresh(ROLL, RETENTION)
    assert schedule.due(0) == ["roll"]
    schedule.started("roll", 0)
    assert schedule.due(1_000) == []
    assert schedule.wait_ms(1_000) == LONGEST_WAIT_MS - 1_000
    assert schedule.due(LONGEST_WAIT_MS) == ["retention"]
    other = fresh(ROLL, RETENTION)
    other.started("roll", 0)
    other.ended("roll", 1_000, broke_off=True)
    assert other.due(1_000) == ["retention"]


def test_no_task_runs_twice_at_a_time() -> None:
    schedule = fresh(ROLL)
    schedule.started("roll", 0)
    assert schedule.due(100 * ROLL.interval_ms) == []
    assert schedule.wait_ms(0) is None
    with pytest.raises(AssertionError, match="is already running"):
        schedule.started("roll", 1)


def test_runs_that_take_too_long_do_not_pile_up() -> None:
    schedule = fresh(ROLL)
    assert run(schedule, "roll", 0, 10 * ROLL.interval_ms) == 10 * ROLL.interval_ms
    assert run(schedule, "roll", 10 * ROLL.interval_ms, 10 * ROLL.interval_ms + 1) == 11 * ROLL.interval_ms


def test_runs_that_break_off_make_the_pause_longer_until_one_does_not() -> None:
    schedule = fresh(ROLL)
    now_ms = 0
    pauses = []
    for _ in range(40):
        due_ms = run(schedule, "roll", now_ms, now_ms + 1, broke_off=True)
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
    assert pauses[:5] == [MINUTE_MS * minutes for minutes in (5, 10, 20, 40, 60)]
    assert set(pauses[4:]) == {LONGEST_PAUSE_MS}
    assert run(schedule, "roll", now_ms, now_ms + 1) == now_ms + ROLL.interval_ms
    daily = fresh(VACUUM)
    assert run(daily, "vacuum", 0, 1, broke_off=True) == VACUUM.interval_ms
    assert run(daily, "vacuum", VACUUM.interval_ms, VACUUM.interval_ms, broke_off=True) == 2 * VACUUM.interval_ms


# M: N-06
def test_a_new_leader_goes_on_where_the_last_one_was() -> None:
    ages_ms = {"roll": 10 * MINUTE_MS, "retention": MINUTE_MS}
    schedule = fresh(ROLL, RETENTION, VACUUM, ages_ms=ages_ms, delay_ms=20_000, now_ms=1_000)
    assert schedule.due(20_999) == []
    assert schedule.due(21_000) == ["roll"], "it is overdue; vacuum never ran and waits for it"
    assert schedule["retention"].due_ms == 1_000 + 4 * MINUTE_MS
    run(schedule, "roll", 21_000, 22_000)
    assert schedule.due(22_000) == ["vacuum"]


@given(age_ms=st.integers(-(10**12), 10**12), now_ms=st.integers(0, 10**12), delay_ms=st.integers(0, 60_000))
def test_a_wrong_clock_costs_one_interval_at_most(age_ms: int, now_ms: int, delay_ms: int) -> None:
    schedule = fresh(ROLL, ages_ms={"roll": age_ms}, delay_ms=delay_ms, now_ms=now_ms)
    assert now_ms + delay_ms <= schedule["roll"].due_ms <= now_ms + max(delay_ms, ROLL.interval_ms)


intervals = st.integers(1, 1_000)


# M: N-06
@settings(max_examples=150, deadline=None)
@given(
    first=intervals,
    second=intervals,
    third=intervals,
    delay_ms=st.integers(0, 500),
    lengths=st.lists(st.integers(0, 3_000), min_size=1, max_size=30),
    outcomes=st.lists(st.booleans(), min_size=1, max_size=30),
)
def test_every_task_comes_in_time_alone_and_as_often_as_it_may(
    first: int, second: int, third: int, delay_ms: int, lengths: list[int], outcomes: list[bool]
) -> None:
    """A walk in which somebody always does what the schedule says, and sleeps as long as it says."""
    tasks = (Task("a", first), Task("b", second), Task("c", third))
    schedule = fresh(*tasks, delay_ms=delay_ms)
    ends: dict[str, int] = {}
    starts: dict[str, list[int]] = {task.name: [] for task in tasks}
    now_ms, runs = 0, 0
    while runs < 60:
        for name in [name for name, end_ms in ends.items() if end_ms <= now_ms]:
            del ends[name]
            schedule.ended(name, now_ms, broke_off=outcomes[runs % len(outcomes)])
        for name in schedule.due(now_ms):
            planned = schedule[name]
            assert name not in ends, "two runs of one task"
            assert now_ms >= delay_ms
            patience_ms = min(planned.task.interval_ms, LONGEST_WAIT_MS)
            assert planned.due_ms <= now_ms <= planned.due_ms + patience_ms, "too early, or too late"
            if starts[name]:
                assert now_ms - starts[name][-1] >= planned.task.interval_ms, "runs piled up"
            starts[name].append(now_ms)
            schedule.started(name, now_ms)
            ends[name] = now_ms + lengths[runs % len(lengths)]
            runs += 1
        wait_ms = schedule.wait_ms(now_ms)
        next_ms = [*ends.values()] + ([now_ms + wait_ms] if wait_ms is not None else [])
        assert min(next_ms) > now_ms or any(end_ms <= now_ms for end_ms in ends.values()), "it would spin"
        now_ms = min(next_ms)
