"""A fenced store that comes back with less than the chain says it holds, as after a restore from a backup (S1, F2)."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.stores.add_store import add_store
from sparklog.core.errors import DuplicateBrokerRegistration, InvalidInput, StoreUnavailable
from sparklog.core.placement.held_objects import held_partitions, newest_held
from sparklog.core.placement.loss_search import RANDOM_OBJECTS
from sparklog.core.types import StoreId
from sparklog.log.incarnation import AnotherIncarnation
from sparklog.maintenance.replication_job import run_replication
from sparklog.storage.keys import data_key
from sparklog.storage.local.store import LocalStore
from tests.client.replicated_cluster import replicas

PARTITIONS = 3


class Returning:
    """A cluster on disk: topic "t" on stores a and b. Both are fenced, a first; so only b surely has the newest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stores = {store: str(folder / store) for store in "ab"}
        init_cluster(str(folder / "meta"), stores=stores, zones={"a": "z1", "b": "z2"})
        self.cluster = sparklog.connect(str(folder / "meta"))
        self.cluster.create_topic("t", assignment=["ab"] * PARTITIONS)

    def append(self, value: str, *partitions: int) -> None:
        rows = {"value": [value] * len(partitions), "partition": pa.array(partitions, pa.int32())}
        self.cluster.append("t", pa.table(rows))

    def back_up(self) -> None:
        shutil.copytree(self.folder / "a", self.folder / "backup")

    def set_back(self) -> None:
        shutil.rmtree(self.folder / "a")
        (self.folder / "backup").rename(self.folder / "a")

    def fence(self) -> None:
        self.cluster.fence_store("a")
        self.cluster.fence_store("b")

    def add(self, store: str) -> None:
        self.cluster.add_store(store, str(self.folder / store))

    def replicas(self) -> list[str]:
        self.cluster.connection.follower.catch_up()
        return [replicas(self.cluster, partition) for partition in range(PARTITIONS)]

    def values(self, partition: int) -> list[str]:
        return [value.decode() for value in self.cluster.read("t", partition=partition)["value"].to_pylist()]


@pytest.fixture
def returning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Returning]:
    """There is a backup of a, from before the last two writes to partition 0 and the last one to partition 1."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    returning = Returning(tmp_path)
    returning.append("0", *range(PARTITIONS))
    returning.back_up()
    returning.append("1", 0)
    returning.append("2", 0, 1)
    returning.fence()
    yield returning
    returning.cluster.close()


# M: P-07
def test_a_store_that_was_set_back_leads_no_partition_of_which_it_has_lost_records(returning: Returning) -> None:
    """Its agent would find that out, but only once the store is registered, and may lead."""
    assert returning.replicas() == ["-:+b a3 b3", "-:+b a2 b2", "-:+b a1 b1"]
    returning.set_back()
    returning.add("a")
    assert returning.replicas() == ["-:+b a1 b3", "-:+b a1 b2", "a:a a1 b1"]
    returning.add("b")
    assert returning.replicas() == ["b:b a1 b3", "b:b a1 b2", "a:a a1 b1"]
    assert run_replication(returning.cluster.connection.url).exit_code == 0
    assert returning.replicas() == ["b:ab a3 b3", "b:ab a2 b2", "a:ab a1 b1"]
    assert [returning.values(partition) for partition in range(PARTITIONS)] == [["0", "1", "2"], ["0", "2"], ["0"]]


def test_a_store_that_has_everything_leads_at_once_and_costs_a_look_for_each_partition_and_a_few(
    returning: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 2 * RANDOM_OBJECTS
    for store in "ab":
        returning.add(store)
    returning.cluster.create_topic("u", assignment=["a"] * partitions)
    for partition in range(partitions):
        for value in ("old", "new"):
            rows = {"value": [value], "partition": pa.array([partition], pa.int32())}
            returning.cluster.append("u", pa.table(rows))
    returning.fence()
    looks: list[str] = []
    size = LocalStore.size

    def counted(store: LocalStore, key: str) -> int:
        looks.append(key)
        return size(store, key)

    monkeypatch.setattr(LocalStore, "size", counted)
    returning.add("a")
    assert returning.replicas() == ["a:a a3 b3", "a:a a2 b2", "a:a a1 b1"]
    state = returning.cluster.connection.follower.state
    newest = [newest_held(state, StoreId("a"), key) for key in held_partitions(state, StoreId("a"))]
    keys = [data_key(held.object, held.topic) for held in newest if held is not None]
    assert len(keys) == partitions + PARTITIONS
    assert set(keys) <= set(looks)
    assert len([key for key in looks if key.startswith("append/")]) <= len(keys) + RANDOM_OBJECTS


def test_a_dry_run_names_what_a_store_has_lost_and_changes_nothing(
    returning: Returning, caplog: pytest.LogCaptureFixture
) -> None:
    returning.set_back()
    before = returning.replicas()
    with caplog.at_level(logging.WARNING, "sparklog"):
        add_store(returning.cluster.connection, StoreId("a"), str(returning.folder / "a"), dry_run=True)
    assert "lacks objects that it should hold, of 2 partitions: it comes back without them" in caplog.text
    assert returning.replicas() == before


def test_a_store_that_was_set_back_comes_back_at_its_address_and_in_its_zone(returning: Returning) -> None:
    """A store that has everything may come back anywhere."""
    whole, moved = returning.folder / "a", str(returning.folder / "moved")
    whole.rename(returning.folder / "whole")
    (returning.folder / "backup").rename(moved)
    with pytest.raises(DuplicateBrokerRegistration, match="a store that was set back comes back at its address, file:"):
        returning.cluster.add_store("a", moved)
    Path(moved).rename(whole)
    with pytest.raises(InvalidInput, match="a store that was set back comes back in its zone 'z1', found 'z9'"):
        returning.cluster.add_store("a", str(whole), zone="z9")
    shutil.rmtree(whole)
    (returning.folder / "whole").rename(moved)
    assert returning.cluster.add_store("a", moved, zone="z9").zone == "z9"
    assert returning.replicas() == ["a:a a3 b3", "a:a a2 b2", "a:a a1 b1"]


def test_a_store_that_is_unmounted_while_it_is_looked_at_has_lost_nothing(
    returning: Returning, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, size = returning.replicas(), LocalStore.size

    def unmounted(store: LocalStore, key: str) -> int:
        with suppress(FileNotFoundError):  # by another thread
            (returning.folder / "a").rename(returning.folder / "unmounted")
        return size(store, key)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "size", unmounted)
        with pytest.raises(AnotherIncarnation, match="the store was wiped, or is not mounted"):
            returning.add("a")
    assert returning.replicas() == before
    (returning.folder / "unmounted").rename(returning.folder / "a")
    returning.add("a")
    assert returning.replicas() == ["a:a a3 b3", "a:a a2 b2", "a:a a1 b1"]


def test_a_store_that_does_not_answer_is_not_registered(returning: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    before = returning.replicas()

    def silent(store: LocalStore, key: str) -> int:
        raise StoreUnavailable("silent")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "size", silent)
        with pytest.raises(StoreUnavailable, match="silent"):
            returning.add("a")
    assert returning.replicas() == before
