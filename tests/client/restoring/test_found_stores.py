"""Finding the stores of a lost cluster, and reading its chain from them more than once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.follow.follower import Follower
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.peers import Peer, announce_peer
from sparklog.client.restoring.found_stores import FoundStores
from sparklog.client.restoring.restore_checks import check_lost
from sparklog.core.commands import NewStore, RegisterStore
from sparklog.core.config.storage import storage_settings
from sparklog.core.errors import ChainDamaged, Conflict, SparklogError, StoreUnavailable
from sparklog.core.types import EntryNumber, StoreId
from sparklog.log.cluster_stores import open_metadata
from sparklog.log.incarnation import begin_incarnation
from sparklog.storage.keys import snapshot_key
from tests.client.restoring.lost_cluster import LostCluster, append, flip


def test_entries_that_were_read_before_are_not_given_up(tmp_path: Path) -> None:
    """The only store is set back meanwhile, and the newest snapshot that turns up there can't be used."""
    lost = LostCluster(tmp_path, copies=1, stores="b")
    lost.append("1", "2", "3")
    shutil.rmtree(lost.url)
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    last = stores.head.n
    place = MirrorPlace(stores.found[StoreId("b")].target, stores.chain_id)
    lost.copied("b", "log/*")[-1].unlink()
    place.put_if_absent(snapshot_key(EntryNumber(last + 5)), b"damaged")
    stores.find()
    assert stores.head.n == last
    assert (stores.newer() or "").endswith(f"has the snapshot of entry {last + 5:,}")


def test_the_state_is_that_of_the_chain_that_is_the_newest_now(tmp_path: Path) -> None:
    """The copies of a newer one are lost meanwhile: nothing of its state is taken for that of the older one."""
    lost = LostCluster(tmp_path, copies=1, stores="b")
    lost.append("1")
    shutil.rmtree(lost.url)
    restored = lost.restore("b")
    shutil.rmtree(lost.new_url)
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    assert (stores.chain_id, stores.head.state.chain_id) == (restored.chain_id, restored.chain_id)
    shutil.rmtree(lost.path("b", "copies", stores.chain_id))
    stores.find()
    assert (stores.chain_id, stores.head.state.chain_id) == (restored.previous, restored.previous)


