"""Vacuum deletes old entries and snapshots, of the chain itself and of its copies, and nothing that anybody needs."""

from __future__ import annotations

import copy
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import sparklog
from sparklog.chain.follow.follower import Follower
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.mirrored_chain import MirroredChain
from sparklog.chain.owner import Owner, put_owner
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.core.errors import KeyNotFound, StoreUnavailable
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.storage.keys import entry_key, mirror_key, void_key
from sparklog.storage.memory import MemoryStore
from sparklog.storage.open_store import open_store
from tests.core.state_contents import contents
from tests.maintenance.maintained_log import MaintainedLog
from tests.maintenance.old_chain import BLOCK, STORES, counts, entries, grow, new_cluster, small_blocks


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[MaintainedLog]:
    small_blocks(monkeypatch)
    with new_cluster(f"memory://{uuid.uuid4().hex}") as cluster:
        yield MaintainedLog(cluster)


def test_old_entries_go_a_dry_run_shows_them_and_one_of_topics_leaves_them(log: MaintainedLog) -> None:
    grow(log)
    before, n = entries(log.store), log.cluster.connection.follower.state.n
    assert before == list(range(n + 1))
    planned = log.vacuum(dry_run=True)
    row = planned.partitions[-1]
    assert (row.place, row.planned.objects) == ("metadata:entries", 3 * BLOCK)
    assert row.reason == "entries before 24: FLOOR and the snapshots that stay have passed them"
    assert row.planned.size_bytes == sum(log.store.size(entry_key(at)) for at in range(3 * BLOCK))
    log.vacuum(topics={"t"})
    assert entries(log.store)[0] == 0
    report = log.vacuum()
    assert report.exit_code == 0
    assert report.partitions[-1].done == row.planned
    assert report.partitions[-1].is_metadata
    assert entries(log.store)[0] == 3 * BLOCK
    assert counts(log.store) == (3, 3)
    assert log.vacuum().partitions == ()
    log.check()
    with sparklog.connect(log.url) as opened:
        assert contents(opened.connection.follower.state) == contents(log.cluster.connection.follower.state)
    log.append("t", 0, 1)
    log.check()


def test_a_run_that_fails_says_so_and_the_next_one_goes_on(log: MaintainedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(log)
    delete_many = MemoryStore.delete_many

    def failing(store: MemoryStore, keys: list[str]) -> None:
        if entry_key(9) in keys:
            delete_many(store, keys[:2])
            raise StoreUnavailable("planned")
        delete_many(store, keys)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "delete_many", failing)
        report = log.vacuum()
    row = report.partitions[-1]
    assert (report.exit_code, row.outcome, row.done.objects) == (1, WorkOutcome.FAILED, BLOCK)
    assert row.messages == ("KAFKA_STORAGE_ERROR: planned",)
    assert entries(log.store)[0] == BLOCK + 2
    again = log.vacuum().partitions[-1]
    assert (again.outcome, again.done.objects) == (WorkOutcome.DONE, 2 * BLOCK - 2)
    log.check()


def test_orphans_are_counted_without_the_metadata(log: MaintainedLog) -> None:
    grow(log)
    log.vacuum()
    state = log.cluster.connection.newest_state()
    report = msgspec.json.decode(state.jobs["vacuum"].report)
    assert report["planned"]["objects"] == report["metadata"]["objects"] > 3 * BLOCK
    assert report["done"] == report["metadata_done"]


# ---- copies -----------------------------------------------------------------------------------------


