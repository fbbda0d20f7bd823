"""Restores from copies that are damaged, or of which some are missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.commit import command_group
from sparklog.client.stores.add_store import add_store
from sparklog.core.errors import (
    ChainDamaged,
    Conflict,
    StoreUnavailable,
)
from sparklog.core.types import StoreId
from tests.client.restoring.lost_cluster import LostCluster, append, before_call, flip, values


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


@pytest.mark.parametrize("kind", ["log/*", "snapshot", "chunks", "commands"])
@pytest.mark.parametrize("store", ["a", "b"])
def test_damage_on_one_store_is_passed_over(
    lost: LostCluster, store: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
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


@pytest.mark.parametrize("kind", ["log/*", "snapshot", "chunks", "commands"])
def test_damage_on_the_store_that_was_given_is_passed_over(
    lost: LostCluster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read before another store with the same copies is found."""
    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "1")
        cluster.connection.committer.snapshots.write()
        append(cluster, "2")
    shutil.rmtree(lost.url)
    for name in "ab":
        for copy in lost.copied(name, "log/*")[:2]:
            copy.unlink()
    for copy in lost.copied("a", kind):
        flip(copy)
    lost.restore("a")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]


@pytest.mark.parametrize("kind", ["log/*", "chunks", "commands"])
def test_damage_on_all_stores_is_found_before_the_first_mark(
    lost: LostCluster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
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
    assert not lost.marks("a", "b", "c")


def test_a_restored_cluster_that_lives_is_named_though_all_its_copies_are_damaged(lost: LostCluster) -> None:
    """As by a restore that was killed at its last step, and is run again."""
    lost.append("1")
    shutil.rmtree(lost.url)
    lost.restore("a")
    snapshots = [copy for store in "abc" for copy in lost.copied(store, "snapshot")]  # of the new chain only
    assert snapshots
    for copy in snapshots:
        flip(copy)
    with pytest.raises(Conflict, match=f"is not lost: an earlier restore has begun it at file://{lost.new_url}"):
        lost.restore("a")
    shutil.rmtree(lost.new_url)
    with pytest.raises(ChainDamaged, match="the snapshot of entry"):
        lost.restore("a")


def test_a_gap_is_refused_and_what_is_behind_it_given_up_only_by_name(once_copied: LostCluster) -> None:
    """As a store that was set back has one: its copies of some entries are gone, and later ones were put since."""
    once_copied.append("1", "2", "3", "4")
    shutil.rmtree(once_copied.url)
    once_copied.copied("b", "log/*")[-2].unlink()
    with pytest.raises(ChainDamaged, match=r"end with entry 3, but store b at .* has entry 5: .*--accept-loss"):
        once_copied.restore("c")
    assert not once_copied.marks("b", "c")
    assert once_copied.restore("c", dry_run=True).newer is not None
    once_copied.restore("c", accept_loss=True)
    with once_copied.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_copies_that_ended_because_none_were_wanted_are_restored_only_by_name(
    once_copied: LostCluster,
) -> None:
    once_copied.append("1")
    with sparklog.connect(once_copied.url) as cluster:
        cluster.alter_cluster({"metadata.copies": 0})
    once_copied.append("2")
    shutil.rmtree(once_copied.url)
    with pytest.raises(ChainDamaged, match=r"but metadata\.copies is 0 from there on.*--accept-loss"):
        once_copied.restore("c")
    assert not once_copied.marks("b", "c")
    once_copied.restore("c", accept_loss=True)


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
