"""Positions that readers keep: right, right up to an offset, or of something else (KIP-320, rule E5)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from sparklog.core.commands import CreateTopic, DeleteTopic
from sparklog.core.errors import InconsistentClusterId, UnknownLeaderEpoch, UnknownTopicOrPartition
from sparklog.core.reading.positions import Position, valid_up_to
from sparklog.core.types import LeaderEpoch, Offset, PartitionIndex
from tests.core.replicated_log import TOPIC, ReplicatedLog
from tests.core.replication.example_partition import stores
from tests.core.test_replicated_walk import Walk
from tests.kit.budget import Seeds, random_runs

POSITIONS_KEPT = 40


def at(log: ReplicatedLog, offset: int, epoch: int | None = None, partition: int = 0) -> Position:
    """The position of a reader that plans now, or of one whose last record was of this epoch."""
    known = log.value(partition).leader_epoch if epoch is None else LeaderEpoch(epoch)
    return Position(log.state.chain_id, TOPIC, PartitionIndex(partition), Offset(offset), known)


@pytest.fixture
def log() -> ReplicatedLog:
    """[0, 4) is on a, b and c, [4, 7) on a alone, which is in sync alone: HW is 7."""
    made = ReplicatedLog()
    made.write("abc", 4)
    for each in "bc":
        made.fence(each)
    made.write("a", 3)
    assert made.value().high_watermark == 7
    return made


def lose_three(log: ReplicatedLog) -> None:
    """b leads from 7 on, without [4, 7)."""
    log.fence("a")
    log.register("b")
    log.elect(unclean=True)
    assert log.value().leader == "b"


# M: L-05
def test_e5_a_position_is_valid_up_to_what_an_unclean_election_gave_up(log: ReplicatedLog) -> None:
    kept = {offset: at(log, offset) for offset in (0, 4, 5, 7)}
    assert {offset: valid_up_to(log.state, each) for offset, each in kept.items()} == {0: 0, 4: 4, 5: 5, 7: 7}
    lose_three(log)
    log.write("b", 2)
    assert {offset: valid_up_to(log.state, each) for offset, each in kept.items()} == {0: 0, 4: 4, 5: 4, 7: 4}


def test_e5_a_position_that_was_taken_after_a_loss_is_right(log: ReplicatedLog) -> None:
    lose_three(log)
    inside, end = at(log, 5), at(log, 7)
    log.write("b", 2)
    behind = at(log, 8)
    log.register("c")
    log.report("c", 9)
    log.elect("c")
    log.write("bc", 1)
    assert [valid_up_to(log.state, each) for each in (inside, end, behind)] == [5, 7, 8]


def test_e5_a_clean_election_leaves_every_position_right(log: ReplicatedLog) -> None:
    for each in "bc":
        log.register(each)
        log.report(each, 7)
    log.write_to_leader("a", 2)  # above HW
    kept = [at(log, 4), at(log, 7)]
    log.fence("a")
    assert log.value().next_offset == 9
    assert [valid_up_to(log.state, each) for each in kept] == [4, 7]
    after = at(log, 9)
    log.fence("b")
    assert valid_up_to(log.state, after) == 9


def test_e5_the_epoch_of_the_last_record_finds_the_same(log: ReplicatedLog) -> None:
    """A Kafka client's position."""
    lose_three(log)
    log.write("b", 2)
    assert [valid_up_to(log.state, at(log, offset, 0)) for offset in (4, 6)] == [4, 4]
    newest = log.value().leader_epoch
    assert valid_up_to(log.state, at(log, 9, newest)) == 9


def test_e5_an_epoch_that_is_still_to_come_is_unknown(log: ReplicatedLog) -> None:
    with pytest.raises(UnknownLeaderEpoch, match="orders-0: the position 4 is of leader epoch 9, the newest one is 0"):
        valid_up_to(log.state, at(log, 4, 9))


def test_a_position_of_another_cluster_is_refused(log: ReplicatedLog) -> None:
    other = msgspec.structs.replace(at(log, 4), chain_id="d" * 32)
    with pytest.raises(InconsistentClusterId, match="deleted and created again"):
        valid_up_to(log.state, other)


def test_a_position_of_a_topic_that_was_created_again_is_refused(log: ReplicatedLog) -> None:
    kept = at(log, 4)
    log.submit(DeleteTopic(TOPIC))
    log.submit(CreateTopic("orders", assignment=(stores("a"),)))
    with pytest.raises(UnknownTopicOrPartition, match="topic id 1 is not in the cluster"):
        valid_up_to(log.state, kept)


# The third seed: an election, a rewrite and another election give up records side by side.
@random_runs((0, 1, 224395264), campaign=[range(12)])
def test_e5_whatever_happens_a_position_is_never_right_beyond_what_was_forgotten(seeds: Seeds) -> None:
    """Against a reader that remembers each offset it has read."""
    for seed in seeds:
        _compare_with_a_reader(seed)


def _compare_with_a_reader(seed: int) -> None:
    walk, dice = Walk(seed), Random(seed)
    walk.log.configure(min_insync_replicas="1", unclean_leader_election_enable="true")
    kept: list[tuple[Position, frozenset[int]]] = []
    salvaged: set[int] = set()  # given up by rewrites, not by elections
    for _ in range(200):
        before, were_there = walk.log.value(), _offsets(walk.log, walk.log.value().next_offset)
        walk.step()
        value = walk.log.value()
        offset = dice.randint(value.log_start, value.high_watermark)
        kept.append((at(walk.log, offset), frozenset(_offsets(walk.log, offset))))
        if len(kept) > POSITIONS_KEPT:
            kept.pop(dice.randrange(len(kept)))
        there = _offsets(walk.log, value.next_offset)
        if value.leader_epoch == before.leader_epoch:
            salvaged |= were_there - there
        epochs = dict(value.epochs)
        for position, had in kept:
            forgotten = [each for each in had - there - salvaged if each >= value.log_start]
            right = valid_up_to(walk.log.state, position)
            assert right <= position.offset
            assert right <= min(forgotten, default=position.offset)
            begin = epochs.get(position.leader_epoch)
            if begin is not None and max(salvaged, default=-1) < begin:
                assert not [each for each in had & there if each >= max(right, value.log_start)]
                assert forgotten or right == position.offset


def _offsets(log: ReplicatedLog, below: int) -> set[int]:
    return {offset for low, high in log.bounds() for offset in range(low, min(high, below))}
