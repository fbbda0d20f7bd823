"""Restores beside stores that come and go: added, announced, removed, wiped, moved."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.chain.owner import Owner, put_owner
from sparklog.chain.peers import Peer, announce_peer, peers_on
from sparklog.client.bootstrap import init_cluster
from sparklog.client.connection import Connection
from sparklog.client.restoring.found_stores import FoundStores
from sparklog.client.stores import add_store as stores_module
from sparklog.client.stores.add_store import add_store, removal
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import (
    Conflict,
    InconsistentClusterId,
    NotEnoughReplicas,
    StoreUnavailable,
)
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.open_store import open_store
from tests.client.restoring.lost_cluster import LostCluster, append, before_call, die, flip, values


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def lost(tmp_path: Path) -> LostCluster:
    return LostCluster(tmp_path)


@pytest.fixture
def once_copied(tmp_path: Path) -> LostCluster:
    """Stores b and c, with one copy of the metadata, on b: the first that was registered."""
    return LostCluster(tmp_path, copies=1, stores="bc")


@pytest.mark.parametrize("source", ["b", "c"])
def test_a_store_that_was_added_is_found_though_it_alone_has_the_newest_copies(
    once_copied: LostCluster, source: str
) -> None:
    """Its id sorts first, and the other stores are away for the processes that write."""
    once_copied.append("1")
    once_copied.add("a")
    with once_copied.without_copies("b", "c"), sparklog.connect(once_copied.url) as cluster:
        cluster.create_topic("later", assignment=[["a"]])
    shutil.rmtree(once_copied.url)
    once_copied.restore(source)
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1"]
        assert cluster.topics() == ["later", "t"]


@pytest.mark.parametrize("options", [{}, {"accept_loss": True}])
def test_a_newer_snapshot_on_another_store_is_read_though_the_first_one_has_older_entries(
    once_copied: LostCluster, options: dict[str, bool]
) -> None:
    """The first one was away, and vacuum has deleted what the snapshot covers on the other one."""
    once_copied.append("1")
    with once_copied.without_copies("b"), sparklog.connect(once_copied.url) as cluster:
        append(cluster, "2")
        append(cluster, "3")
        cluster.connection.committer.snapshots.write()
        append(cluster, "4")
    for copy in once_copied.copied("c", "log/*")[:-1]:
        copy.unlink()
    shutil.rmtree(once_copied.url)
    assert once_copied.restore("b", **options).newer is None
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1", "2", "3", "4"]


def test_a_store_is_not_added_while_no_store_that_may_have_copies_can_be_told(once_copied: LostCluster) -> None:
    once_copied.append("1")
    for store in "bc":
        shutil.rmtree(once_copied.path(store, "copies", "peers"))
        once_copied.path(store, "copies", "peers").write_text("not a folder")
    with pytest.raises(NotEnoughReplicas, match="store a has to be announced to 2 stores"):
        once_copied.add("a")
    with sparklog.connect(once_copied.url) as cluster:
        assert {store.store for store in cluster.stores()} == {"b", "c"}


def test_a_store_is_not_registered_by_an_announcement_that_was_withdrawn_since(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another add of it was faster, and then it was removed: the others know it as removed."""
    announce, done = stores_module.announce, []

    def late(*args: Any) -> object:
        told = announce(*args)
        if not done:
            done.append(True)
            once_copied.add("a")
            with sparklog.connect(once_copied.url) as cluster:
                cluster.remove_store("a")
        return told

    monkeypatch.setattr(stores_module, "announce", late)
    with pytest.raises(NotEnoughReplicas, match="another store was registered or fenced while a was announced"):
        once_copied.add("a")


def test_an_add_at_another_address_than_one_that_died_is_not_held_up(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "submit", die)
        with pytest.raises(KeyboardInterrupt), sparklog.connect(once_copied.url) as cluster:
            add_store(cluster.connection, StoreId("a"), str(once_copied.folder / "typo"))
    once_copied.add("a")
    with sparklog.connect(once_copied.url) as cluster:
        assert [store.store for store in cluster.stores()] == ["b", "c", "a"]


def test_the_last_store_that_may_have_copies_is_not_removed(tmp_path: Path) -> None:
    url, other = str(tmp_path / "meta"), str(tmp_path / "b")
    init_cluster(url, stores={"main": ".", "b": other}, config={"metadata.copies": 1})
    with sparklog.connect(url) as cluster, pytest.raises(Conflict, match="the last one that may have copies"):
        cluster.remove_store("b")


