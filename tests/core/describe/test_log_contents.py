"""The contents of all partitions of a topic at once are those of its slices, one by one."""

from __future__ import annotations

import random

import pytest

from sparklog.core.commands import CreateTopic, MoveLogStart
from sparklog.core.describe.log_contents import log_contents
from sparklog.core.placement.held_slices import whole_log
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, PartitionIndex, TopicId
from tests.core.decided_log import TOPIC, A, DecidedLog, place


def slow_twin(state: ClusterState, topic_id: TopicId, partition: int) -> tuple[int, int, int | None, int | None]:
    """Records, slices, oldest and newest timestamp of a partition, slice by slice."""
    log = state.partitions[place(partition, topic_id)]
    slices = list(state.slices.find(place(partition, topic_id), whole_log(log)))
    cut = ((min(one.end, log.high_watermark) - max(one.start, log.log_start), one.records) for one in slices)
    records = sum(max(0, min(offsets, records)) for offsets, records in cut)
    oldest_us = min((one.min_timestamp_us for one in slices), default=None)
    return records, len(slices), oldest_us, max((one.max_timestamp_us for one in slices), default=None)


@pytest.mark.parametrize("seed", range(10))
def test_contents_are_those_of_the_slices(seed: int) -> None:
    dice, log = random.Random(seed), DecidedLog()
    log.submit(CreateTopic("other", assignment=((A,),) * 3))
    other = log.state.topic_ids["other"]
    ends = {(topic_id, at): 0 for topic_id, partitions in ((TOPIC, 2), (other, 3)) for at in range(partitions)}
    for _ in range(40):
        topic_id, at = dice.choice(list(ends))
        if dice.random() < 0.2:
            start = dice.randint(log.state.partitions[place(at, topic_id)].log_start, ends[topic_id, at])
            log.submit(MoveLogStart(topic_id, PartitionIndex(at), Offset(start)))
        elif topic_id == TOPIC:
            records = dice.randint(1, 9)
            log.append(records, at)
            ends[topic_id, at] += records
        if dice.random() < 0.1:
            log.state.slices.seal()
    for topic in log.state.topics.values():
        found = log_contents(log.state, topic)
        rows = zip(found.records, found.slices, found.oldest_us, found.newest_us, strict=True)
        assert list(rows) == [slow_twin(log.state, topic.topic_id, at) for at in range(topic.partitions)]
