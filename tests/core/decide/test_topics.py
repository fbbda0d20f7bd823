"""Clusters and topics: what is made of the defaults, what is refused by which error, and that nothing is made then."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.commands import (
    AddPartitions,
    AlterCluster,
    AlterTopic,
    Command,
    CreateCluster,
    CreateTopic,
    DeleteTopic,
    NewStore,
    Submission,
)
from sparklog.core.decide.command import decide
from sparklog.core.errors import (
    ClusterAlreadyExists,
    Conflict,
    DuplicateBrokerRegistration,
    InvalidConfig,
    InvalidInput,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopic,
    SparklogError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from sparklog.core.records import AppliedCommand, At, ClusterAltered, PartitionsAdded, TopicAltered, TopicCreated
from sparklog.core.state import ClusterState
from sparklog.core.state_invariants import check
from sparklog.core.types import CommandId, EntryNumber, StoreId, TopicId
from tests.core.decided_log import TOPIC, A, B, DecidedLog
from tests.kit.apply_entry import apply_entry

C = StoreId("c")


@pytest.fixture
def log() -> DecidedLog:
    return DecidedLog()


def cluster(*stores: StoreId, **config: str) -> CreateCluster:
    named = tuple(NewStore(each, f"file:///{each}", f"incarnation of {each}") for each in stores)
    return CreateCluster("c" * 32, named, {name.replace("_", "."): value for name, value in config.items()})


def first_entry(command: Command) -> ClusterState:
    state, at = ClusterState(), At(EntryNumber(0), 5)
    records = decide(state, Submission(CommandId("0" * 32), EntryNumber(0), command), at).records
    apply_entry(state, [AppliedCommand(CommandId("0" * 32), EntryNumber(0), records)], at)
    check(state)
    return state


# ---- clusters -----------------------------------------------------------------------------------------


# M: N-02
def test_a_cluster_registers_its_stores_in_order() -> None:
    state = first_entry(cluster(B, A, num_partitions="3"))
    assert [(each.store, each.registration) for each in state.stores.values()] == [(B, 0), (A, 1)]
    assert (state.chain_id, state.config, state.next_registration) == ("c" * 32, {"num.partitions": "3"}, 2)


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        (cluster(), InvalidInput, "at least one store, found none"),
        (cluster(A, B, A), InvalidInput, "an id of its own"),
        (cluster(A, num_partition="3"), InvalidConfig, r"num\.partitions"),
    ],
)
def test_a_cluster_that_is_none_is_refused(command: CreateCluster, kind: type[SparklogError], text: str) -> None:
    with pytest.raises(kind, match=text):
        first_entry(command)


def test_two_stores_of_a_cluster_are_two_places() -> None:
    twice = CreateCluster("c" * 32, (NewStore(A, ".", "i"), NewStore(B, "file:///a", "i")))
    with pytest.raises(DuplicateBrokerRegistration, match="found INCARNATION i at"):
        first_entry(twice)


def test_a_chain_has_one_cluster_from_its_first_entry_on(log: DecidedLog) -> None:
    with pytest.raises(ClusterAlreadyExists):
        decide(
            first_entry(cluster(A)), Submission(CommandId("1" * 32), EntryNumber(0), cluster(A)), At(EntryNumber(1), 5)
        )
    with pytest.raises(ClusterAlreadyExists, match="already has a cluster, cccc"):
        log.decide(cluster(A))


# ---- topics -------------------------------------------------------------------------------------------


def created(log: DecidedLog, command: CreateTopic) -> TopicCreated:
    (record,) = log.decide(command).records
    assert isinstance(record, TopicCreated)
    return record


# M: N-03
def test_partitions_and_replicas_are_the_clusters_defaults_if_not_given(log: DecidedLog) -> None:
    log.state.config = {"num.partitions": "3", "default.replication.factor": "2"}
    assert [len(each) for each in created(log, CreateTopic("t")).assignment] == [2, 2, 2]
    assert [len(each) for each in created(log, CreateTopic("t", 1, 1)).assignment] == [1]


def test_a_topic_may_have_as_many_partitions_as_an_entry_holds(log: DecidedLog) -> None:
    assert len(created(log, CreateTopic("t", 100_000, 1)).assignment) == 100_000


def test_names_that_differ_only_in_dot_and_underscore_collide(log: DecidedLog) -> None:
    log.submit(CreateTopic("or.ders", 1, 1))
    with pytest.raises(InvalidTopic, match=r"collides with the existing topic 'or\.ders'"):
        log.decide(CreateTopic("or_ders", 1, 1))


def test_leaders_are_spread_over_the_stores_and_begin_elsewhere_for_each_topic(log: DecidedLog) -> None:  # M: N-03
    assert created(log, CreateTopic("t", 4, 2)).assignment == ((A, B), (B, A), (A, B), (B, A))
    log.submit(CreateTopic("t", 4, 2))
    assert created(log, CreateTopic("u", 2, 1)).assignment == ((B,), (A,))


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        (CreateTopic("orders"), TopicAlreadyExists, "topic orders exists"),
        (CreateTopic("a b"), InvalidTopic, "has ' '"),
        (CreateTopic(""), InvalidTopic, "it is empty"),
        (
            CreateTopic("__consumer_offsets"),
            InvalidTopic,
            "is the name of an internal topic of Kafka",
        ),
        (CreateTopic("t", 0), InvalidPartitions, "1 to 100000 partitions, found 0"),
        (CreateTopic("t", -1), InvalidPartitions, "found -1"),
        (CreateTopic("t", 100_001), InvalidPartitions, "found 100001"),
        (CreateTopic("t", 1, 3), InvalidReplicationFactor, "the cluster has 2: a, b"),
        (CreateTopic("t", 1, 0), InvalidReplicationFactor, "at least 1, found 0"),
        (CreateTopic("t", config={"retention.mss": "1"}), InvalidConfig, r"did you mean retention\.ms"),
        (
            CreateTopic("t", 1, assignment=((A,),)),
            InvalidReplicaAssignment,
            "gives the partitions and the replication factor",
        ),
        (
            CreateTopic("t", None, 1, assignment=((A,),)),
            InvalidReplicaAssignment,
            "gives the partitions and the replication factor",
        ),
        (CreateTopic("t", assignment=()), InvalidPartitions, "found 0"),
        (CreateTopic("t", assignment=((),)), InvalidReplicaAssignment, "partition 0 needs 1 different stores"),
        (CreateTopic("t", assignment=((A, A),)), InvalidReplicaAssignment, "partition 0 needs 2 different stores"),
        (CreateTopic("t", assignment=((A,), (C,))), InvalidReplicaAssignment, r"partition 1 .*found \['c'\]"),
        (CreateTopic("t", assignment=((A,), (A, B))), InvalidReplicaAssignment, "partition 1 needs 1 different"),
        (AlterTopic(TopicId(9), {"retention.ms": "1"}), UnknownTopicOrPartition, "topic id 9 is not in the cluster"),
        (AlterTopic(TOPIC, {"retention.mss": "1"}), InvalidConfig, r"did you mean retention\.ms"),
        (AlterTopic(TOPIC, {"segment.bytes": "none"}), InvalidConfig, r"segment\.bytes"),
        (AddPartitions(TopicId(9), 5), UnknownTopicOrPartition, "topic id 9"),
        (AddPartitions(TOPIC, 2), InvalidPartitions, "has 2 partitions; they can only grow, found 2"),
        (AddPartitions(TOPIC, 1), InvalidPartitions, "they can only grow, found 1"),
        (AddPartitions(TOPIC, 100_001), InvalidPartitions, "found 100001"),
        (
            AddPartitions(TOPIC, 4, ((A,),)),
            InvalidReplicaAssignment,
            "wanted an assignment of 2 new partitions, found one of 1",
        ),
        (AddPartitions(TOPIC, 100_001, ((A,),)), InvalidPartitions, "found 100001"),
        (AddPartitions(TOPIC, 3, ((C,),)), InvalidReplicaAssignment, r"found \['c'\]"),
        (
            AddPartitions(TOPIC, 3, ((A, B),)),
            InvalidReplicaAssignment,
            "of topic orders has 1 replica, the assignment has 2",
        ),
        (DeleteTopic(TopicId(9)), UnknownTopicOrPartition, "deleted, or created again under another id"),
    ],
)
def test_what_is_not_legal_is_refused(
    log: DecidedLog, command: Command, kind: type[SparklogError], text: str
) -> None:  # M: N-03
    with pytest.raises(kind, match=text) as caught:
        log.decide(command)
    assert type(caught.value) is kind


def test_a_manual_assignment_is_taken_as_it_is(log: DecidedLog) -> None:  # M: N-03
    log.submit(CreateTopic("t", assignment=((B, A), (A, B))))
    log.submit(AddPartitions(TopicId(2), 3, ((B, A),)))
    found = [each.replication.replicas for key, each in log.state.partitions.items() if key.topic_id == 2]
    assert found == [(B, A), (A, B), (B, A)]


def test_added_partitions_have_as_many_replicas_as_the_first_and_go_on_in_turn(log: DecidedLog) -> None:  # M: N-03
    log.submit(CreateTopic("t", 3, 2))
    (record,) = log.decide(AddPartitions(TopicId(2), 5)).records
    assert isinstance(record, PartitionsAdded)
    assert (record.first, record.assignment) == (3, ((B, A), (A, B)))  # the last of before is led by a


# M: N-03
def test_altering_sets_and_removes_keys_and_keeps_the_others(log: DecidedLog) -> None:
    log.submit(AlterTopic(TOPIC, {"retention.ms": "5", "segment.bytes": "1000"}))
    (record,) = log.decide(AlterTopic(TOPIC, {"retention.bytes": "9"}, ("retention.ms",))).records
    assert record == TopicAltered(TOPIC, {"segment.bytes": "1000", "retention.bytes": "9"})


def test_altering_the_cluster_sets_and_removes_keys_and_keeps_the_others(log: DecidedLog) -> None:
    log.submit(AlterCluster({"log.retention.ms": "5", "page.writes": "true"}))
    (record,) = log.decide(AlterCluster({"num.partitions": "3"}, ("log.retention.ms",))).records
    assert record == ClusterAltered({"num.partitions": "3", "page.writes": "true"})
    assert log.state.topic_config(log.state.topics[TOPIC]).retention_ms == 5
    with pytest.raises(InvalidConfig, match=r"did you mean page\.writes"):
        log.submit(AlterCluster({"page.write": "true"}))


# M: N-03
def test_a_deleted_topic_leaves_nothing_but_retired_objects_with_its_name(log: DecidedLog) -> None:
    log.append(5)
    log.append(5, 1)
    with pytest.raises(Conflict, match="if nothing was ever written to it, found records"):
        log.decide(DeleteTopic(TOPIC, if_never_written=True))
    log.submit(DeleteTopic(TOPIC))
    assert (dict(log.state.topics), dict(log.state.topic_ids), dict(log.state.partitions)) == ({}, {}, {})
    assert len(log.state.slices) == 0
    due_ms = log.now_ms + 60_000
    assert [msgspec.structs.astuple(each) for each in log.state.retired] == [
        (0, due_ms, "orders", (A,)),
        (1, due_ms, "orders", (A,)),
    ]
    log.submit(CreateTopic("orders", 1, 1))
    assert log.state.topic_ids == {"orders": 2}