class Copied:
    """A cluster on disk whose metadata has copies on two stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = str(folder / "meta")
        self.cluster = new_cluster(self.url, copies=True)
        self.log = MaintainedLog(self.cluster)

    @property
    def chain_id(self) -> str:
        return self.cluster.connection.follower.state.chain_id

    def place(self, store: str) -> MirrorPlace:
        return MirrorPlace(open_store(f"{self.url}-{store}"), self.chain_id)

    def restored(self, store: str) -> MaintainedLog:
        """The cluster that this store alone gives, in a folder of its own. Everything else is lost."""
        alone = self.folder / f"from-{store}-{uuid.uuid4().hex}"
        alone.mkdir()
        for each in STORES:
            shutil.copytree(f"{self.url}-{each}", alone / f"meta-{each}")
            if each != store:
                shutil.rmtree(alone / f"meta-{each}" / "copies")
        restore_cluster(str(alone / "meta"), {each: str(alone / f"meta-{each}") for each in STORES})
        log = MaintainedLog(sparklog.connect(str(alone / "meta")), self.log.clock, copy.deepcopy(self.log.model))
        log.check()
        return log


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copied]:
    monkeypatch.setattr("os.fsync", lambda fd: None)
    small_blocks(monkeypatch)
    copied = Copied(tmp_path)
    yield copied
    copied.cluster.close()


def test_copies_are_trimmed_too_and_each_store_alone_is_enough_for_a_restore(copied: Copied) -> None:  # M: F-08
    grow(copied.log)
    planned = copied.log.vacuum(dry_run=True)
    assert [row.place for row in planned.partitions] == [
        f"{place}:{kind}" for place in ("metadata", "a:copies", "b:copies") for kind in ("old", "entries")
    ]
    report = copied.log.vacuum()
    assert (report.exit_code, report.done.objects) == (0, planned.planned.objects)
    for store in STORES:
        place = copied.place(store)
        assert entries(place)[0] == 3 * BLOCK
        assert counts(place) == (3, 3)
        log = copied.restored(store)
        log.append("t", 0, 1)
        log.check()
        log.cluster.close()
    assert copied.log.vacuum().partitions == ()


def test_a_store_that_missed_snapshots_keeps_the_entries_that_it_needs(copied: Copied) -> None:
    """Its own snapshots decide, not those of the chain."""
    grow(copied.log)
    place = copied.place("b")
    for stored in list(place.list_keys("meta/snapshot/"))[:2]:
        place.delete(stored.key)
    assert copied.log.vacuum().exit_code == 0
    assert (entries(place)[0], counts(place)) == (0, (2, 0))
    assert entries(copied.place("a"))[0] == 3 * BLOCK
    copied.restored("b").cluster.close()


def test_a_store_that_does_not_answer_holds_up_no_other(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(copied.log)
    at = MirrorPlace.list_keys

    def refusing(place: MirrorPlace, prefix: str) -> object:
        if place.url.startswith(open_store(f"{copied.url}-a").url):
            raise StoreUnavailable("planned")
        return at(place, prefix)

    with monkeypatch.context() as patch:
        patch.setattr(MirrorPlace, "list_keys", refusing)
        report = copied.log.vacuum()
    failed = [(row.place, row.messages) for row in report.partitions if row.outcome is WorkOutcome.FAILED]
    assert failed == [("a:copies", ("KAFKA_STORAGE_ERROR: planned",))]
    assert (entries(copied.place("a"))[0], entries(copied.place("b"))[0]) == (0, 3 * BLOCK)


def test_nothing_of_the_lost_chain_is_deleted_where_a_restore_has_begun(copied: Copied) -> None:
    """A vacuum of the old cluster may still run while its copies are read."""
    grow(copied.log)
    before = {stored.key for stored in copied.place("a").list_keys("meta/")}
    owner = Owner(chain_id="d" * 32, previous=copied.chain_id, cluster="file:///new")
    put_owner(open_store(f"{copied.url}-a"), 1, owner)
    report = copied.log.vacuum()
    failed = {row.place for row in report.partitions if row.outcome is WorkOutcome.FAILED}
    assert "a:copies" in failed
    assert "metadata:entries" not in failed
    assert {stored.key for stored in copied.place("a").list_keys("meta/")} >= before


def test_a_store_that_is_behind_takes_over_copies_again_after_others_were_trimmed(copied: Copied) -> None:
    log = copied.log
    grow(log)
    shutil.rmtree(Path(f"{copied.url}-b", "copies"))
    log.vacuum()
    with sparklog.connect(copied.url) as other:  # another process: it does not know what b had
        other.append("t", pa.table({"value": [b"next"], "partition": pa.array([0], pa.int32())}))
    log.model["t", 0].append(b"next")
    for store in STORES:
        copied.restored(store).cluster.close()


def test_a_block_counts_as_deleted_in_a_restore_only_if_no_store_has_it(copied: Copied) -> None:
    grow(copied.log)
    copied.log.vacuum()
    n = copied.cluster.connection.follower.catch_up().n
    a, b = (open_store(f"{copied.url}-{store}") for store in STORES)
    both = MirroredChain([a, b], copied.chain_id)
    assert both.get(void_key(0))
    copied.place("b").delete(void_key(0))
    with pytest.raises(KeyNotFound):
        both.get(void_key(0))
    for stored in list(copied.place("a").list_keys("meta/snapshot/")):
        a.delete(mirror_key(copied.chain_id, stored.key))
    assert Follower(both).catch_up().n == n
