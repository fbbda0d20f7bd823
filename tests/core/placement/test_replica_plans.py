"""What an operator wishes for many partitions at once, and what a command would change in each."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AgentDown, AgentUp, CreateTopic, Election, FenceStore, Move
from sparklog.core.describe.replica_findings import replication_health
from sparklog.core.errors import BrokerIdNotRegistered, IneligibleReplica, NoReassignmentInProgress
from sparklog.core.placement.replica_plans import (
    elections_of,
    moves_back,
    moves_off,
    moves_to,
    outcomes,
    outcomes_of_elections,
    partitions_named,
    preferred_elections,
)
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from tests.core.decided_log import TOPIC
from tests.core.replicated_log import ReplicatedLog
from tests.core.replication.example_partition import stores

A, B, C, D = stores("a", "b", "c", "d")
ZERO, ONE = PartitionIndex(0), PartitionIndex(1)


@pytest.fixture
def log() -> ReplicatedLog:
    """orders-0 and orders-1 on a, b, c; bills-0 on b, a; a store d without replicas."""
    made = ReplicatedLog(stores="abcd", partitions=2)
    made.submit(CreateTopic("bills", assignment=((B, A),)))
    return made


def test_partitions_are_named_by_topic_and_number(log: ReplicatedLog) -> None:
    assert [each.topic_id for each in partitions_named(log.state, None)] == [2, 1, 1]
    assert [each.partition for each in partitions_named(log.state, "orders")] == [0, 1]
    assert [each.partition for each in partitions_named(log.state, "orders", 1)] == [1]


def test_only_what_is_not_there_already_moves(log: ReplicatedLog) -> None:
    log.move("abd")
    chosen = partitions_named(log.state, "orders")
    assert moves_to(chosen, (A, B, D)) == (Move(TOPIC, ONE, (A, B, D)),)
    assert moves_to(chosen, (A, B, C)) == (Move(TOPIC, ZERO, (A, B, C)),)


def test_moves_go_off_a_store_from_where_the_moves_under_way_lead(log: ReplicatedLog) -> None:
    log.move("abd")
    everything = partitions_named(log.state, None)
    assert moves_off(log.state, C, everything) == (Move(TOPIC, ONE, (A, B, D)),)
    assert moves_off(log.state, A, everything) == (
        Move(TopicId(2), ZERO, (B, D)),
        Move(TOPIC, ZERO, (C, B, D)),
        Move(TOPIC, ONE, (D, B, C)),
    )
    with pytest.raises(BrokerIdNotRegistered):
        moves_off(log.state, StoreId("x"), everything)


def test_moves_that_are_under_way_go_back(log: ReplicatedLog) -> None:
    with pytest.raises(NoReassignmentInProgress):
        moves_back(partitions_named(log.state, None))
    log.move("abd")
    assert moves_back(partitions_named(log.state, None)) == (Move(TOPIC, ZERO, (A, B, C)),)


def test_leaders_that_are_not_the_preferred_ones_are_elected(log: ReplicatedLog) -> None:
    assert preferred_elections(log.state, partitions_named(log.state, None)) == ()
    log.elect("b")
    assert preferred_elections(log.state, partitions_named(log.state, None)) == (Election(TOPIC, ZERO, A),)
    log.submit(AgentDown(B, 1))
    assert log.value().leader == A
    assert elections_of(C, partitions_named(log.state, "orders", 1)) == (Election(TOPIC, ONE, C),)


def test_a_partition_without_a_leader_gets_any_that_may_lead(log: ReplicatedLog) -> None:
    for each in "abc":
        log.fence(each)
    assert preferred_elections(log.state, partitions_named(log.state, "orders", 0)) == (Election(TOPIC, ZERO),)


def test_outcomes_tell_before_and_after(log: ReplicatedLog) -> None:
    log.write("abc", 2)
    found = outcomes(log.state, log.decide(FenceStore(A)).records)
    shown = [(each.topic, each.partition, each.before.leader, each.after.leader) for each in found]
    assert shown == [("bills", 0, "b", "b"), ("orders", 0, "a", "b"), ("orders", 1, "a", "b")]


def test_each_election_is_foreseen_by_itself_and_so_is_what_it_loses(log: ReplicatedLog) -> None:
    elections = (Election(TOPIC, ZERO, C), Election(TopicId(2), ZERO, C))
    possible, refused = outcomes_of_elections(log.state, elections)
    assert (possible.after.leader, possible.refused, possible.lost_records) == (C, None, 0)
    assert (refused.after, type(refused.refused)) == (refused.before, IneligibleReplica)
    log.write("a", 5)
    for each in "abc":
        log.fence(each)
    log.register("b")
    (unclean,) = outcomes_of_elections(log.state, (Election(TOPIC, ZERO),), unclean=True)
    assert (unclean.after.leader, unclean.lost_records) == (B, 5)


# ---- health -------------------------------------------------------------------------------------------


def test_health_counts_a_partition_once(log: ReplicatedLog) -> None:
    found = replication_health(log.state)
    assert (found.wrong, found.remarks) == ([], [])
    log.fence("c")
    log.submit(AgentDown(D, 3))
    found = replication_health(log.state)
    assert (found.offline, found.under_min_isr, found.under_replicated) == (0, 0, 2)
    assert found.remarks == [
        "topic orders: partitions 0, 1 have replicas that are not in sync (under-replicated)",
        "store c is fenced, and has 2 replicas",
        "store d is silent (its agent is down), and has 0 replicas",
    ]
    log.fence("b")
    log.configure(min_insync_replicas="2")
    log.fence("a")
    found = replication_health(log.state)
    assert (found.offline, found.under_min_isr, found.under_replicated) == (3, 0, 0)
    assert (
        found.wrong[0]
        == "topic bills: partition 0 has no leader: sparklog replica list --offline shows which stores could lead"
    )


def test_a_store_whose_agent_was_stopped_is_not_new_and_without_any_agent_there_is_a_remark(log: ReplicatedLog) -> None:
    def conditions() -> list[str]:
        return [store.condition for store in log.state.stores.values()]

    assert conditions() == ["new", "new", "new", "new"]
    log.submit(AgentUp(A, 0))
    log.submit(AgentUp(B, 1))
    log.submit(AgentDown(A, 0, stopped=True))
    assert conditions() == ["stopped", "live", "new", "new"]
    assert replication_health(log.state).remarks == []
    log.submit(AgentDown(B, 1, stopped=True))
    assert replication_health(log.state).remarks == [
        "no agent runs, so a replica that lacks records stays behind: sparklog agent --store a, and so on"
    ]
    log.fence("a")
    assert conditions() == ["fenced", "stopped", "new", "new"]


def test_a_replica_that_a_move_adds_makes_no_partition_under_replicated(log: ReplicatedLog) -> None:
    log.move("abd")
    assert replication_health(log.state).under_replicated == 0


def test_of_many_partitions_some_are_named() -> None:
    log = ReplicatedLog(partitions=8)
    log.fence("c")
    (first, _) = replication_health(log.state).remarks
    assert first.startswith("topic orders: partitions 0, 1, 2, 3, 4 and 3 more partitions have replicas")
