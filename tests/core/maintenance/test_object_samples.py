"""Which objects are looked for when not all can be."""

from __future__ import annotations

import pytest

from sparklog.core.commands import Append, CreateTopic, PartitionEpoch
from sparklog.core.maintenance.object_samples import sampled_objects
from sparklog.core.types import LeaderEpoch, PartitionIndex, TopicId
from tests.core.decided_log import DecidedLog


@pytest.fixture
def log() -> DecidedLog:
    """orders-0 with five slices, orders-1 with two, each in an object of its own; the topic empty."""
    log = DecidedLog()
    log.submit(CreateTopic("empty", 3, 1))
    for partition in (0, 0, 1, 0, 1, 0, 0):
        log.append(10, partition)
    return log


def sampled(log: DecidedLog, most: int) -> list[tuple[int, int]]:
    return [(each.slice.partition, each.slice.start) for each in sampled_objects(log.state, most)]


def test_the_newest_of_each_partition_come_first_then_the_oldest_then_those_between(log: DecidedLog) -> None:
    assert sampled(log, 100) == [(0, 40), (1, 10), (0, 0), (1, 0), (0, 30), (0, 10), (0, 20)]
    assert [sampled(log, most) for most in (0, 1, 3)] == [[], [(0, 40)], [(0, 40), (1, 10), (0, 0)]]


def test_an_object_that_holds_two_partitions_is_in_it_once(log: DecidedLog) -> None:
    first, second = log.append_of(10, 0), log.append_of(10, 1)
    slices = (first.slices[0], log.part(10, 1))
    log.submit(Append(first.objects, slices, (*first.epochs, *second.epochs)))
    numbers = [each.object.number for each in sampled_objects(log.state, 100)]
    assert len(numbers) == len(set(numbers)) == len(log.state.objects) == 8


def test_a_small_topic_is_in_the_sample_beside_a_large_one(log: DecidedLog) -> None:
    small = TopicId(2)
    epoch = PartitionEpoch(small, PartitionIndex(0), LeaderEpoch(0))
    log.submit(Append((log.uploaded(topic_id=small),), (log.part(topic_id=small),), (epoch,)))
    assert [each.topic for each in sampled_objects(log.state, 3)] == ["orders", "empty", "orders"]
