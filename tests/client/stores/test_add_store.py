"""Stores and replicas through the Python API, on three stores in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec
import pytest

from sparklog.chain.commit.committer import Committer
from sparklog.client.cluster import Cluster
from sparklog.core.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InvalidReplicaAssignment,
    RequestTimedOut,
    StoreUnfit,
)
from sparklog.core.types import StoreId
from sparklog.log.incarnation import read_incarnation
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.client.replicated_cluster import copy_all, replicas, report, write
from tests.kit.log import new_cluster
from tests.storage.test_probe import Overwriting


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic "t" on a and b, of the stores a, b and c, with one record."""
    with new_cluster("abc", zones={"a": "z1", "b": "z2"}) as made:
        made.create_topic("t", assignment=["ab"])
        write(made, "0")
        yield made


@pytest.fixture
def root(cluster: Cluster) -> str:
    return cluster.connection.url


# M: N-02
def test_stores_are_listed_added_fenced_and_removed(cluster: Cluster, root: str) -> None:
    assert [(each.store, each.zone) for each in cluster.stores()] == [("a", "z1"), ("b", "z2"), ("c", "")]
    added = cluster.add_store("d", f"{root}-d", zone="z3")
    assert (added.registration, added.zone) == (3, "z3")
    cluster.fence_store("a")
    assert replicas(cluster) == "b:b a1 b1"
    assert [(each.store, each.fenced) for each in cluster.stores()][-1] == ("a", True)
    assert cluster.add_store("a", f"{root}-a").zone == "z1"
    cluster.remove_store("c")
    assert sorted(each.store for each in cluster.stores()) == ["a", "b", "d"]
    for call in (cluster.fence_store, cluster.remove_store):
        with pytest.raises(BrokerIdNotRegistered):
            call("c")


# M: P-11
def test_a_topic_is_moved_and_led_by_whom_its_owner_wants(cluster: Cluster) -> None:
    cluster.move_replicas("t", ["c", "b"], partition=0)
    copy_all(cluster, "b", "c")
    report(cluster, "c")
    assert replicas(cluster) == "c:cb c1 b1"
    cluster.move_replicas("t", ["c", "b"])  # nothing to do
    cluster.elect_leaders("t", partition=0, store="b")
    assert replicas(cluster) == "b:cb c1 b1"
    cluster.elect_leaders("t")
    assert replicas(cluster) == "c:cb c1 b1"
    with pytest.raises(InvalidReplicaAssignment):
        cluster.move_replicas("t", ["c", "d"])


# M: N-03
def test_new_topics_are_spread_over_the_zones(cluster: Cluster) -> None:
    described = cluster.create_topic("u", partitions=6, replication_factor=2)
    zones = {each.store: each.zone for each in cluster.stores()}
    for partition in described.partitions:
        assert len({zones[on.store] for on in partition.replicas}) == 2
    cluster.add_partitions("u", 7, assignment=["cb"])
    assert [on.store for on in cluster.describe("u").partitions[6].replicas] == ["c", "b"]


def test_a_store_that_cannot_hold_a_log_is_neither_marked_nor_registered(
    cluster: Cluster, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_store(_: object, store: StoreId, url: str) -> ObjectStore:
        return Overwriting(url)

    monkeypatch.setattr("sparklog.client.connection.Connection.open_store", open_store)
    with pytest.raises(StoreUnfit, match="can't hold a log"):
        cluster.add_store("d", f"{root}-d")
    assert read_incarnation(MemoryStore(f"{root}-d")) is None
    assert len(cluster.stores()) == 3


def test_an_add_whose_commit_failed_is_continued(cluster: Cluster, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise RequestTimedOut("too late")

    with monkeypatch.context() as patched:
        patched.setattr(Committer, "submit", late)
        with pytest.raises(RequestTimedOut):
            cluster.add_store("d", f"{root}-d")
    mark = read_incarnation(MemoryStore(f"{root}-d"))
    assert mark is not None
    assert cluster.add_store("d", f"{root}-d").incarnation == mark.incarnation


def test_two_adds_of_one_place_at_once_register_it_once(
    cluster: Cluster, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one looked before the first one was registered: the mark tells."""
    decided = cluster.connection.decided

    def after_the_other(command: object) -> object:
        monkeypatch.undo()
        looked = decided(command)  # type: ignore[arg-type]
        cluster.add_store("d", f"{root}-d")
        return looked

    monkeypatch.setattr(cluster.connection, "decided", after_the_other)
    with pytest.raises(DuplicateBrokerRegistration, match="is registered as d, not as e"):
        cluster.add_store("e", f"{root}-d")
    assert "e" not in {each.store for each in cluster.stores()}


def test_a_topic_that_wants_more_in_sync_than_it_has_is_warned_of(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sparklog"):
        cluster.alter("t", config={"min.insync.replicas": 3})
        text = "topic t: min.insync.replicas=3 is more than its 2 replicas: all of them must be in sync"
        assert text in caplog.text
        caplog.clear()
        cluster.create_topic("u", replication_factor=1, config={"min.insync.replicas": 2})
        assert "topic u: min.insync.replicas=2 is more than its 1 replica: all" in caplog.text
        caplog.clear()
        cluster.alter("t", config={"min.insync.replicas": 2})
        assert caplog.text == ""
    write(cluster, "1")
    assert replicas(cluster) == "a:ab a2 b2"


def test_the_mark_of_a_store_is_what_the_chain_says(cluster: Cluster, root: str) -> None:
    marks = {each: read_incarnation(MemoryStore(f"{root}-{each}")) for each in "abc"}
    state = cluster.connection.follower.state
    for name, mark in marks.items():
        assert mark is not None
        assert msgspec.structs.astuple(mark) == (state.stores[StoreId(name)].incarnation, state.chain_id)