def test_of_the_last_two_stores_that_may_have_copies_two_processes_remove_one(tmp_path: Path) -> None:
    """Each has decided on a state in which the other store is still there."""
    url = str(tmp_path / "meta")
    stores = {"main": ".", **{store: str(tmp_path / store) for store in "bc"}}
    init_cluster(url, stores=stores, config={"metadata.copies": 1})
    with sparklog.connect(url) as first, sparklog.connect(url) as second:
        commands = [removal(cluster.connection, StoreId(store)) for cluster, store in ((first, "b"), (second, "c"))]
        first.connection.submit(commands[0])
        with pytest.raises(Conflict, match="the last one that may have copies"):
            second.connection.submit(commands[1])


def test_a_store_that_another_cluster_has_by_now_is_not_marked(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An add of it died after it was announced; then it was wiped, and given to the other cluster."""
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "submit", die)
        with pytest.raises(KeyboardInterrupt):
            once_copied.add("a")
    shutil.rmtree(once_copied.stores["a"])
    other = str(once_copied.folder / "other")
    init_cluster(other, stores={"y": once_copied.stores["a"], "z": str(once_copied.folder / "z")})
    shutil.rmtree(once_copied.url)
    with pytest.raises(StoreUnavailable, match=r"belongs to another cluster, .* leave it out with --without a"):
        once_copied.restore("b")
    once_copied.restore("b", without=["a"])
    assert not once_copied.marks("a")
    assert not (once_copied.folder / "z" / "OWNER").exists()


def test_a_store_whose_announcement_is_outdated_is_not_registered(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stores that know of it were removed since; those that are left would not name it to a restore."""
    announce = stores_module.announce

    def late(*args: object) -> object:
        told = announce(*args)  # type: ignore[arg-type]
        with sparklog.connect(once_copied.url) as cluster:
            cluster.fence_store("c")
        return told

    monkeypatch.setattr(stores_module, "announce", late)
    with pytest.raises(NotEnoughReplicas, match="was announced to c, and one of these was fenced"):
        once_copied.add("a")


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_store_that_the_lost_chain_adds_during_a_restore_is_marked_or_refused(
    lost: LostCluster, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    running = sparklog.connect(lost.url)
    append(running, "2")

    def added() -> bool:
        try:
            lost.add("d")
        except InconsistentClusterId:
            return False
        return True

    with before_call(monkeypatch, "put_owner", added, call) as happened:
        lost.restore("a")
    assert happened == [call == 1]
    if happened[0]:
        assert lost.marks("d")
    with running, pytest.raises(InconsistentClusterId):
        append(running, "3")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_a_store_that_is_removed_during_a_restore_does_no_harm(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    lost.add("d")

    def remove() -> None:
        with sparklog.connect(lost.url) as cluster:
            cluster.remove_store("d")

    with before_call(monkeypatch, "put_owner", remove):
        lost.restore("a")
    with lost.restored() as cluster:
        assert {store.store for store in cluster.stores()} == set("abc")
        assert values(cluster) == ["1"]


def test_a_store_that_was_removed_and_is_gone_is_not_asked_for(lost: LostCluster) -> None:
    lost.add("d")
    with sparklog.connect(lost.url) as cluster:
        cluster.remove_store("d")
    shutil.rmtree(lost.stores["d"])
    lost.append("1")
    shutil.rmtree(lost.url)
    lost.restore("c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_a_store_that_was_announced_and_is_not_there_may_have_the_newest_copies(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_copied.append("1")
    once_copied.add("a")
    once_copied.path("a").rename(once_copied.folder / "a-away")
    for copy in once_copied.copied("b", "log/*")[-1:]:
        copy.unlink()  # as if its registration had no copy yet
    shutil.rmtree(once_copied.url)
    with pytest.raises(StoreUnavailable, match=r"it was announced as of entry .* leave it out with --without a"):
        once_copied.restore("b")
    assert not once_copied.marks("b", "c")
    assert once_copied.restore("b", without=["a"]).fenced == ()


def test_a_damaged_announcement_may_be_of_a_store_with_the_newest_copies(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_copied.append("1")
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "submit", die)
        with pytest.raises(KeyboardInterrupt):
            once_copied.add("a")
    for store in "bc":
        (announced,) = once_copied.path(store, "copies", "peers", "a").iterdir()
        flip(announced)
    shutil.rmtree(once_copied.url)
    with pytest.raises(StoreUnavailable, match="store a: it was announced, and the announcement is damaged"):
        once_copied.restore("b")
    assert not once_copied.marks("b", "c")
    once_copied.restore("b", without=["a"])


def test_a_store_that_was_given_and_is_not_there_is_named(once_copied: LostCluster) -> None:
    """Also one that the copies do not name."""
    shutil.rmtree(once_copied.url)
    once_copied.stores["x"] = str(once_copied.folder / "x")
    with pytest.raises(StoreUnavailable, match="store x: wanted a store of a cluster at"):
        once_copied.restore("b", "x")


def test_a_store_of_another_restore_of_the_cluster_is_refused(lost: LostCluster) -> None:
    """It was left out, and the other restore has marked it since."""
    lost.append("1")
    shutil.rmtree(lost.url)
    first = lost.restore("a", without=["c"])
    put_owner(open_store(lost.stores["c"]), 1, Owner(chain_id="d" * 32, previous=first.previous, cluster="file:///y"))
    shutil.rmtree(lost.new_url)
    with pytest.raises(Conflict, match=f"store c at .* belongs to cluster {'d' * 32} .* --without c"):
        lost.restore("a")
    lost.restore("a", without=["c"])


def test_a_marked_store_is_told_of_no_store_of_the_lost_chain(once_copied: LostCluster) -> None:
    """A process has looked at the store before it was marked."""
    once_copied.append("1")
    once_copied.restore("b")
    target = open_store(once_copied.stores["c"])
    with pytest.raises(InconsistentClusterId):
        announce_peer(target, Peer(StoreId("a"), EntryNumber(9), "file:///a"), 0)


def test_a_store_that_is_added_to_the_lost_chain_is_announced_to_a_marked_store_just_once(
    once_copied: LostCluster,
) -> None:
    """The refusal is final. If it led to further announcements, another error of one of these could hide it."""
    once_copied.restore("b")
    with pytest.raises(InconsistentClusterId):
        once_copied.add("a")
    assert len([peer for peer in peers_on(open_store(once_copied.stores["b"])) if peer.store == "a"]) == 1


def test_a_store_in_another_life_has_no_copies_that_count(once_copied: LostCluster) -> None:
    """It was wiped and begun anew, as by an agent, and its registration has not come yet."""
    once_copied.append("1")
    life = once_copied.path("b", "INCARNATION").read_text()
    shutil.rmtree(once_copied.stores["b"])
    once_copied.path("b").mkdir()
    once_copied.path("b", "INCARNATION").write_text(life[::-1])
    once_copied.append("2")
    shutil.rmtree(once_copied.url)
    restored = once_copied.restore("c", without=["b"])
    assert restored.copies == {"c": restored.last}
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_a_store_that_was_wiped_is_not_taken_for_whole(lost: LostCluster) -> None:
    lost.append("1")
    shutil.rmtree(lost.stores["b"])
    lost.path("b").mkdir()
    lost.path("b", "INCARNATION").write_text(lost.path("a", "INCARNATION").read_text())
    shutil.rmtree(lost.url)
    with pytest.raises(StoreUnavailable, match=r"store b: wanted INCARNATION .* leave it out with --without b"):
        lost.restore("a")
    assert not lost.marks("a", "b", "c")


@pytest.mark.parametrize("turn", [1, -1])
def test_the_address_at_which_a_store_is_found_does_not_depend_on_the_order_of_a_set(
    lost: LostCluster, turn: int
) -> None:
    """It was announced at several, and a link leads from one to the other. Sets of text differ between processes."""
    link = lost.folder / "a-link"
    link.symlink_to(lost.stores["b"])
    addresses = [f"file://{link}", f"file://{lost.stores['b']}"]
    given = {StoreId("a"): lost.stores["a"]}
    stores = FoundStores(lost.url, given, (), StorageSettings(), accept_loss=False)
    stores.find()
    assert stores._look(StoreId("b"), addresses[::turn])
    assert stores.found[StoreId("b")].target.url == addresses[0]


def test_of_two_addresses_of_a_store_the_one_where_it_is_in_its_registered_life_is_taken(lost: LostCluster) -> None:
    other = lost.folder / "a-other"  # before b in order
    other.mkdir()
    (other / "INCARNATION").write_text(lost.path("a", "INCARNATION").read_text())
    stores = FoundStores(lost.url, {StoreId("a"): lost.stores["a"]}, (), StorageSettings(), accept_loss=False)
    stores.find()
    assert stores._look(StoreId("b"), [f"file://{other}", f"file://{lost.stores['b']}"])
    assert stores.found[StoreId("b")].target.url == f"file://{lost.stores['b']}"
    assert stores._look(StoreId("b"), [f"file://{other}"])
    assert stores.found[StoreId("b")].target.url == f"file://{other}", "it is found, and refused by name later"
