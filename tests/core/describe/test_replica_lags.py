"""The lags of all replicas of a topic at once are those that the slices give, one by one."""

from __future__ import annotations

import random

import pytest

from sparklog.core.describe.replica_lags import ReplicaLag, replica_lags
from sparklog.core.state import Partition
from sparklog.core.types import Offset, OffsetRange
from tests.core.decided_log import TOPIC, place
from tests.core.replicated_log import ReplicatedLog


def slow_twin(log: ReplicatedLog, partition: Partition, log_end: Offset) -> ReplicaLag:
    """Records and bytes beyond `log_end`, slice by slice."""
    beyond = OffsetRange(log_end, partition.next_offset)
    slices = list(log.state.slices.find(place(partition.partition), beyond)) if log_end < partition.next_offset else []
    records = sum(one.records for one in slices)
    return ReplicaLag(min(records, beyond.end - beyond.start), sum(one.length for one in slices))


@pytest.mark.parametrize("seed", range(10))
def test_lags_are_those_of_the_slices(seed: int) -> None:
    dice, log = random.Random(seed), ReplicatedLog(partitions=3)
    for _ in range(30):
        on = dice.choice(["abc", "ab", "a", "ac"])
        log.write(on, dice.randint(1, 5), partition=dice.randrange(3))
        if dice.random() < 0.1:
            log.state.slices.seal()
    found = replica_lags(log.state, log.state.topics[TOPIC])
    partitions = log.state.partitions_of(log.state.topics[TOPIC])
    wanted = [[slow_twin(log, partition, end) for end in partition.replication.log_ends] for partition in partitions]
    assert found == wanted
    assert any(lag.records for lags in found for lag in lags)


def test_without_a_lag_no_slice_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ReplicatedLog()
    log.write("abc", 2)
    monkeypatch.delattr(type(log.state.slices), "of_partitions")
    assert replica_lags(log.state, log.state.topics[TOPIC]) == [[ReplicaLag(0, 0)] * 3]
