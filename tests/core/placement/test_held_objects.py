"""Which objects a store should hold, and whether a newer state still says so."""

from __future__ import annotations

from random import Random

import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.placement.held_objects import all_held, held_partitions, is_still_held, newest_held, some_held
from sparklog.core.types import Offset, PartitionIndex, StoreId, TopicPartition
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.test_replicated_walk import Walk

KEY, OTHER = (TopicPartition(TOPIC, PartitionIndex(each)) for each in (0, 1))
A, C = StoreId("a"), StoreId("c")


@pytest.fixture
def log() -> ReplicatedLog:
    """Partition 0: [0, 2) and [2, 3) on all stores, [3, 4) on a and b. Partition 1 is empty."""
    log = ReplicatedLog(partitions=2)
    log.write("abc", 2)
    log.write("abc", 1)
    log.write("ab", 1)
    return log


def test_what_lies_below_the_log_end_is_held(log: ReplicatedLog) -> None:
    assert held_partitions(log.state, C) == [KEY]
    assert [each.start for each in all_held(log.state, C, KEY)] == [0, 2]
    assert [each.start for each in all_held(log.state, A, KEY)] == [0, 2, 3]
    newest = newest_held(log.state, C, KEY)
    assert newest is not None
    assert newest.start == 2
    assert newest_held(log.state, C, OTHER) is None


def test_the_newest_of_a_log_that_ends_with_a_gap(log: ReplicatedLog) -> None:
    """An election forgot the last slice: the log end is behind the gap, the newest object in front of it."""
    log.write_to_leader("a", 100)
    log.fence("a")
    assert log.replicas().startswith("b:")
    newest = newest_held(log.state, StoreId("b"), KEY)
    assert newest is not None
    assert (newest.start, log.value().log_end(StoreId("b"))) == (3, 104)


def test_a_sample_is_drawn_from_what_is_held(log: ReplicatedLog) -> None:
    dice = Random(1)
    drawn = some_held(log.state, C, [KEY], 50, dice.randrange)
    assert {each.start for each in drawn} == {0, 2}
    assert some_held(log.state, C, [], 50, dice.randrange) == []


def test_what_another_change_took_away_is_not_held_any_more(log: ReplicatedLog) -> None:
    first, second = all_held(log.state, C, KEY)
    assert is_still_held(log.state, C, first)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(2)))
    assert (is_still_held(log.state, C, first), is_still_held(log.state, C, second)) == (False, True)
    log.submit(log.swap_of(2, 4))
    assert not is_still_held(log.state, A, second)


def test_on_random_histories_all_that_is_held_is_still_held() -> None:
    held = 0
    for seed in range(6):
        walk = Walk(seed)
        for _ in range(80):
            walk.step()
        state = walk.log.state
        for store in state.stores:
            for key in held_partitions(state, store):
                objects = list(all_held(state, store, key))
                assert all(is_still_held(state, store, each) for each in objects)
                newest = newest_held(state, store, key)
                assert [newest] == objects[-1:] or (newest is None and not objects)
                held += len(objects)
    assert held > 50
