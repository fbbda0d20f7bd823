"""Restores beside everything else: stores that come and go, damage, other restores, and a lost chain that is alive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.chain import group
from sparklog.chain.peers import Peer, tell
from sparklog.client import restore as restore_module
from sparklog.client import stores as stores_module
from sparklog.client.bootstrap import init_cluster
from sparklog.client.connection import Connection
from sparklog.client.found_stores import FoundStores
from sparklog.client.restore import restore_cluster
from sparklog.client.stores import add_store
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import (
    ChainDamaged,
    Conflict,
    InconsistentClusterId,
    NotEnoughReplicas,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.state import first_entry
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.open_store import open_store
from tests.client.lost_cluster import LostCluster, append, before_call, flip, values


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


def add(lost: LostCluster, store: str, url: str | None = None) -> None:
    lost.stores[store] = str(lost.folder / store)
    with sparklog.connect(url or lost.url) as cluster:
        add_store(cluster.connection, StoreId(store), lost.stores[store])


def marks(lost: LostCluster, *stores: str) -> list[Path]:
    return [mark for store in stores for mark in lost.path(store, "OWNER").glob("*")]


# ---- stores that come and go ------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["b", "c"])
def test_a_store_that_was_added_is_found_though_it_alone_has_the_newest_copies(
    once_copied: LostCluster, source: str
) -> None:
    """Its id sorts first, and the other stores are away for the processes that write."""
    once_copied.append("1")
    add(once_copied, "a")
    for store in "bc":
        Path(once_copied.stores[store], "copies").rename(once_copied.folder / f"{store}-copies")
        Path(once_copied.stores[store], "copies").write_text("not a folder")
    with sparklog.connect(once_copied.url) as cluster:
        cluster.create_topic("later", assignment=[["a"]])
    for store in "bc":
        Path(once_copied.stores[store], "copies").unlink()
        (once_copied.folder / f"{store}-copies").rename(Path(once_copied.stores[store], "copies"))
    shutil.rmtree(once_copied.url)
    once_copied.restore(source)
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1"]
        assert cluster.topics() == ["later", "t"]


def test_a_store_is_not_added_while_no_store_that_may_have_copies_can_be_told(once_copied: LostCluster) -> None:
    once_copied.append("1")
    for store in "bc":
        shutil.rmtree(once_copied.path(store, "copies", "peers"))
        once_copied.path(store, "copies", "peers").write_text("not a folder")
    with pytest.raises(NotEnoughReplicas, match="store a has to be announced to 2 stores"):
        add(once_copied, "a")
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
            add(once_copied, "a")
            with sparklog.connect(once_copied.url) as cluster:
                cluster.remove_store("a")
        return told

    monkeypatch.setattr(stores_module, "announce", late)
    with pytest.raises(NotEnoughReplicas, match="another store was registered or fenced while a was announced"):
        add(once_copied, "a")


def test_an_add_at_another_address_than_one_that_died_is_not_held_up(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "submit", die)
        with pytest.raises(KeyboardInterrupt), sparklog.connect(once_copied.url) as cluster:
            add_store(cluster.connection, StoreId("a"), str(once_copied.folder / "typo"))
    add(once_copied, "a")
    with sparklog.connect(once_copied.url) as cluster:
        assert [store.store for store in cluster.stores()] == ["b", "c", "a"]


def test_the_last_store_that_may_have_copies_is_not_removed(tmp_path: Path) -> None:
    url, other = str(tmp_path / "meta"), str(tmp_path / "b")
    init_cluster(url, stores={"main": ".", "b": other}, config={"metadata.copies": 1})
    with sparklog.connect(url) as cluster, pytest.raises(Conflict, match="the last one that may have copies"):
        cluster.remove_store("b")


def test_a_store_that_another_cluster_has_by_now_is_not_marked(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An add of it died after it was announced; then it was wiped, and given to the other cluster."""
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "submit", die)
        with pytest.raises(KeyboardInterrupt):
            add(once_copied, "a")
    shutil.rmtree(once_copied.stores["a"])
    other = str(once_copied.folder / "other")
    init_cluster(other, stores={"y": once_copied.stores["a"], "z": str(once_copied.folder / "z")})
    shutil.rmtree(once_copied.url)
    with pytest.raises(StoreUnavailable, match=r"belongs to another cluster, .* leave it out with --without a"):
        once_copied.restore("b")
    once_copied.restore("b", without=["a"])
    assert not marks(once_copied, "a")
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
    with pytest.raises(NotEnoughReplicas, match="was announced to c, and that was fenced"):
        add(once_copied, "a")


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_store_that_the_lost_chain_adds_during_a_restore_is_marked_or_refused(
    lost: LostCluster, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    running = sparklog.connect(lost.url)
    append(running, "2")

    def added() -> bool:
        try:
            add(lost, "d")
        except InconsistentClusterId:
            return False
        return True

    with before_call(monkeypatch, "put_owner", added, call) as happened:
        lost.restore("a")
    assert happened == [call == 1]
    if happened[0]:
        assert marks(lost, "d")
    with running, pytest.raises(InconsistentClusterId):
        append(running, "3")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_a_store_that_is_removed_during_a_restore_does_no_harm(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    add(lost, "d")

    def remove() -> None:
        with sparklog.connect(lost.url) as cluster:
            cluster.remove_store("d")

    with before_call(monkeypatch, "put_owner", remove):
        lost.restore("a")
    with lost.restored() as cluster:
        assert {store.store for store in cluster.stores()} == set("abc")
        assert values(cluster) == ["1"]


def test_a_store_that_was_removed_and_is_gone_is_not_asked_for(lost: LostCluster) -> None:
    add(lost, "d")
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
    add(once_copied, "a")
    once_copied.path("a").rename(once_copied.folder / "a-away")
    for copy in once_copied.copied("b", "log/*")[-1:]:
        copy.unlink()  # as if its registration had no copy yet
    shutil.rmtree(once_copied.url)
    with pytest.raises(StoreUnavailable, match=r"it was announced as of entry .* leave it out with --without a"):
        once_copied.restore("b")
    assert not marks(once_copied, "b", "c")
    assert once_copied.restore("b", without=["a"]).fenced == ()


def test_a_marked_store_is_told_of_no_store_of_the_lost_chain(once_copied: LostCluster) -> None:
    """A process has looked at the store before it was marked."""
    once_copied.append("1")
    once_copied.restore("b")
    target = open_store(once_copied.stores["c"])
    with pytest.raises(InconsistentClusterId):
        tell(target, Peer(StoreId("a"), EntryNumber(9), "file:///a"), 0)


def test_a_store_in_another_life_has_no_copies_that_count(once_copied: LostCluster) -> None:
    """It was wiped, and nobody has noticed yet."""
    once_copied.append("1")
    shutil.rmtree(once_copied.stores["b"])
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
    assert not marks(lost, "a", "b", "c")


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


# ---- damage, and what is missing --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["log/*", "snapshot", "chunks", "commands"])
@pytest.mark.parametrize("store", ["a", "b"])
def test_damage_on_one_store_is_passed_over(
    lost: LostCluster, store: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLICES_INLINE", 1)
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "1")
        cluster.connection.committer.snapshots.write()
        append(cluster, "2")
    shutil.rmtree(lost.url)
    for name in "ab":  # only the snapshot has the beginning
        for copy in lost.copied(name, "log/*")[:2]:
            copy.unlink()
    copies = lost.copied(store, kind)
    assert copies
    for copy in copies:
        flip(copy)
    lost.restore("c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]


@pytest.mark.parametrize("kind", ["log/*", "chunks", "commands"])
def test_damage_on_all_stores_is_found_before_the_first_mark(
    lost: LostCluster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "SLICES_INLINE", 1)
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "1")
        cluster.connection.committer.snapshots.write()
        append(cluster, "2")
    shutil.rmtree(lost.url)
    for store in "ab":
        for copy in lost.copied(store, "log/*")[:1]:
            copy.unlink()  # so that nothing but the snapshot has the beginning
        flip(lost.copied(store, kind)[-1])
    with pytest.raises(ChainDamaged):
        lost.restore("a")
    assert not marks(lost, "a", "b", "c")


def test_a_gap_is_refused_and_what_is_behind_it_given_up_only_by_name(once_copied: LostCluster) -> None:
    """As a store that was set back has one: its copies of some entries are gone, and later ones were put since."""
    once_copied.append("1", "2", "3", "4")
    shutil.rmtree(once_copied.url)
    once_copied.copied("b", "log/*")[-2].unlink()
    with pytest.raises(ChainDamaged, match=r"end with entry 3, but store b at .* has entry 5: .*--accept-loss"):
        once_copied.restore("c")
    assert not marks(once_copied, "b", "c")
    assert once_copied.restore("c", dry_run=True).newer is not None
    once_copied.restore("c", accept_loss=True)
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_a_gap_that_comes_up_behind_the_marks_is_refused_too(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_copied.append("1")
    newest = once_copied.copied("b", "log/*")[-1]

    def put_later_entry() -> None:
        shutil.copy(newest, newest.with_name(f"{9:020d}"))

    with (
        before_call(monkeypatch, "put_owner", put_later_entry),
        pytest.raises(ChainDamaged, match=r"store b at .* has entry 9"),
    ):
        once_copied.restore("c")
    assert not Path(once_copied.new_url, "meta").exists()


def test_a_store_that_is_set_back_during_a_restore_is_noticed(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")

    def set_back() -> None:
        shutil.rmtree(lost.path("b", "OWNER"))

    with (
        before_call(monkeypatch, "put_owner", set_back, 3),
        pytest.raises(StoreUnavailable, match=r"store b at .* has lost the mark of this restore: run it again"),
    ):
        lost.restore("a")
    lost.restore("a")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_after_a_loss_report_the_copies_begin_anew(once_copied: LostCluster) -> None:
    """The store was set back to an older copy of itself, and its agent noticed that."""
    once_copied.append("1", "2")
    saved = once_copied.folder / "saved"
    shutil.copytree(once_copied.stores["b"], saved)
    running = sparklog.connect(once_copied.url)
    append(running, "3")
    shutil.rmtree(once_copied.stores["b"])
    saved.rename(once_copied.stores["b"])
    with sparklog.connect(once_copied.url) as cluster:
        cluster.fence_store("b")
        add_store(cluster.connection, StoreId("b"), once_copied.stores["b"])
    append(running, "4")
    running.close()
    shutil.rmtree(once_copied.url)
    shutil.move(once_copied.stores["c"], once_copied.folder / "c-away")
    with pytest.raises(StoreUnavailable, match="leave it out with --without c"):
        once_copied.restore("b")
    restored = once_copied.restore("b", without=["c"])
    assert restored.newer is None
    assert restored.copies["b"] == restored.last


# ---- other restores ---------------------------------------------------------------------------------


def die(*args: object) -> None:
    """The process ends here."""
    raise KeyboardInterrupt


def interrupted(
    lost: LostCluster, url: str, monkeypatch: pytest.MonkeyPatch, name: str = "put_owner", call: int = 2
) -> None:
    """A restore to `url` that dies before it has begun there, after its first marks."""

    with before_call(monkeypatch, name, die, call), pytest.raises(KeyboardInterrupt):
        restore_cluster(url, {"a": lost.stores["a"]})


def test_a_restore_that_is_refused_has_put_no_mark(lost: LostCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    interrupted(lost, str(lost.folder / "other"), monkeypatch, "encode_entry", 1)
    for store in "ab":
        shutil.rmtree(lost.path(store, "OWNER"))
    with pytest.raises(Conflict, match=r"store c at .* is marked by a restore .*: finish that one"):
        lost.restore("a")
    assert not marks(lost, "a", "b")


@pytest.mark.parametrize(("step", "call"), [("put_owner", 2), ("encode_entry", 1)])
def test_a_restore_that_has_not_begun_can_be_given_up(
    lost: LostCluster, step: str, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    running = sparklog.connect(lost.url)
    append(running, "2")
    other = str(lost.folder / "other")
    interrupted(lost, other, monkeypatch, step, call)
    with pytest.raises(Conflict, match="or give it up, with --take-over"):
        lost.restore("a")
    restored = lost.restore("a", take_over=True)
    assert restored.first == first_entry(2)
    with pytest.raises(Conflict, match="is not lost: an earlier restore has begun it at"):
        restore_cluster(other, {"a": lost.stores["a"]})
    with pytest.raises(InconsistentClusterId), running:
        append(running, "3")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]
        assert len(cluster.connection.follower.state.ancestors) == 2
        append(cluster, "3")
    shutil.rmtree(lost.new_url)
    third = str(lost.folder / "third")
    restore_cluster(third, {"c": lost.stores["c"]})
    with sparklog.connect(third) as cluster:
        assert values(cluster) == ["1", "2", "3"]


def test_a_restore_that_gives_another_one_up_puts_its_marks_too(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one had marked the first store only."""
    lost.append("1")
    running = sparklog.connect(lost.url)
    append(running, "2")
    interrupted(lost, str(lost.folder / "other"), monkeypatch)
    assert [len(marks(lost, store)) for store in "abc"] == [1, 0, 0]
    lost.restore("a", take_over=True)
    assert [len(marks(lost, store)) for store in "abc"] == [2, 2, 2]
    shutil.move(lost.path("a"), lost.folder / "a-away")
    with running, pytest.raises(InconsistentClusterId):
        append(running, "3")


def test_a_restore_that_has_begun_is_not_given_up(lost: LostCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lost.append("1")
    other = str(lost.folder / "other")
    with monkeypatch.context() as patch:
        patch.setattr(restore_module, "snapshot_key", die)
        with pytest.raises(KeyboardInterrupt):
            restore_cluster(other, {"a": lost.stores["a"]})
    with pytest.raises(Conflict, match="has begun, and can't be given up: finish it, with --cluster"):
        lost.restore("a", take_over=True)
    restore_cluster(other, {"a": lost.stores["a"]})
    with sparklog.connect(other) as cluster:
        assert values(cluster) == ["1"]


def test_a_restore_that_is_given_up_while_it_runs_does_not_begin(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    other = str(lost.folder / "other")

    def take_over() -> None:
        lost.restore("a", take_over=True)

    with before_call(monkeypatch, "encode_entry", take_over), pytest.raises(Conflict, match="was given up in favour"):
        restore_cluster(other, {"a": lost.stores["a"]})
    with pytest.raises(SparklogError):
        sparklog.connect(other)
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_two_restores_that_have_marked_different_stores_do_not_lock_each_other_out(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    others = [str(lost.folder / "other-1"), str(lost.folder / "other-2")]
    interrupted(lost, others[0], monkeypatch)
    saved = lost.path("a", "OWNER").rename(lost.folder / "a-owner")
    interrupted(lost, others[1], monkeypatch, "encode_entry", 1)
    shutil.rmtree(lost.path("a", "OWNER"))
    saved.rename(lost.path("a", "OWNER"))
    for url in others:
        with pytest.raises(Conflict):
            restore_cluster(url, {"a": lost.stores["a"]})
    lost.restore("a", take_over=True)
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_a_cluster_is_not_restored_from_an_older_chain_in_silence(once_copied: LostCluster) -> None:
    """Only store b has copies of the chain that was restored first, and it is left out."""
    once_copied.append("1")
    first, second = once_copied.new_url, str(once_copied.folder / "second")
    shutil.rmtree(once_copied.url)
    once_copied.restore("c")
    with sparklog.connect(first) as cluster:
        append(cluster, "2")
    for copies in once_copied.path("c", "copies").iterdir():
        if copies.name != "peers":
            shutil.rmtree(copies)
    with sparklog.connect(first) as cluster:
        lineage = cluster.connection.follower.state.lineage
    shutil.copytree(once_copied.path("b", "copies", lineage[0]), once_copied.path("c", "copies", lineage[0]))
    shutil.rmtree(first)
    interrupted_at = str(once_copied.folder / "interrupted")
    restore_cluster(interrupted_at, {"b": once_copied.stores["b"]})
    shutil.rmtree(interrupted_at)
    given = {"c": once_copied.stores["c"]}
    with pytest.raises(ChainDamaged, match=f"has the mark of a restore of cluster {lineage[1]}, which came later"):
        restore_cluster(second, given, without=["b"], take_over=True)
    restore_cluster(second, given, without=["b"], take_over=True, accept_loss=True)
    with sparklog.connect(second) as cluster:
        assert values(cluster) == ["1"]


# ---- a lost chain that is alive ---------------------------------------------------------------------


def test_a_store_that_was_left_out_stops_the_lost_chain_once_it_is_added(tmp_path: Path) -> None:
    """A process of the lost chain reaches that store only, and puts one copy there after the other."""
    lost = LostCluster(tmp_path, copies=1)
    lost.append("1")
    running = sparklog.connect(lost.url)
    copies = running.connection.follower.copies
    assert copies is not None
    copies._is_elsewhere = lambda store: store.store == "c"
    lost.restore("a", without=["c"])
    for value in ("2", "3"):
        append(running, value)
    add(lost, "c", lost.new_url)
    with running, pytest.raises(InconsistentClusterId):
        append(running, "4")
    with lost.restored() as cluster:
        append(cluster, "4")
        assert values(cluster) == ["1", "4"]


@pytest.mark.parametrize("begins", [True, False])
def test_a_store_that_is_wiped_after_a_restore_gives_the_lost_chain_no_copies(
    once_copied: LostCluster, begins: bool
) -> None:
    """What identifies the store survives, as an agent of the lost chain might have seen to; its mark does not."""
    once_copied.append("1")
    running = sparklog.connect(once_copied.url)
    append(running, "2")
    once_copied.restore("c")
    for folder in ("OWNER", "copies"):
        shutil.rmtree(once_copied.path("b", folder))
    process = sparklog.connect(once_copied.url) if begins else running
    with process, pytest.raises(InconsistentClusterId):
        append(process, "3")
    running.close()


@pytest.mark.parametrize("copies", [1, 2])
def test_a_process_that_lags_adds_nothing_to_a_place_that_was_lost_and_is_written_on(
    tmp_path: Path, copies: int
) -> None:
    """The folder of the metadata was removed. Who writes makes it again, and who lags finds free slots there."""
    lost = LostCluster(tmp_path, copies=copies)
    ahead, lagging = sparklog.connect(lost.url), sparklog.connect(lost.url)
    append(ahead, "1")
    values(lagging)
    append(ahead, "2")
    shutil.rmtree(lost.url)
    append(ahead, "3")
    with pytest.raises(InconsistentClusterId, match="the metadata there was lost, and a process that lagged behind"):
        append(lagging, "lagging")
    append(ahead, "4")
    for cluster in (ahead, lagging):
        cluster.close()
    lost.restore("c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2", "3", "4"]
