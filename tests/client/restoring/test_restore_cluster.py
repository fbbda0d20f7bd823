"""Restoring a cluster from the copies of its metadata, after that was lost: everything acknowledged is there again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.commit import command_group
from sparklog.client.restoring import restore_cluster as restore_module
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.client.stores.add_store import add_store
from sparklog.core.commands import AlterTopic
from sparklog.core.describe.checkpoints import HIGH_WATERMARKS
from sparklog.core.errors import (
    ChainDamaged,
    ClusterAlreadyExists,
    ClusterNotFound,
    Conflict,
    InconsistentClusterId,
    InvalidInput,
    StoreUnavailable,
    WriteExpired,
)
from sparklog.core.state import first_entry
from sparklog.core.state_invariants import check
from sparklog.core.types import EntryNumber, ObjectNumber, StoreId
from sparklog.log.checkpoint_files import CheckpointFiles
from sparklog.log.objects.object_deletion import ObjectToDelete, delete_objects
from sparklog.log.objects.orphans import OrphanSearch, search_orphans
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import checkpoint_key
from tests.client.restoring.lost_cluster import PARTITIONS, LostCluster, append, values
from tests.kit.silent_console import SILENT

STORES = "abc"


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LostCluster:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    return LostCluster(tmp_path)


# M: F-08
@pytest.mark.parametrize("source", ["a", "b", "c"])
def test_a_cluster_is_restored_from_any_one_store(lost: LostCluster, source: str) -> None:
    lost.append("1", "2", "3")
    with sparklog.connect(lost.url) as cluster:
        before = cluster.connection.follower.state
    shutil.rmtree(lost.url)
    restored = lost.restore(source)
    assert (restored.last, restored.copies) == (before.n, {"a": before.n, "b": before.n, "c": -1})
    with sparklog.connect(lost.new_url) as cluster:
        for partition in range(PARTITIONS):
            assert values(cluster, partition) == ["1", "2", "3"]
        state = cluster.connection.follower.state
        assert state.n == restored.first
        assert state.lineage == (before.chain_id, restored.chain_id)
        for key, partition_ in state.partitions.items():
            was = before.partitions[key].replication
            now = partition_.replication
            assert now.leader_epoch == was.leader_epoch + 1
            assert (now.high_watermark, now.next_offset, now.isr) == (was.high_watermark, was.next_offset, was.isr)
        check(state)
        append(cluster, "4")
        assert values(cluster) == ["1", "2", "3", "4"]
    assert run_verify(lost.new_url, console=SILENT).differences == ()


# M: F-08
@pytest.mark.parametrize("same_place", [False, True])
def test_a_restored_cluster_can_be_restored_again(lost: LostCluster, same_place: bool) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    assert lost.restore("a").copied
    with sparklog.connect(lost.new_url) as cluster:
        append(cluster, "2")
    shutil.rmtree(lost.new_url)
    third = lost.new_url if same_place else str(lost.folder / "third-place")
    restored = restore_cluster(third, {"b": lost.stores["b"]})
    with sparklog.connect(third) as cluster:
        assert values(cluster) == ["1", "2"]
        assert len(cluster.connection.follower.state.ancestors) == 2
    assert restored.first == first_entry(2)


def test_a_large_write_and_a_snapshot_are_copied_too(lost: LostCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
    lost.append("1")
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "2")
        cluster.connection.committer.snapshots.write()
        append(cluster, "3")
        chain_id = cluster.connection.follower.state.chain_id
    shutil.rmtree(lost.url)
    for store in "ab":  # the snapshot makes older copies superfluous
        copies = lost.folder / store / "copies" / chain_id
        assert len(list((copies / "snapshot").iterdir())) == 1
        entries = sorted(copies.glob("log/*/*"))
        for entry in entries[:3]:
            entry.unlink()
    lost.restore("a")
    with sparklog.connect(lost.new_url) as cluster:
        assert values(cluster) == ["1", "2", "3"]


def test_producers_and_applications_write_nothing_twice_after_a_restore(lost: LostCluster) -> None:
    with sparklog.connect(lost.url) as cluster:
        producer = cluster.allocate_producer()
        cluster.append("t", pa.table({"value": ["p"], "partition": pa.array([0], pa.int32())}), producer=(*producer, 0))
    lost.append("a", application=("nightly", 7))
    shutil.rmtree(lost.url)
    lost.restore("a")
    with sparklog.connect(lost.new_url) as cluster:
        cluster.append("t", pa.table({"value": ["p"], "partition": pa.array([0], pa.int32())}), producer=(*producer, 0))
        append(cluster, "a", application=("nightly", 7))
        assert values(cluster) == ["p", "a"]


def test_what_was_begun_on_the_lost_chain_is_not_committed_to_the_new_one(lost: LostCluster) -> None:
    with sparklog.connect(lost.url) as cluster:
        append(cluster, "1")
        committer = cluster.connection.committer
        topic = cluster.connection.follower.state.topic_named("t")
        assert topic is not None
        begun = committer.begin(AlterTopic(topic.topic_id, {"retention.ms": "5"}))
    shutil.rmtree(lost.url)
    lost.restore("a")
    with sparklog.connect(lost.new_url) as cluster, pytest.raises(WriteExpired):
        cluster.connection.committer.submit(begun)


# M: F-08
def test_the_lost_chain_acknowledges_nothing_more_once_it_is_restored(lost: LostCluster) -> None:
    """Processes that still reach it: one that runs, and one that begins."""
    running = sparklog.connect(lost.url)
    append(running, "1")
    away = lost.lose()
    lost.restore("a")
    away.rename(lost.url)
    for cluster in (running, sparklog.connect(lost.url)):
        with cluster, pytest.raises(InconsistentClusterId, match=r"was restored as cluster .*connect to file://"):
            append(cluster, "2")
    with sparklog.connect(lost.new_url) as cluster:
        assert values(cluster) == ["1"]
        append(cluster, "3")
        assert values(cluster) == ["1", "3"]


def test_a_store_without_copies_is_marked_as_well(lost: LostCluster) -> None:
    """A process of the lost chain that takes up a third store for its copies finds the mark there."""
    lost.append("1")
    away = lost.lose()
    lost.restore("a")
    away.rename(lost.url)
    for store in "ab":  # so it comes to c
        shutil.rmtree(Path(lost.stores[store], "copies"))
        shutil.rmtree(Path(lost.stores[store], "OWNER"))
    for store in "ab":
        Path(lost.stores[store]).rename(lost.folder / f"{store}-away")
        Path(lost.stores[store]).write_text("not a directory")
    with sparklog.connect(lost.url) as cluster, pytest.raises(InconsistentClusterId, match="was restored as"):
        cluster.create_topic("u", assignment=[["c"]])


def test_a_place_that_has_metadata_is_no_place_for_a_restore(lost: LostCluster) -> None:
    lost.append("1")
    lost.new_url = lost.url
    with pytest.raises(ClusterAlreadyExists, match="if it lives, there is nothing to restore"):
        lost.restore("a")
    Path(lost.url, "meta", "snapshot").mkdir(exist_ok=True)
    (first,) = Path(lost.url).glob("meta/log/*/00000000000000000000")
    first.unlink()  # a part of it is lost
    with pytest.raises(ClusterAlreadyExists, match="or move its meta/ away"):
        lost.restore("a")
    assert not Path(lost.stores["a"], "OWNER").exists()


def test_metadata_is_restored_to_its_old_place_when_that_is_empty(lost: LostCluster) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    lost.new_url = lost.url
    lost.restore("b")
    with sparklog.connect(lost.url) as cluster:
        assert values(cluster) == ["1"]


def test_a_cluster_without_copies_is_not_restored(tmp_path: Path) -> None:
    lost = LostCluster(tmp_path, copies=0)
    lost.append("1")
    assert [path.name for path in Path(lost.stores["a"], "copies").iterdir()] == ["peers"]
    shutil.rmtree(lost.url)
    with pytest.raises(ClusterNotFound, match=r"metadata\.copies"):
        lost.restore("a", "b", "c")
    assert not Path(lost.stores["a"], "OWNER").exists()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(lost: LostCluster) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    before = sorted(lost.folder.rglob("*"))
    planned = lost.restore("a", "c", dry_run=True)
    assert (planned.copies["a"], planned.copies["c"], planned.last) == (2, -1, 2)
    assert (planned.chain_id, planned.topics, set(planned.stores)) == (None, 1, set(STORES))
    assert sorted(lost.folder.rglob("*")) == before


# M: F-07
def test_a_checkpoint_shows_how_far_the_lost_chain_had_come(lost: LostCluster) -> None:
    lost.append("1")
    with sparklog.connect(lost.url) as cluster:
        state = cluster.connection.follower.catch_up().state
        stores = cluster.connection.stores(state)
        assert CheckpointFiles().write(state, stores) == {}
        shutil.rmtree(lost.url)
        planned = lost.restore("a", dry_run=True)
        assert (planned.checkpoint, planned.last) == (state.n, state.n)
        later = checkpoint_key(state.chain_id, HIGH_WATERMARKS, state.n + 5)  # of entries that have no copy
        stores.get(StoreId("b")).put_if_absent(later, b"0\n0\n")
    planned = lost.restore("a", dry_run=True)
    assert (planned.checkpoint, planned.last) == (state.n + 5, state.n)
    with pytest.raises(ChainDamaged, match=f"end with entry {state.n}, but a store has a checkpoint as of entry"):
        lost.restore("a")
    assert not Path(lost.stores["a"], "OWNER").exists()
    assert lost.restore("a", accept_loss=True).checkpoint == state.n + 5


def test_a_store_that_is_lost_too_is_left_out_by_name_and_comes_back(lost: LostCluster) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    Path(lost.stores["a"]).rename(lost.folder / "a-away")
    with pytest.raises(StoreUnavailable, match="leave it out with --without a"):
        lost.restore("b")
    with pytest.raises(InvalidInput, match=r"cluster \(a, b, c\) in --from and --without, found x: .* older than it"):
        lost.restore("b", without=["x"])
    assert lost.restore("b", without=["a"]).fenced == ("a",)
    (lost.folder / "a-away").rename(lost.stores["a"])
    with sparklog.connect(lost.new_url) as cluster:
        state = cluster.connection.follower.state
        assert state.stores[StoreId("a")].fenced
        assert {each.replication.leader for each in state.partitions.values()} <= {StoreId("b"), StoreId("c")}
        check(state)
        append(cluster, "2")
        add_store(cluster.connection, StoreId("a"), lost.stores["a"])
        assert Path(lost.stores["a"], "OWNER").exists()
        append(cluster, "3")
        assert values(cluster) == ["1", "2", "3"]


def test_stores_that_have_moved_are_registered_at_their_new_addresses(lost: LostCluster) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    for store in STORES:
        Path(lost.stores[store]).rename(lost.folder / f"{store}-moved")
        lost.stores[store] = str(lost.folder / f"{store}-moved")
    lost.restore("a", "b", "c")
    with sparklog.connect(lost.new_url) as cluster:
        assert values(cluster) == ["1"]


# M: F-08
def test_of_two_restores_at_once_to_different_places_one_is_refused(
    lost: LostCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is as far as it can be without having put a mark, when this one runs."""
    lost.append("1")
    shutil.rmtree(lost.url)
    other = str(lost.folder / "other-place")
    put_owner, first = restore_module.put_owner, []

    def late(*args: Any) -> object:
        if not first:
            first.append(None)
            restore_cluster(other, {"b": lost.stores["b"]})
        return put_owner(*args)

    with monkeypatch.context() as patch:
        patch.setattr(restore_module, "put_owner", late)
        with pytest.raises(Conflict, match="is marked by a restore of cluster"):
            lost.restore("a")
    assert not Path(lost.new_url, "meta").exists()
    with pytest.raises(Conflict, match=f"is not lost: an earlier restore has begun it at file://{other}"):
        restore_cluster(lost.new_url, {"c": lost.stores["c"]})
    with sparklog.connect(other) as cluster:
        assert values(cluster) == ["1"]


