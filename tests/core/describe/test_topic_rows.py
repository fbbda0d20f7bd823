"""The rows of topics, partitions and replicas."""

from __future__ import annotations

import pytest

from sparklog.core.commands import CreateTopic
from sparklog.core.describe.topic_rows import PARTITION_STATES, ReplicaRow, describe_topic, topic_row
from sparklog.core.errors import UnknownTopicOrPartition
from sparklog.core.lookup import topic_of
from tests.core.replicated_log import ReplicatedLog
from tests.core.replication.example_partition import stores

A, B, C = stores("a", "b", "c")


@pytest.fixture
def log() -> ReplicatedLog:
    """orders-0 and orders-1 on a, b, c; bills-0 on b, a; a store d without replicas."""
    made = ReplicatedLog(stores="abcd", partitions=2)
    made.submit(CreateTopic("bills", assignment=((B, A),)))
    return made


def replicas_of(log: ReplicatedLog) -> tuple[ReplicaRow, ...]:
    """The rows of the replicas of orders-0."""
    return describe_topic(log.state, "orders").partitions[0].replicas


# M: L-01
def test_a_replica_lags_by_the_records_that_are_left_for_it(log: ReplicatedLog) -> None:
    log.write("abc", 2)
    log.write("ab", 3)
    log.write("a", 4)
    found = {each.store: each for each in replicas_of(log)}
    assert [(found[each].log_end, found[each].lag_records) for each in (A, B, C)] == [(9, 0), (5, 4), (2, 7)]
    assert found[A].lag_bytes == 0 < found[B].lag_bytes < found[C].lag_bytes
    assert {each.size_bytes + each.lag_bytes for each in found.values()} == {log.partition(0).size_bytes}
    assert [(each.is_leader, each.in_isr) for each in found.values()] == [(True, True), (False, False), (False, False)]


def test_offsets_without_a_record_are_no_lag() -> None:
    log = ReplicatedLog()
    log.configure(min_insync_replicas="2")
    log.write("abc", 2)
    log.fence("b")
    log.fence("c")
    log.write_to_leader("a", 5)
    log.fence("a")
    log.register("c")  # leads, and forgets [2, 7)
    assert log.replicas() == "c:c+a a7 b7 c7 hw2"
    log.write_to_leader("c", 1)
    found = {each.store: each.lag_records for each in replicas_of(log)}
    assert found == {"a": 1, "b": 1, "c": 0}


def test_a_replica_is_seen_in_each_of_its_roles(log: ReplicatedLog) -> None:
    log.configure(min_insync_replicas="3")
    log.fence("c")
    log.move("abd")
    found = {each.store: each for each in replicas_of(log)}
    roles = {store: (each.in_elr, each.reachable, each.adding, each.removing) for store, each in found.items()}
    assert roles == {
        "a": (False, True, False, False),
        "b": (False, True, False, False),
        "d": (False, True, True, False),
        "c": (True, False, False, True),
    }
    assert found[C].registration == log.registration("c")


def test_a_topic_is_as_ill_as_its_worst_partition(log: ReplicatedLog) -> None:
    def seen() -> tuple[str, list[str]]:
        described = describe_topic(log.state, "orders")
        return described.state, [partition.state for partition in described.partitions]

    log.configure(min_insync_replicas="2")
    assert seen() == ("in sync", ["in sync"] * 2)
    log.fence("c")
    assert seen() == ("under-replicated", ["under-replicated"] * 2)
    log.fence("b")
    assert seen() == ("under min ISR", ["under min ISR"] * 2)
    log.fence("a")
    assert seen() == ("offline", ["offline"] * 2)
    assert PARTITION_STATES.index("offline") == 0


def test_a_description_has_the_wanted_partitions_and_counts_all(log: ReplicatedLog) -> None:
    log.write("abc", 2)
    row, described = topic_row(log.state, topic_of(log.state, "orders")), describe_topic(log.state, "orders", 1, 5)
    assert [partition.partition for partition in described.partitions] == [1]
    assert (row.partitions, row.replication_factor, row.records, row.segments) == (2, 3, 2, 1)
    assert (described.records, described.size_bytes, described.segments) == (row.records, row.size_bytes, row.segments)
    assert described.config["retention.ms"].origin == "default"
    with pytest.raises(UnknownTopicOrPartition):
        describe_topic(log.state, "order")
