"""Marks of restores that are damaged, and places that have several names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import sparklog
from sparklog.client.restoring import found_stores
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.client.stores.add_store import add_store
from sparklog.core.errors import ChainDamaged, StoreUnavailable
from sparklog.core.types import StoreId
from tests.client.restoring.lost_cluster import LostCluster, append, before_call, die, flip, values


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostCluster:
    """A cluster whose metadata is lost, and that has one record."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    lost = LostCluster(tmp_path)
    lost.append("1")
    shutil.rmtree(lost.url)
    return lost


def mark(lost: LostCluster, store: str, number: int = 1) -> Path:
    return lost.path(store, "OWNER", f"{number:020d}")


def killed(lost: LostCluster, monkeypatch: pytest.MonkeyPatch, name: str = "encode_entry", call: int = 1) -> None:
    """A restore ends at this call: by default with all its marks, before it has begun."""
    with before_call(monkeypatch, name, die, call), pytest.raises(KeyboardInterrupt):
        lost.restore("a")


@pytest.mark.parametrize("stores", ["a", "b", "ab"])
def test_a_damaged_mark_of_a_restore_that_the_chain_knows_is_passed_over(lost: LostCluster, stores: str) -> None:
    lost.restore("a")
    with lost.restored() as cluster:
        append(cluster, "2")
    shutil.rmtree(lost.new_url)
    for store in stores:
        flip(mark(lost, store))
    lost.restore("c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2"]


def test_a_mark_of_an_earlier_restore_is_passed_over_though_it_is_damaged_everywhere(lost: LostCluster) -> None:
    for value in "23":
        lost.restore("a")
        with lost.restored() as cluster:
            append(cluster, value)
        shutil.rmtree(lost.new_url)
    for store in "abc":
        flip(mark(lost, store))
    lost.restore("c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2", "3"]


@pytest.mark.parametrize("store", ["a", "c"])
def test_a_mark_that_is_damaged_on_one_store_is_read_from_another(
    lost: LostCluster, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lost, monkeypatch)
    flip(mark(lost, store))
    restored = lost.restore("a")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]
        assert len(cluster.connection.follower.state.ancestors) == 2, "that of the mark was given up"
        assert mark(lost, store, 2).exists()
        assert cluster.connection.follower.state.chain_id == restored.chain_id


def test_a_damaged_mark_of_a_restore_that_may_have_begun_is_named(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lost, monkeypatch, "put_owner", 2)
    damaged = mark(lost, "a")
    flip(damaged)
    before = sorted(lost.folder.rglob("*"))
    with pytest.raises(ChainDamaged, match=r"OWNER/0+1 of store a at file://.*/a is damaged, .* --from") as refused:
        lost.restore("b")
    assert "--without" not in refused.value.message, "there is no advice to leave the store out: that may lose data"
    assert sorted(lost.folder.rglob("*")) == before
    damaged.unlink()
    lost.restore("b")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_a_store_with_a_damaged_mark_is_not_added(lost: LostCluster) -> None:
    """It was left out, and may be another restore's by now."""
    lost.restore("a", without=["c"])
    shutil.copytree(lost.path("a", "OWNER"), lost.path("c", "OWNER"))
    mark(lost, "c").rename(mark(lost, "c", 2))
    flip(mark(lost, "c", 2))
    with lost.restored() as cluster, pytest.raises(ChainDamaged, match=r"OWNER/0+2 of store c .* is damaged"):
        add_store(cluster.connection, StoreId("c"), lost.stores["c"])


# ---- what is shown ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["last_mirrored", "newest_checkpoint"])
def test_a_restore_begins_though_what_it_shows_cannot_be_read(
    lost: LostCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stores fail once all was checked behind the marks."""

    def fail() -> None:
        def fails(*_: object) -> None:
            raise StoreUnavailable("the store is gone")

        monkeypatch.setattr(found_stores, name, fails)

    with before_call(monkeypatch, "check_stores", fail, 2):
        restored = lost.restore("a")
    assert restored.copies == {} if name == "last_mirrored" else restored.checkpoint == -1
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


# ---- one place, several names -----------------------------------------------------------------------


@pytest.mark.parametrize("step", ["encode_entry", "snapshot_key"])
def test_a_place_is_the_same_through_a_link(lost: LostCluster, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that was interrupted, before or after it began, is run again through a link to its place."""
    killed(lost, monkeypatch, step)
    Path(lost.new_url).mkdir(exist_ok=True)
    link = lost.folder / "link"
    link.symlink_to(lost.new_url)
    restore_cluster(f"file://{link}/", {"a": lost.stores["a"]})
    for url in (lost.new_url, str(link)):
        with sparklog.connect(url) as cluster:
            assert values(cluster) == ["1"]
