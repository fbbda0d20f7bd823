"""Stores that are fenced, dead or gone hold nothing up: what is deleted meanwhile goes from them when they are back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import InvalidInput, StoreUnavailable
from sparklog.core.types import Offset, StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.space.retention_job import run_retention
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore
from tests.client.replicated_cluster import P0, TOPIC, copy_all, objects, report, store, write
from tests.kit.hand_clock import HandClock
from tests.kit.log import new_cluster
from tests.maintenance.maintained_log import DAY_MS


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The addresses of stores that neither list nor delete."""
    urls: set[str] = set()
    delete, first_key_after = MemoryStore.delete, MemoryStore.first_key_after

    def check(store: MemoryStore) -> None:
        if store.url in urls:
            raise StoreUnavailable(f"{store.url} does not answer")

    def deleting(store: MemoryStore, key: str) -> None:
        check(store)
        delete(store, key)

    def listing(store: MemoryStore, prefix: str, key: str) -> str | None:
        check(store)
        return first_key_after(store, prefix, key)

    monkeypatch.setattr(MemoryStore, "delete", deleting)
    monkeypatch.setattr(MemoryStore, "first_key_after", listing)
    return urls


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cluster(clock: HandClock) -> Iterator[Cluster]:
    """Topic "t" with a partition on a and b, of the stores a, b and c; offsets [0, 2) on both, each in an object."""
    with new_cluster("abc") as connected:
        connected.connection.committer.clock = clock
        connected.create_topic("t", assignment=["ab"], config={"file.delete.delay.ms": 0})
        for value in "01":
            write(connected, value)
        yield connected


def forget(cluster: Cluster, below: int) -> None:
    cluster.submit(MoveLogStart(TOPIC, P0, Offset(below)))


def retained(cluster: Cluster, clock: HandClock) -> JobReport:
    found = run_retention(cluster.connection.url, clock=clock)
    cluster.connection.follower.catch_up()
    return found


def stored(cluster: Cluster) -> list[int]:
    """How many objects are on a, b and c: an index counts as one, too."""
    return [len(objects(cluster, each)) for each in "abc"]


def test_a_fenced_store_stops_no_deletion_and_vacuum_takes_what_it_has_when_it_is_back(
    cluster: Cluster, clock: HandClock, silent: set[str]
) -> None:
    cluster.fence_store("a")
    silent.add(f"{cluster.connection.url}-a")
    forget(cluster, 1)
    clock.at_ms += 1
    done = retained(cluster, clock)
    assert (done.exit_code, done.deletion.done.objects, len(cluster.connection.follower.state.retired)) == (0, 1, 0)
    assert stored(cluster) == [4, 2, 0]
    assert run_vacuum(cluster.connection.url, clock=clock).exit_code == 0  # nor does it stop vacuum
    silent.clear()
    cluster.add_store("a", f"{cluster.connection.url}-a")
    clock.at_ms += 8 * DAY_MS
    assert run_vacuum(cluster.connection.url, clock=clock).exit_code == 0
    assert stored(cluster) == [2, 2, 0]
    report(cluster, "a")
    assert cluster.read("t", partition=0)["value"].to_pylist() == [b"1"]


def test_a_dead_store_that_is_not_fenced_keeps_what_it_may_have_named(
    cluster: Cluster, clock: HandClock, silent: set[str]
) -> None:
    silent.add(f"{cluster.connection.url}-a")
    forget(cluster, 1)
    clock.at_ms += 1
    done = retained(cluster, clock)
    assert (done.exit_code, done.deletion.failed, len(cluster.connection.follower.state.retired)) == (1, 1, 1)
    assert stored(cluster) == [4, 2, 0]
    silent.clear()
    assert retained(cluster, clock).exit_code == 0
    assert stored(cluster) == [2, 2, 0]


def test_a_removed_store_stops_no_deletion(cluster: Cluster, clock: HandClock) -> None:
    cluster.move_replicas("t", ["c", "b"])
    copy_all(cluster, "b", "c")
    report(cluster, "c")
    forget(cluster, 1)
    a_had = objects(cluster, "a")
    cluster.remove_store("a")
    clock.at_ms += 1
    assert retained(cluster, clock).exit_code == 0
    cluster.add_store("a", f"{cluster.connection.url}-a")  # to look there
    assert objects(cluster, "a") == a_had
    assert stored(cluster) == [4, 2, 2]


def test_what_a_replica_left_on_a_store_goes_with_the_object(cluster: Cluster, clock: HandClock) -> None:
    """Live objects keep the copies that a moved replica left behind; they go when the log forgets the object."""
    cluster.move_replicas("t", ["c", "b"])
    copy_all(cluster, "b", "c")
    report(cluster, "c")
    clock.at_ms += 8 * DAY_MS
    assert run_vacuum(cluster.connection.url, clock=clock).exit_code == 0
    assert stored(cluster) == [4, 4, 4]
    forget(cluster, 2)
    clock.at_ms += 1
    assert retained(cluster, clock).exit_code == 0
    assert stored(cluster) == [0, 0, 0]


def test_a_store_that_can_not_be_listed_is_a_failure_of_vacuum_and_the_others_are_searched(
    cluster: Cluster, clock: HandClock, silent: set[str]
) -> None:
    keys = objects(cluster, "a")
    forget(cluster, 2)
    clock.at_ms += 1
    retained(cluster, clock)
    for key, name in product(keys, "ab"):  # uploads that nobody names any more
        store(cluster, name).put_if_absent(key, b"")
    silent.add(f"{cluster.connection.url}-a")
    clock.at_ms += 8 * DAY_MS
    found = run_vacuum(cluster.connection.url, clock=clock)
    assert found.exit_code == 1
    failed = [(row.place, row.messages) for row in found.partitions if row.outcome is WorkOutcome.FAILED]
    assert failed == [("a:topics/", (f"KAFKA_STORAGE_ERROR: {cluster.connection.url}-a does not answer",))]
    assert stored(cluster) == [4, 0, 0]


def test_a_store_that_can_not_be_opened_ends_no_vacuum(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    get = Stores.get

    def closed(stores: Stores, store: StoreId) -> ObjectStore:
        if store == "b":
            raise InvalidInput("b needs something that is not installed")
        return get(stores, store)

    monkeypatch.setattr(Stores, "get", closed)
    rows = run_vacuum(cluster.connection.url).partitions
    message = "INVALID_REQUEST: b needs something that is not installed"
    assert [(row.place, row.outcome, row.messages) for row in rows] == [
        ("b:topics/", WorkOutcome.FAILED, (message,)),
        ("b:uploads", WorkOutcome.FAILED, (message,)),
    ]
