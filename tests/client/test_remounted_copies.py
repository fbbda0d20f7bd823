"""Copies of the metadata on a disk that is unmounted for a while: what lies below it does not count."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sparklog
from sparklog.core.commands import AllocateProducer
from sparklog.core.errors import NotEnoughReplicas, NotEnoughReplicasAfterAppend
from sparklog.storage.local.store import LocalStore
from tests.client.restoring.lost_cluster import LostCluster, append, values
from tests.mounts import Disk, begin_own_mounts

AT_ONCE_MS, PATIENT_MS = 1, 60_000


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostCluster:
    """Stores b and c, with one copy of the metadata, on b: the first that was registered."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    lost = LostCluster(tmp_path, copies=1, stores="bc")
    lost.append("1")
    return lost


@pytest.fixture(params=["mounts", "names"])
def disk(lost: LostCluster, request: pytest.FixtureRequest) -> Iterator[Disk]:
    """The disk of store b."""
    real = request.param == "mounts"
    if real and not begin_own_mounts():
        pytest.skip("this machine allows no mounts")
    disk = Disk(lost.path("b"), real=real)
    yield disk
    if real and disk.is_mounted:
        disk.unmount()


def before(name: str, is_next: Callable[[str], bool], what: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Let `what` happen before the first such call of a store for a key."""
    original, happened = getattr(LocalStore, name), []

    def late(store: LocalStore, key: str, *arguments: Any) -> Any:
        if not happened and is_next(key):
            happened.append(key)
            what()
        return original(store, key, *arguments)

    patch.setattr(LocalStore, name, late)


# M: F-08
@pytest.mark.parametrize("begins", [True, False])
def test_a_copy_below_a_disk_that_is_back_by_the_next_look_does_not_count(
    lost: LostCluster, disk: Disk, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that runs puts the copy, and looks at the one before it; one that begins looks for INCARNATION."""
    running = sparklog.connect(lost.url)
    if not begins:
        running.create_topic("before")
    put: list[str] = []

    def is_copy(key: str) -> bool:
        return key.startswith("copies/") and "/log/" in key

    def unmount() -> None:
        disk.unmount()
        put.append("below")

    def mount() -> None:
        if not disk.is_mounted:
            disk.mount()

    before("upload", is_copy, unmount, monkeypatch)
    for look in ("size", "get", "get_beside"):
        before(look, lambda key: bool(put), mount, monkeypatch)
    with running:
        running.create_topic("after")
    assert put
    assert disk.is_mounted
    shutil.rmtree(lost.url)
    lost.restore("c")
    with lost.restored() as cluster:
        assert "after" in cluster.topics()
        assert values(cluster) == ["1"]


def test_what_lies_below_a_disk_is_no_copy_though_it_is_whole(tmp_path: Path, disk: Disk, lost: LostCluster) -> None:
    """Earlier tries have left there all copies but the newest."""
    with sparklog.connect(lost.url) as cluster:
        cluster.fence_store("c")  # or it would take the copies
        append(cluster, "2")
        committer = cluster.connection.committer
        copies = tmp_path / "saved"
        shutil.copytree(lost.path("b", "copies"), copies)
        disk.unmount()
        lost.path("b").mkdir(exist_ok=True)
        copies.rename(lost.path("b", "copies"))
        begun = committer.begin(AllocateProducer())
        with pytest.raises(NotEnoughReplicasAfterAppend):
            committer.submit(begun, AT_ONCE_MS)
        disk.mount()
        n = committer.submit(begun, PATIENT_MS).n
    assert lost.copied("b", "log/*")[-1].name == f"{n:020d}"


@pytest.mark.parametrize("newest", ["log/*", "snapshot"])
def test_what_was_seen_below_a_disk_is_no_copy_before_one_that_is_put_on_it(
    tmp_path: Path, disk: Disk, lost: LostCluster, newest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest copies were put below it. The next process sees them there; by its first put, the disk is back."""
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "2")
        if newest == "snapshot":
            cluster.connection.committer.snapshots.write()
    shutil.copytree(lost.path("b", "copies"), tmp_path / "saved")
    for copy in {lost.copied("b", "log/*")[-1], lost.copied("b", newest)[-1]}:
        copy.unlink()
    disk.unmount()
    lost.path("b").mkdir(exist_ok=True)
    (tmp_path / "saved").rename(lost.path("b", "copies"))
    before("upload", lambda key: key.startswith("copies/"), disk.mount, monkeypatch)
    lost.append("3")
    assert disk.is_mounted
    shutil.rmtree(lost.url)
    lost.restore("b", "c")
    with lost.restored() as cluster:
        assert values(cluster) == ["1", "2", "3"]


def test_an_announcement_below_a_disk_that_is_back_by_the_next_look_does_not_count(
    lost: LostCluster, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that is given this store only would not look for the new one."""
    put: list[str] = []

    def unmount() -> None:
        disk.unmount()
        put.append("below")

    def mount() -> None:
        if not disk.is_mounted:
            disk.mount()

    with sparklog.connect(lost.url) as cluster:
        before("upload", lambda key: key.startswith("copies/peers/a/"), unmount, monkeypatch)
        for look in ("get", "get_beside"):
            before(look, lambda key: bool(put), mount, monkeypatch)
        with pytest.raises(NotEnoughReplicas, match="store a has to be announced to 2 stores"):
            cluster.add_store("a", str(lost.folder / "a"))
        assert put
        assert {store.store for store in cluster.stores()} == {"b", "c"}


def test_a_copy_that_a_snapshot_covers_needs_no_entry_before_it(lost: LostCluster) -> None:
    """The entries before it were deleted as old, or are those of the chain that was restored."""
    with sparklog.connect(lost.url) as cluster:
        committer = cluster.connection.committer
        begun = committer.begin(AllocateProducer())
        n = committer.submit(begun).n
        committer.snapshots.write()
    for copy in lost.copied("b", "log/*")[:-1]:
        copy.unlink()
    with sparklog.connect(lost.url) as cluster:
        assert cluster.connection.committer.submit(begun, AT_ONCE_MS).n == n
    assert not lost.copied("c", "log/*")
