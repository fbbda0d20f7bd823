"""Epoch histories: elections open and cut them (E3, E6), retention trims them, and consumers ask them (E5)."""

from __future__ import annotations

import pytest

from sparklog.core.replication.epoch_history import (
    EpochHistory,
    end_of_epoch,
    opened,
    trimmed_from_start,
    truncated,
)
from sparklog.core.types import LeaderEpoch, Offset


def history(*entries: tuple[int, int]) -> EpochHistory:
    return tuple((LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


LONG = history((1, 0), (2, 10), (5, 20))


@pytest.mark.parametrize(
    ("end", "left"), [(0, ()), (9, LONG[:1]), (10, LONG[:1]), (11, LONG[:2]), (20, LONG[:2]), (21, LONG)]
)
def test_e6_truncation_drops_the_epochs_that_begin_at_the_end_or_above(end: int, left: EpochHistory) -> None:
    assert truncated(LONG, Offset(end)) == left


def test_e3_an_epoch_that_wrote_nothing_gives_way_to_the_next() -> None:
    assert opened(LONG, LeaderEpoch(6), Offset(25)) == (*LONG, (6, 25))
    assert opened(LONG, LeaderEpoch(6), Offset(20)) == (*LONG[:2], (6, 20))


@pytest.mark.parametrize(
    ("epoch", "found"),
    [(5, (5, 30)), (6, None), (4, (2, 20)), (3, (2, 20)), (2, (2, 20)), (1, (1, 10)), (0, (0, 0))],
)
def test_e5_the_end_of_an_epoch(epoch: int, found: tuple[int, int] | None) -> None:
    assert end_of_epoch(LONG, Offset(30), LeaderEpoch(epoch)) == found


def test_e5_an_epoch_older_than_the_history_ends_where_the_history_starts() -> None:
    assert end_of_epoch(LONG[1:], Offset(30), LeaderEpoch(1)) == (1, 10)


# M: L-07
@pytest.mark.parametrize(
    ("log_start", "left"),
    [
        (0, [(0, 0), (2, 10), (3, 20)]),
        (5, [(0, 5), (2, 10), (3, 20)]),
        (10, [(2, 10), (3, 20)]),
        (11, [(2, 11), (3, 20)]),
        (25, [(3, 25)]),
    ],
)
def test_the_epoch_of_the_first_record_left_starts_there(log_start: int, left: list[tuple[int, int]]) -> None:
    assert trimmed_from_start(history((0, 0), (2, 10), (3, 20)), Offset(log_start)) == history(*left)


def test_a_history_that_begins_later_stays() -> None:
    assert trimmed_from_start(history((4, 9)), Offset(3)) == history((4, 9))
