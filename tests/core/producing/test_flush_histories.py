"""Random histories of a producer: five commits under way, replies lost, commands that arrive late or twice."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AllocateProducer
from sparklog.core.errors import InvalidProducerEpoch
from sparklog.core.replication.replica_append import Acks
from tests.core.producing.producer_world import ProducerWorld, labels, with_acks
from tests.kit.budget import Seeds, random_runs


@pytest.mark.parametrize("acks", [Acks.ALL, Acks.LEADER])
@random_runs(range(9), campaign=[range(25), range(1_000, 4_000)])
def test_records_are_there_in_order_and_once_whatever_gets_lost(acks: Acks, seeds: Seeds) -> None:  # M: I-01 I-06
    commits = repeats = renewals = most = joined = around_doubt = shut_out = not_shut_out = 0
    for seed in seeds:
        world = history(seed, acks)
        commits += world.commits
        repeats += world.repeats
        renewals += world.renewals
        most = max(most, world.most_at_once)
        joined += world.most_joined > 1
        around_doubt += world.settled_around_doubt
        shut_out += world.shut_out
        not_shut_out += world.not_shut_out
    assert commits > 10 * seeds.least
    assert repeats > seeds.least, "commits that had landed were sent again"
    assert renewals > 4, "some were given up in doubt"
    assert most >= 5
    assert joined > seeds.least // 2, "what waited for a leader was joined"
    assert around_doubt > seeds.least // 6, "the others went on though what came next in one was in doubt"
    assert shut_out > seeds.least // 2, "commits in doubt were shut out"
    assert not_shut_out > 1, "commits in doubt had landed when the next epoch was asked for"


def test_a_fenced_producer_writes_nothing_more() -> None:
    for seed in range(10):
        world = ProducerWorld(seed)
        world.run(60)
        world.chain.submit(AllocateProducer(world.flushes.identity.producer_id))
        there = {key: list(landed) for key, landed in world.log.items()}
        world.run(60)
        world.send()
        world.settle()
        world.check()
        assert world.log == there
        assert isinstance(world.flushes.fatal, InvalidProducerEpoch)


def history(seed: int, acks: Acks) -> ProducerWorld:
    world = ProducerWorld(seed, settings=with_acks(acks))
    try:
        world.run(150)
        world.settle_around()
        world.settle()
        world.check()
        last = world.send()
        world.settle()
        assert all(isinstance(world.told[key, label], int) for key, label in labels(last).of.items()), "it goes on"
        world.check()
    except BaseException as error:
        error.add_note(f"seed {seed}, acks {acks.name}")
        raise
    return world
