"""Pauses between failed attempts."""

from __future__ import annotations

from sparklog.core.pauses import longer, pause_ms_after


def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_limit() -> None:
    assert [longer(10, 35), longer(20, 35), longer(35, 35)] == [20, 35, 35]
    assert [pause_ms_after(failures, 10, 35) for failures in range(4)] == [10, 20, 35, 35]


def test_a_pause_after_very_many_failures_is_the_limit() -> None:
    assert pause_ms_after(10**9, 10, 35) == 35
