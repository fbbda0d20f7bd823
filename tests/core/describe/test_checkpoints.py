"""Checkpoints have Kafka's format, say what the state says, and are refused if they are not whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.core.commands import MoveCleaner, MoveRecoveryPoint
from sparklog.core.describe.checkpoints import CHECKPOINTS, CLEANERS, checkpoints_of, parse_checkpoint
from sparklog.core.errors import InvalidInput
from sparklog.core.types import EntryNumber, ObjectNumber, Offset, StoreId
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    world = replicated_cluster(partitions=2)
    world.write("0", "1", partition=0)
    world.write("2", on="ab", partition=0)
    world.write("x", partition=1)
    world.cluster.create_topic("alone", assignment=[["a"]])
    world.fence("b")
    yield world
    world.cluster.close()


# M: F-07
def test_each_file_has_a_line_for_each_replica_on_the_store(world: ReplicatedCluster) -> None:
    state = world.state
    store = state.stores[StoreId("a")]
    world.submit(MoveRecoveryPoint(store.store, store.registration, ObjectNumber(1), EntryNumber(state.n)))
    assert checkpoints_of(world.state, StoreId("a")) == {
        "recovery-point-offset-checkpoint": "0\n3\nalone 0 0\nt 0 2\nt 1 0\n",
        "replication-offset-checkpoint": "0\n3\nalone 0 0\nt 0 3\nt 1 1\n",
        "log-start-offset-checkpoint": "0\n3\nalone 0 0\nt 0 0\nt 1 0\n",
        "cleaner-offset-checkpoint": "0\n0\n",
        "leader-epoch-checkpoint": "0\n3\nalone 0 0 0\nt 0 0 0\nt 1 0 0\n",
    }
    assert checkpoints_of(world.state, StoreId("c"))["replication-offset-checkpoint"] == "0\n2\nt 0 3\nt 1 1\n"


# M: F-07 C-02
def test_the_file_of_cleaners_has_a_line_for_each_partition_that_was_compacted(world: ReplicatedCluster) -> None:
    key = world.key(0)
    world.submit(MoveCleaner(key.topic_id, key.partition, None, Offset(2), None, passes_tombstones=False))
    for store, name in (("a", "alone"), ("c", "t")):
        assert name in checkpoints_of(world.state, StoreId(store))["log-start-offset-checkpoint"]
        assert checkpoints_of(world.state, StoreId(store))["cleaner-offset-checkpoint"] == "0\n1\nt 0 2\n"
    assert parse_checkpoint("0\n1\nt 0 2\n") == [("t", (0, 2))]


# M: F-07
def test_leader_epochs_are_those_of_the_chain(world: ReplicatedCluster) -> None:
    world.register("b")
    world.fence("a")
    state = world.state
    lines = parse_checkpoint(checkpoints_of(state, StoreId("b"))["leader-epoch-checkpoint"])
    wanted = [
        ("t", (index, epoch, start))
        for index in (0, 1)
        for epoch, start in state.partitions[world.key(index)].replication.epochs
    ]
    assert lines == wanted
    assert any(epoch > 0 for _, (_, epoch, _) in lines)


def test_what_is_written_can_be_read_and_nothing_that_is_cut(world: ReplicatedCluster) -> None:
    for name, text in checkpoints_of(world.state, StoreId("a")).items():
        assert name in CHECKPOINTS
        assert len(parse_checkpoint(text)) == (0 if name == CLEANERS else 3)
        for length in range(len(text)):
            with pytest.raises(InvalidInput):
                parse_checkpoint(text[:length])
    for wrong in ("1\n0\n", "0\n1\nt\n", "0\n1\nt x\n", "0\n0\n\n"):
        with pytest.raises(InvalidInput):
            parse_checkpoint(wrong)