def test_a_store_is_known_by_each_chain_that_has_owned_it(tmp_path: Path) -> None:
    """All copies on the given store are damaged. Its marks name only chains after its registration, not the first."""
    lost = LostCluster(tmp_path, copies=1, stores="b")
    lost.append("1")
    shutil.rmtree(lost.url)
    lost.restore("b")
    shutil.rmtree(lost.new_url)
    lost.restore("b")
    lost.add("c", lost.new_url)
    with sparklog.connect(lost.new_url) as cluster:
        append(cluster, "2")
    shutil.rmtree(lost.new_url)
    for path in (*lost.copied("c", "snapshot"), *lost.copied("c", "log/*")):
        flip(path)
    given = {StoreId("c"): f"file://{lost.stores['c']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    assert sorted(stores.found) == ["b", "c"]
    assert not stores.missing


@pytest.mark.parametrize("url", ["file:///z%ff", 30 * "../" + "z"])
def test_a_store_whose_address_can_not_be_opened_is_left_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """A relative address may not fit the address of the restored cluster."""
    lost = LostCluster(tmp_path, copies=1)
    with monkeypatch.context() as patch, sparklog.connect(lost.url) as cluster:
        patch.setattr("sparklog.core.decide.stores.check_store_address", lambda url: None)
        cluster.submit(RegisterStore(NewStore(StoreId("z"), url, "f" * 32)))
    lost.append("1")
    lost.lose()
    with pytest.raises(StoreUnavailable, match="leave it out with --without z"):
        lost.restore("a")
    assert lost.restore("a", without=["z"]).fenced == ("z",)


def test_stores_of_two_clusters_give_no_newest_chain(tmp_path: Path) -> None:
    """Neither chain is newer: taking one of them would restore it, and mark the other cluster's store."""
    first, second = LostCluster(tmp_path / "1", copies=1, stores="b"), LostCluster(tmp_path / "2", copies=1, stores="c")
    given = {StoreId("b"): f"file://{first.stores['b']}", StoreId("c"): f"file://{second.stores['c']}"}
    stores = FoundStores(first.new_url, given, (), storage_settings({}), accept_loss=False)
    with pytest.raises(Conflict, match=r"wanted stores of one cluster, found those of \w+: [bc]; \w+: [bc]: leave out"):
        stores.find()


def test_what_a_chain_that_is_alive_has_written_since_is_read_and_no_evidence_of_a_loss(tmp_path: Path) -> None:
    lost = LostCluster(tmp_path, copies=1, stores="b")
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    last = stores.head.n
    lost.append("1")
    assert stores.newer() is None
    assert stores.head.n == last + 1


def test_the_mark_of_a_later_restore_shows_that_newer_data_is_lost(tmp_path: Path) -> None:
    """All copies of the two newer chains are gone, and their places: a restore from the oldest one would hide that."""
    lost = LostCluster(tmp_path, copies=1, stores="b")
    lost.append("1")
    shutil.rmtree(lost.url)
    second = lost.restore("b")
    shutil.rmtree(lost.new_url)
    third = lost.restore("b")
    shutil.rmtree(lost.new_url)
    for chain in (second.chain_id, third.chain_id):
        shutil.rmtree(lost.path("b", "copies", chain or ""))
    with pytest.raises(ChainDamaged, match=f"has the mark of a restore of cluster {second.chain_id}, which came later"):
        lost.restore("b")
    assert lost.restore("b", accept_loss=True).previous == second.previous


def test_a_store_that_was_added_after_a_restore_leads_to_those_from_before_it(tmp_path: Path) -> None:
    """It has no copies, and no state that names the first chain: only a mark of the restore does."""
    lost = LostCluster(tmp_path, copies=1, stores="ac")
    shutil.rmtree(lost.url)
    lost.restore("a")
    lost.add("b", lost.new_url)
    assert not lost.copied("b", "log/*")
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    assert sorted(stores.found) == ["a", "b", "c"]


def test_a_store_that_is_left_out_is_not_looked_for_though_it_is_there(tmp_path: Path) -> None:
    lost = LostCluster(tmp_path, copies=1, stores="bc")
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (StoreId("c"),), storage_settings({}), accept_loss=False)
    stores.find()
    assert sorted(stores.found) == ["b"]


@pytest.mark.parametrize("of_another_cluster", [True, False])
def test_a_store_is_taken_from_where_it_is_registered(tmp_path: Path, of_another_cluster: bool) -> None:
    """It was announced at another place as well, and something else is there."""
    lost = LostCluster(tmp_path, copies=1, stores="bc")
    place = open_metadata(str(tmp_path / "a-first"), storage_settings({}))
    with sparklog.connect(lost.url) as cluster:
        state = cluster.connection.follower.state
        begin_incarnation(place, "c", "f" * 32 if of_another_cluster else state.chain_id)
        announced = Peer(StoreId("c"), EntryNumber(state.n + 1), place.url)
        announce_peer(cluster.connection.stores(state).get(StoreId("b")), announced, 0)
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    assert stores.found[StoreId("c")].target.url == f"file://{lost.stores['c']}"
    assert not stores.missing


def test_the_store_of_another_cluster_is_missing(tmp_path: Path) -> None:
    lost, other = LostCluster(tmp_path / "1", copies=1, stores="bc"), LostCluster(tmp_path / "2", copies=0, stores="c")
    shutil.rmtree(lost.stores["c"])
    shutil.copytree(other.stores["c"], lost.stores["c"])
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.new_url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    assert sorted(stores.found) == ["b"]
    assert "belongs to another cluster" in stores.missing[StoreId("c")]


def test_a_restored_chain_whose_place_cannot_be_read_may_well_be_lost(tmp_path: Path) -> None:
    lost = LostCluster(tmp_path, copies=1, stores="b")
    shutil.rmtree(lost.url)
    lost.restore("b")
    given = {StoreId("b"): f"file://{lost.stores['b']}"}
    stores = FoundStores(lost.url, given, (), storage_settings({}), accept_loss=False)
    stores.find()
    with pytest.raises(Conflict, match="is not lost"):
        check_lost(stores, storage_settings({}))
    for entry in Path(lost.new_url).glob("meta/*/**/*"):
        if entry.is_file():
            entry.write_bytes(b"damaged")
    with pytest.raises(SparklogError):
        Follower(open_metadata(lost.new_url, storage_settings({}))).catch_up()
    check_lost(stores, storage_settings({}))
