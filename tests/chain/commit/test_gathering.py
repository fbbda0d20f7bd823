"""The next entry waits for more commands only if callers are likely to come back and entries take long."""

from __future__ import annotations

from sparklog.chain.commit.gathering import FIRST_LOOKS, LONGEST_LOOK_MS, LOOKS_PER_ENTRY, Gathering

TOOK_MS = 64  # so that a look lasts 4 ms


def after_an_entry(told: int, waiting: int = 0, took_ms: int = TOOK_MS) -> Gathering:
    """A gathering just after an entry that ended at 1,000 ms."""
    gathering = Gathering()
    gathering.expect(told, waiting, took_ms, 1_000)
    return gathering


def test_before_the_first_entry_nobody_is_waited_for() -> None:
    assert Gathering().look_ms(1, 0) is None


def test_callers_who_were_just_told_are_waited_for_beside_those_who_wait() -> None:
    gathering = after_an_entry(told=10, waiting=5)
    assert gathering.look_ms(5, 1_000) == TOOK_MS / LOOKS_PER_ENTRY
    assert [gathering.is_complete(waiting) for waiting in (14, 15)] == [False, True]
    assert gathering.look_ms(15, 1_000) is None


def test_a_caller_alone_does_not_wait() -> None:
    assert after_an_entry(told=1).look_ms(1, 1_000) is None


def test_where_entries_are_quick_nobody_waits_and_where_they_are_slow_nobody_waits_for_long() -> None:
    assert after_an_entry(told=10, took_ms=LOOKS_PER_ENTRY - 1).look_ms(1, 1_000) is None
    assert after_an_entry(told=10, took_ms=10_000).look_ms(1, 1_000) == LONGEST_LOOK_MS


def test_a_command_that_comes_later_is_not_of_those_who_came_back() -> None:
    gathering = after_an_entry(told=10)
    first_looks_ms = FIRST_LOOKS * TOOK_MS // LOOKS_PER_ENTRY
    assert gathering.look_ms(1, 1_000 + first_looks_ms) == TOOK_MS / LOOKS_PER_ENTRY
    assert gathering.look_ms(1, 1_001 + first_looks_ms) is None


def test_the_wait_goes_on_while_callers_come_back() -> None:
    gathering = after_an_entry(told=64)
    assert gathering.look_ms(1, 1_000) is not None
    gathering.looked(5, 1_004)  # four more: no more than would come at any time
    assert gathering.look_ms(5, 1_004) is not None
    gathering.looked(8, 1_008)
    assert gathering.look_ms(8, 1_008) is None