class Killed(BaseException):
    """The process ends here."""


STEPS = ("check_store", "put_owner", "encode_entry", "put_chunk", "put", "snapshot_key")


# M: F-08
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("calls", [1, 2])
def test_a_restore_that_was_killed_can_be_run_again_or_elsewhere_is_refused(
    lost: LostCluster, step: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost.append("1", "2")
    shutil.rmtree(lost.url)
    left = [calls]

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            outcome = call(*args, **kwargs)
            if left[0] == 0:
                raise Killed
            return outcome

        return wrapper

    with monkeypatch.context() as patch:
        patch.setattr(restore_module, step, deadly(getattr(restore_module, step)))
        if step in ("put_owner", "put_chunk", "put") or calls == 1:
            with pytest.raises(Killed):
                lost.restore("a")
    again = lost.restore("a")
    with sparklog.connect(lost.new_url) as cluster:
        assert cluster.connection.follower.state.chain_id == again.chain_id
        died_before_it_had_begun = step in ("put_owner", "put_chunk") or (step, calls) == ("encode_entry", 1)
        ancestors = cluster.connection.follower.state.ancestors
        assert len(ancestors) == 1 + died_before_it_had_begun, "that run is given up, and its chain with it"
        assert values(cluster) == ["1", "2"]
        append(cluster, "3")
    assert lost.restore("a").chain_id == again.chain_id  # harmless once more
    with sparklog.connect(lost.new_url) as cluster:
        assert values(cluster) == ["1", "2", "3"]


def test_a_restore_that_began_elsewhere_is_named(lost: LostCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    lost.append("1")
    shutil.rmtree(lost.url)
    with monkeypatch.context() as patch:

        def killed(*args: object) -> None:
            raise Killed

        patch.setattr(restore_module, "encode_entry", killed)
        with pytest.raises(Killed):
            lost.restore("a")
    begun, lost.new_url = lost.new_url, str(lost.folder / "other-place")
    with pytest.raises(Conflict, match=f"finish that restore, with --cluster file://{begun}"):
        lost.restore("a")


def test_jobs_of_the_lost_chain_delete_nothing_once_it_is_restored(lost: LostCluster) -> None:
    lost.append("1", "2")
    topic = "t"
    with sparklog.connect(lost.url) as cluster:
        cluster.create_topic("kept")
        cluster.delete_topic(topic)
    away = lost.lose()
    lost.restore("a")
    away.rename(lost.url)
    objects = sorted(path for store in STORES for path in Path(lost.stores[store]).glob("append/*/*"))
    with sparklog.connect(lost.url) as cluster:
        state = cluster.connection.follower.state
        stores = cluster.connection.stores(state)
    retired = [
        ObjectToDelete(ObjectNumber(0), str(path.relative_to(lost.stores["a"])), (StoreId("a"),), 1)
        for path in objects
        if path.suffix == ".arrow" and path.is_relative_to(lost.stores["a"])
    ]
    deleted = delete_objects(retired, stores)
    assert retired
    assert (deleted.numbers, len(deleted.failed)) == ((), len(retired))
    assert "was restored as cluster" in deleted.failed[0].error
    upload_digits = Path(retired[0].key).parent.name
    search = OrphanSearch(StoreId("a"), f"append/{upload_digits}", EntryNumber(10**6), b"")
    with pytest.raises(InconsistentClusterId):
        search_orphans(search, stores.get(StoreId("a")), delete=True, check=partial(stores.check_owner, StoreId("a")))
    assert objects == sorted(path for store in STORES for path in Path(lost.stores[store]).glob("append/*/*"))
