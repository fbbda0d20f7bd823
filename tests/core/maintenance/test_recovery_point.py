"""The recovery point of a store: what lies above it, how far it may rise, and what sets it back."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.core.commands import AgentDown, HeldEnd, Move, MoveRecoveryPoint, MoveReplicas, ReportLoss
from sparklog.core.errors import Conflict, InvalidInput, NotEnoughReplicas, StaleBrokerEpoch
from sparklog.core.maintenance.recovery_point import recovered_end, recovery_point_after, replicas_to_check
from sparklog.core.placement.held_slices import slices_by_object
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state_invariants import check
from sparklog.core.types import EntryNumber, ObjectNumber, Offset, PartitionIndex, StoreId, TopicId
from sparklog.maintenance.replication_job import run_replication
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster

A, B, C = StoreId("a"), StoreId("b"), StoreId("c")


@pytest.fixture
def world() -> Iterator[ReplicatedCluster]:
    """Five objects, 0 to 4: c lacks the third."""
    world = replicated_cluster(partitions=2)
    world.write("0", "1", partition=0)
    world.write("x", partition=1)
    world.write("2", on="ab", partition=0)
    world.write("3", partition=0)
    world.write("y", partition=1)
    yield world
    check(world.state)
    world.cluster.close()


def to_check(world: ReplicatedCluster, store: StoreId, *, everything: bool = False) -> list[tuple[int, list[int]]]:
    state = world.state
    found = replicas_to_check(state, store, state.topics.values(), everything=everything)
    return [(each.topic_partition.partition, [*each.numbers, *(-number for number in each.lacking)]) for each in found]


def moved(world: ReplicatedCluster, store: StoreId, to: int, n: int | None = None) -> int:
    state = world.state
    known = state.stores[store]
    world.submit(
        MoveRecoveryPoint(store, known.registration, ObjectNumber(to), EntryNumber(state.n if n is None else n))
    )
    return world.state.stores[store].recovery_point


# M: F-03
def test_only_what_lies_above_the_point_is_to_be_read(world: ReplicatedCluster) -> None:
    assert to_check(world, A) == [(0, [0, 2, 3]), (1, [1, 4])]
    assert moved(world, A, 3) == 3
    assert to_check(world, A) == [(0, [3]), (1, [4])]
    assert to_check(world, A, everything=True) == [(0, [0, 2, 3]), (1, [1, 4])]
    assert moved(world, A, 5) == 5
    assert to_check(world, A) == []
    assert to_check(world, B) == [(0, [0, 2, 3]), (1, [1, 4])]


def test_a_replica_that_lags_is_read_as_far_as_it_holds_objects(world: ReplicatedCluster) -> None:
    assert to_check(world, C) == [(0, [0, -2, -3]), (1, [1, 4])], "what it lacks counts from below"


def test_an_object_of_several_partitions_is_listed_with_the_first() -> None:
    world = replicated_cluster(partitions=3)
    for _ in range(2):
        world.cluster.append("t", pa.table({"value": ["x", "y"], "partition": pa.array([0, 2], pa.int32())}))
        world.write("z", partition=1)
    assert [world.objects_of(partition) for partition in range(3)] == [[0, 2], [1, 3], [0, 2]]
    assert to_check(world, A) == [(0, [0, 2]), (1, [1, 3])]
    world.cluster.close()


# M: F-03
def test_the_point_rises_to_the_first_object_that_was_not_read_or_is_not_there_yet(world: ReplicatedCluster) -> None:
    state = world.state
    assert recovery_point_after(state, A, {0, 1, 2, 3, 4}) == 5
    assert recovery_point_after(state, A, {0, 1, 3, 4}) == 2
    assert recovery_point_after(state, A, ()) == 0
    assert recovery_point_after(state, C, {0, 1, 3, 4}) == 2, "what c lacks will be copied later, with its old number"
    moved(world, A, 3)
    assert recovery_point_after(world.state, A, {3, 4}) == 5
    world.write("new", partition=0)
    assert recovery_point_after(world.state, A, {3, 4}) == 5


def test_as_an_offset_the_point_is_the_first_record_that_is_not_known_to_be_whole(world: ReplicatedCluster) -> None:
    def ends(store: StoreId) -> list[int]:
        state = world.state
        return [recovered_end(state, store, state.partitions[world.key(index)]) for index in (0, 1)]

    assert ends(A) == [0, 0]
    moved(world, A, 3)
    assert ends(A) == [3, 1]
    moved(world, A, 5)
    assert ends(A) == [4, 2]
    moved(world, C, 2)
    assert ends(C) == [2, 1]


def test_the_point_does_not_go_back_by_a_command_and_not_above_the_next_number(world: ReplicatedCluster) -> None:
    assert moved(world, A, 4) == 4
    assert moved(world, A, 2) == 4
    for wrong in (-1, 6):
        with pytest.raises(InvalidInput):
            moved(world, A, wrong)


# M: F-03
def test_a_store_that_lost_something_or_came_back_is_not_trusted_any_more(world: ReplicatedCluster) -> None:
    assert moved(world, A, 5) == 5
    assert moved(world, B, 5) == 5
    registration = world.state.stores[A].registration
    incarnation = world.state.stores[A].incarnation
    world.submit(ReportLoss(A, registration, incarnation, (HeldEnd(TopicId(1), PartitionIndex(0), Offset(2)),)))
    world.fence("b")
    world.register("b")
    assert world.state.stores[A].recovery_point == world.state.stores[B].recovery_point == 0
    with pytest.raises(StaleBrokerEpoch):
        world.submit(MoveRecoveryPoint(A, registration, ObjectNumber(5), EntryNumber(world.state.n)))


# M: F-03
def test_a_replica_of_older_records_sets_the_point_back_and_refuses_what_was_read_before(
    world: ReplicatedCluster,
) -> None:
    world.cluster.create_topic("u", assignment=[["a"]])
    world.cluster.append("u", pa.table({"value": ["u"]}))
    number = max(named.number for named in world.state.objects)
    assert moved(world, B, number + 1) == number + 1
    read = world.state.n
    topic_id = world.state.topic_ids["u"]
    world.submit(MoveReplicas((Move(topic_id, PartitionIndex(0), (A, B)),)))
    assert world.state.stores[B].recovery_point == number
    assert run_replication(world.cluster.connection.url, stores=["b"]).exit_code == 0
    assert to_check(world, B) == [(0, [number])]
    with pytest.raises(Conflict):
        moved(world, B, number + 1, read)
    assert moved(world, B, number + 1) == number + 1


def test_all_slices_of_an_object_are_found(world: ReplicatedCluster) -> None:
    state = world.state
    (slice_,) = slices_by_object(state, [ObjectNumber(4)])[ObjectNumber(4)]
    assert (slice_.partition, slice_.start, slice_.end) == (1, 1, 2)


# ---- a loss that can wait -------------------------------------------------------------------------------


def harmless(world: ReplicatedCluster, store: StoreId, end: int) -> None:
    known = world.state.stores[store]
    held = (HeldEnd(TopicId(1), PartitionIndex(0), Offset(end)),)
    world.submit(ReportLoss(store, known.registration, known.incarnation, held, harmless=True))


def test_a_harmless_loss_moves_the_lead_to_a_replica_that_has_everything(world: ReplicatedCluster) -> None:
    harmless(world, A, 2)
    assert world.replicas(0) == "b:b a2 b4 c2"


# M: F-04
def test_a_loss_that_would_cost_the_leader_or_records_is_refused(world: ReplicatedCluster) -> None:
    world.write("only on a", on="a", partition=0, acks=Acks.LEADER)
    before = world.replicas(0)
    with pytest.raises(NotEnoughReplicas, match="t-0 needs a replica beside store a that has everything"):
        harmless(world, A, 2)
    assert world.replicas(0) == before
    harmless(world, C, 0)
    world.submit(ReportLoss(A, world.state.stores[A].registration, world.state.stores[A].incarnation, ()))


# M: F-04
def test_a_store_that_is_fenced_or_silent_is_no_reason_to_call_a_loss_harmless(world: ReplicatedCluster) -> None:
    """Both have everything, as far as is known. Perhaps neither comes back, and then what c has is all that is left."""
    world.fence("a")
    world.submit(AgentDown(B, world.state.stores[B].registration))
    assert world.replicas(0) == "b:b a4 b4 c2"
    with pytest.raises(NotEnoughReplicas, match="needs a replica beside store c that has everything up to offset 2"):
        harmless(world, C, 0)
    assert world.replicas(0) == "b:b a4 b4 c2"
    world.register("a")
    harmless(world, C, 0)
    assert world.replicas(0) == "a:ab a4 b4 c0"
