"""Shares of a limit, and when a micro-batch waits: the cases of Spark's KafkaMicroBatchSourceSuite, as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.reading.trigger_limits import TriggerLimits, shares

SECOND = 1_000


@pytest.mark.parametrize(
    ("limit", "backlogs", "expected"),
    [
        (10, {"a": 100, "b": 10, "c": 1}, {"a": 9, "b": 1, "c": 1}),  # rounded down, and c gets its one
        (10, {"a": 90, "b": 1, "c": 1}, {"a": 9, "b": 1, "c": 1}),
        (13, {"a": 4, "b": 0}, {"a": 4, "b": 0}),  # no more than there is
        (1, {"a": 5, "b": 5, "c": 5}, {"a": 1, "b": 1, "c": 1}),  # small ones are not starved, whatever the limit
        (2**62, {"a": 2**62, "b": 2**62}, {"a": 2**61, "b": 2**61}),
        (5, {}, {}),
        (5, {"a": 0}, {"a": 0}),
    ],
)
def test_a_limit_is_shared_in_proportion_to_backlog(
    limit: int, backlogs: dict[str, int], expected: dict[str, int]
) -> None:
    assert shares(limit, backlogs) == expected


@given(st.integers(1, 10**6), st.dictionaries(st.integers(0, 20), st.integers(0, 10**9)))
def test_shares_move_every_backlog_on_and_exceed_the_limit_only_by_the_small_ones(
    limit: int, backlogs: dict[int, int]
) -> None:
    given_out = shares(limit, backlogs)
    assert all((share > 0) == (backlogs[key] > 0) and share <= backlogs[key] for key, share in given_out.items())
    assert sum(share for share in given_out.values() if share > 1) <= limit


def test_a_micro_batch_waits_for_its_least_offsets_but_not_longer_than_the_delay() -> None:
    limits = TriggerLimits(min_offsets=15, max_delay_ms=5 * SECOND)
    assert not limits.holds_back(1, 0, None), "the first one never waits"
    assert limits.holds_back(14, 1 * SECOND, 0)
    assert not limits.holds_back(15, 1 * SECOND, 0)
    assert limits.holds_back(14, 5 * SECOND - 1, 0)
    assert not limits.holds_back(14, 5 * SECOND, 0)
    assert not limits.without_minimum().holds_back(0, 1 * SECOND, 0)
    assert not TriggerLimits(max_offsets=5).holds_back(0, 1, 0)


def test_any_of_the_three_is_a_limit() -> None:
    assert not TriggerLimits().is_limited
    assert not TriggerLimits(max_delay_ms=1).is_limited
    for limits in (TriggerLimits(max_offsets=1), TriggerLimits(min_offsets=1), TriggerLimits(max_bytes=1)):
        assert limits.is_limited
