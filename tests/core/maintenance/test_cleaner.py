"""How far compaction has come, and since when tombstones were passed (C-02, C-03)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.commands import DeleteTopic, MoveCleaner, MoveLogStart
from sparklog.core.errors import InvalidInput, SwapRefused, UnknownTopicOrPartition
from sparklog.core.maintenance.cleaner import MOST_PASSES, Cleaner, Pass, moved, within_log
from sparklog.core.types import Offset, PartitionIndex
from tests.core.decided_log import TOPIC, DecidedLog, place
from tests.core.replicated_log import ReplicatedLog

P0 = PartitionIndex(0)


def cleaner(position: int, *passes: tuple[int, int]) -> Cleaner:
    return Cleaner(Offset(position), tuple(Pass(Offset(to), at_ms) for to, at_ms in passes))


def move(to: int, position: int | None = None, dropped_below: int | None = None, *, passes: bool = True) -> MoveCleaner:
    before, below = (None if offset is None else Offset(offset) for offset in (position, dropped_below))
    return MoveCleaner(TOPIC, P0, before, Offset(to), below, passes)


# ---- the value ------------------------------------------------------------------------------------------


def test_a_delay_is_over_by_the_pass_that_was_first() -> None:  # M: C-03
    found = cleaner(30, (10, 100), (20, 200))
    assert [found.tombstones_due(clock_ms, 50) for clock_ms in (149, 150, 249, 250)] == [None, 10, 10, 20]


def test_no_delay_is_over_while_a_superseded_record_is_kept() -> None:  # M: C-03
    found = moved(cleaner(10, (10, 100)), Offset(20), None, 200, keeps_superseded=True)
    assert found.tombstones_due(10_000, 50) is None
    assert moved(found, Offset(20), None, None).tombstones_due(10_000, 50) == 20, "the next run looked again"
    assert within_log(found, Offset(15), Offset(50)) == Cleaner(Offset(20), (Pass(Offset(20), 200),), True)


def test_what_a_run_dropped_needs_no_pass_any_more() -> None:  # M: C-03
    before = cleaner(20, (10, 100), (20, 200))
    assert moved(before, Offset(30), Offset(10), 300) == cleaner(30, (20, 200), (30, 300))
    assert moved(before, Offset(30), Offset(20), None) == cleaner(30)
    assert moved(None, Offset(30), None, 300) == cleaner(30, (30, 300))


def test_a_slow_clock_does_not_make_a_pass_earlier_than_the_one_before() -> None:  # M: C-03
    assert moved(cleaner(10, (10, 100)), Offset(20), None, 50) == cleaner(20, (10, 100), (20, 100))


def test_what_the_log_lost_is_not_cleaned() -> None:  # M: C-02
    before = cleaner(30, (10, 100), (20, 200), (30, 300))
    assert within_log(before, Offset(0), Offset(50)) == before
    assert within_log(before, Offset(10), Offset(50)) == cleaner(30, (20, 200), (30, 300))
    assert within_log(before, Offset(30), Offset(50)) is None
    assert within_log(before, Offset(0), Offset(15)) == cleaner(15, (10, 100), (15, 200)), (
        "what is left was passed at 200"
    )
    assert within_log(before, Offset(0), Offset(0)) is None


@given(gaps=st.lists(st.integers(0, 50), min_size=1, max_size=200), delay_ms=st.integers(1, 500))
def test_a_tombstone_never_goes_early_and_never_much_later(gaps: list[int], delay_ms: int) -> None:  # M: C-03
    """One record a run, each a tombstone; the time between runs is given. No list of passes grows without end."""
    found, now_ms, dropped = None, 0, 0
    passed_ms: list[int] = []
    for to, gap in enumerate(gaps, start=1):
        now_ms += gap
        over = None if found is None else found.tombstones_due(now_ms, delay_ms)
        for offset in range(dropped, over or 0):
            assert now_ms - passed_ms[offset] >= delay_ms
        dropped = max(dropped, over or 0)
        passed_ms.append(now_ms)
        found = moved(found, Offset(to), over, now_ms)
        assert len(found.passes) <= MOST_PASSES
        assert list(found.passes) == sorted(found.passes, key=lambda pass_: (pass_.to, pass_.at_ms))
    assert found is not None
    assert found.tombstones_due(now_ms + delay_ms, delay_ms) == len(gaps)
    assert found.passes[0].at_ms <= now_ms


def test_the_oldest_pass_is_not_put_off() -> None:  # M: C-03
    found = cleaner(1, (1, 0))
    for to in range(2, 200):
        found = moved(found, Offset(to), None, to)
    assert found.passes[0] == Pass(Offset(1), 0)
    times = [pass_.at_ms for pass_ in found.passes]
    assert max(after - before for before, after in pairwise(times)) <= 3 * 200 // MOST_PASSES


# ---- in the chain ---------------------------------------------------------------------------------------


def test_the_pass_has_the_time_of_its_entry_and_never_one_before_the_last_entry() -> None:  # M: C-03
    log = DecidedLog()
    log.append(10)
    log.now_ms = 500
    log.submit(move(10))
    assert log.state.cleaners[place()] == cleaner(10, (10, 1_000))


def test_a_run_that_another_one_overtook_does_not_move_the_cleaner() -> None:  # M: C-02
    log = DecidedLog()
    log.append(10)
    log.submit(move(5))
    for command in (move(10), move(10, 4)):
        with pytest.raises(SwapRefused, match="the cleaner of orders-0 was at"):
            log.decide(command)
    log.submit(move(10, 5, passes=False))
    assert log.state.cleaners[place()].position == 10
    assert log.decide(move(10, 10, passes=False)).records == (), "nothing changed"


def test_the_cleaner_stays_below_the_high_watermark_and_does_not_go_back() -> None:  # M: C-02
    log = DecidedLog()
    log.append(10)
    log.submit(move(5))
    for to in (4, 11):
        with pytest.raises(InvalidInput, match="can move from 5 to the high watermark 10"):
            log.decide(move(to, 5))
    with pytest.raises(UnknownTopicOrPartition):
        log.decide(MoveCleaner(TOPIC, PartitionIndex(7), None, Offset(1)))


def test_a_log_start_behind_it_resets_it_and_a_deleted_topic_has_none() -> None:  # M: C-02
    log = DecidedLog()
    log.append(10)
    log.append(10)
    log.submit(move(10))
    log.submit(MoveLogStart(TOPIC, P0, Offset(9)))
    assert log.state.cleaners[place()].position == 10
    log.submit(MoveLogStart(TOPIC, P0, Offset(10)))
    assert not log.state.cleaners
    log.submit(move(20))
    log.submit(DeleteTopic(TOPIC))
    assert not log.state.cleaners


def test_a_position_that_the_log_start_passed_during_the_run_does_not_stop_it() -> None:  # M: C-02
    log = DecidedLog()
    for _ in range(3):
        log.append(10)
    log.submit(move(10))
    log.submit(MoveLogStart(TOPIC, P0, Offset(10)))
    with pytest.raises(SwapRefused):
        log.decide(move(30, 11))
    log.submit(move(30, 10))
    assert log.state.cleaners[place()] == cleaner(30, (30, log.now_ms))


def test_an_unclean_election_that_gives_up_cleaned_records_takes_the_cleaner_back() -> None:  # M: C-02
    log = ReplicatedLog()
    log.configure(unclean_leader_election_enable="true", min_insync_replicas="1")
    log.write("abc", 10)
    log.write("ab", 5)
    log.submit(move(10))
    log.submit(move(15, 10))
    for store in "ab":
        log.fence(store)
    assert log.value().leader == "c"
    assert log.state.cleaners[place()].position == 10
    log.write("c", 5)
    assert log.state.cleaners[place()].position == 10
