"""Epoch histories: cut from the start, they keep the epoch that wrote the first record left."""

from __future__ import annotations

import pytest

from sparklog.core.leader_epochs import EpochHistory, trimmed_from_start
from sparklog.core.types import LeaderEpoch, Offset


def history(*entries: tuple[int, int]) -> EpochHistory:
    return tuple((LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


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
