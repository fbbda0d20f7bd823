"""Restores beside other restores: refused, dead, given up, two at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import sparklog
from sparklog.client.restoring import restore_cluster as restore_module
from sparklog.client.restoring.found_stores import FoundStores
from sparklog.client.restoring.restore_cluster import Restored, restore_cluster
from sparklog.core.errors import (
    ChainDamaged,
    ClusterAlreadyExists,
    Conflict,
    InconsistentClusterId,
    SparklogError,
)
from sparklog.core.state import first_entry
from tests.client.restoring.lost_cluster import LostCluster, append, before_call, die, values


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
    with pytest.raises(Conflict, match=r"store c at .* is marked by a restore .*: finish that restore"):
        lost.restore("a")
    assert not lost.marks("a", "b")


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
    assert [len(lost.marks(store)) for store in "abc"] == [1, 0, 0]
    lost.restore("a", take_over=True)
    assert [len(lost.marks(store)) for store in "abc"] == [2, 2, 2]
    shutil.move(lost.path("a"), lost.folder / "a-away")
    with running, pytest.raises(InconsistentClusterId):
        append(running, "3")


def test_what_another_restore_has_given_up_is_not_given_up_again(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a run of that other restore needs no --take-over, and not the place that was given up."""
    lost.append("1")
    other = lost.folder / "other"
    interrupted(lost, str(other), monkeypatch, "encode_entry", 1)
    with monkeypatch.context() as patch:
        patch.setattr(restore_module, "encode_entry", die)
        with pytest.raises(KeyboardInterrupt):
            lost.restore("a", take_over=True)
    shutil.rmtree(other)
    other.write_text("not a folder")
    lost.restore("a")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]
        assert len(cluster.connection.follower.state.ancestors) == 3


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


def foreign_beginning(lost: LostCluster, folder: Path, place: Path) -> None:
    """Put the beginning of another cluster's restore there."""
    folder.mkdir()
    other = LostCluster(folder)
    other.append("foreign")
    other.restore("a")
    (place / "meta" / "restores").mkdir(parents=True)
    (begun,) = Path(other.new_url, "meta", "restores").iterdir()
    shutil.copy(begun, place / "meta" / "restores")


def test_a_file_of_somebody_else_beside_the_beginnings_of_restores_is_ignored(lost: LostCluster) -> None:
    lost.append("1")
    stray = Path(lost.new_url, "meta", "restores", "notes.txt")
    stray.parent.mkdir(parents=True)
    stray.write_text("of an operator")
    lost.restore("a")
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_place_where_another_cluster_has_begun_is_refused_before_the_first_mark(
    lost: LostCluster, is_marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    if is_marked:
        interrupted(lost, lost.new_url, monkeypatch, "encode_entry", 1)
    foreign_beginning(lost, lost.folder / "foreign", Path(lost.new_url))
    before = lost.marks("a", "b", "c")
    with pytest.raises(ClusterAlreadyExists, match=r"found the beginning of cluster \w+ at .*: give another place"):
        lost.restore("a")
    assert lost.marks("a", "b", "c") == before
    lost.new_url = str(lost.folder / "another")
    lost.restore("a", take_over=True)  # what was to begin there can't
    with lost.restored() as cluster:
        assert values(cluster) == ["1"]


def test_a_restore_that_has_begun_is_finished_though_no_store_that_was_found_knows_of_it(
    once_copied: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that it has marked is lost, and the other one is marked by another run to the same place."""
    once_copied.append("1")
    shutil.rmtree(once_copied.url)
    copies = next(path for path in once_copied.path("b", "copies").iterdir() if path.name != "peers")
    shutil.copytree(copies, once_copied.path("c", "copies", copies.name))

    def other_run() -> None:
        restore_cluster(once_copied.new_url, {"b": once_copied.stores["b"]}, without=["c"])

    with before_call(monkeypatch, "encode_entry", other_run), pytest.raises(Conflict, match="another run"):
        once_copied.restore("c", without=["b"])
    with once_copied.restored() as cluster:
        begun = cluster.connection.follower.state.chain_id
    shutil.rmtree(once_copied.stores["b"])
    shutil.rmtree(Path(once_copied.new_url, "meta", "log"))
    shutil.rmtree(Path(once_copied.new_url, "meta", "snapshot"))
    with pytest.raises(Conflict, match="has begun, and can't be given up: finish it, with --cluster"):
        restore_cluster(
            str(once_copied.folder / "other"), {"c": once_copied.stores["c"]}, without=["b"], take_over=True
        )
    assert once_copied.restore("c", without=["b"]).chain_id == begun


@pytest.mark.parametrize("is_same_place", [True, False])
def test_a_restore_that_another_one_overtakes_behind_the_marks_has_its_outcome(
    lost: LostCluster, is_same_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    place = lost.new_url if is_same_place else str(lost.folder / "other")
    find, calls = FoundStores.find, iter(range(9))
    others: list[Restored] = []

    def late(stores: FoundStores) -> None:
        if next(calls) == 1:
            others.append(restore_cluster(place, {"b": lost.stores["b"]}, take_over=True))
        find(stores)

    monkeypatch.setattr(FoundStores, "find", late)
    if is_same_place:
        assert lost.restore("a").chain_id == others[0].chain_id
    else:
        with pytest.raises(Conflict, match=r"was restored as .* meanwhile, by another run: connect to"):
            lost.restore("a")
    with sparklog.connect(place) as cluster:
        assert values(cluster) == ["1"]


def test_a_restore_gives_up_what_those_that_it_gives_up_have_given_up(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only store with the mark of the first one is left out by now."""
    lost.append("1")
    interrupted(lost, str(lost.folder / "other-1"), monkeypatch)
    with before_call(monkeypatch, "encode_entry", die), pytest.raises(KeyboardInterrupt):
        lost.restore("a", take_over=True)
    assert lost.restore("b", without=["a"]).first == first_entry(3)


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
