"""Vacuum, run for a chain that is taken for lost meanwhile and restored: the new chain decides what goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.core.types import StoreId
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.space.vacuum_job import search_store
from sparklog.maintenance.task_runner import LocalTasks
from tests.maintenance.maintained_log import DAY_MS, MaintainedLog
from tests.maintenance.space.test_vacuum_job import upload

STORES = ("a", "b")


# M: F-08
def test_a_vacuum_that_a_restore_overtakes_deletes_no_orphan_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked whether the entries by which these are orphans have copies, and is held up before it deletes.

    The restore need not know of these entries: it may have been told to go on without the stores that have the copies.
    """
    monkeypatch.setattr("os.fsync", lambda fd: None)
    url, away = str(tmp_path / "meta"), tmp_path / "away"
    stores = {store: str(tmp_path / store) for store in STORES}
    init_cluster(url, stores=stores, config={"metadata.copies": 1})

    class HeldUp(LocalTasks):
        """Tasks that come late when they are to delete orphans."""

        def run(self, function: Callable[[bytes], bytes], payloads: Sequence[bytes]) -> list[bytes]:
            deletes = function is search_store and msgspec.msgpack.decode(payloads[0])["delete"]
            if deletes and not (tmp_path / "new").exists():
                Path(url).rename(away)
                restore_cluster(str(tmp_path / "new"), stores)
                away.rename(url)
            return super().run(function, payloads)

    with sparklog.connect(url) as cluster:
        log = MaintainedLog(cluster)
        cluster.create_topic("t", assignment=[["a", "b"]])
        log.model = {("t", 0): []}
        upload(log, "t")
        log.append("t", 0, 1)
        log.clock.at_ms += 8 * DAY_MS
        log.append("t", 0, 1)
        stored = {store: objects(log, store) for store in STORES}
        report = log.vacuum(tasks=HeldUp())
        orphans = [row for row in report.partitions if ":append/" in row.place]
        assert [row.outcome for row in orphans] == [WorkOutcome.FAILED] * len(STORES)
        assert all("was restored as cluster" in row.messages[0] for row in orphans)
        assert {store: objects(log, store) for store in STORES} == stored


def objects(log: MaintainedLog, store: str) -> list[str]:
    """The keys of the objects of appends on a store, and of their indexes."""
    state = log.cluster.connection.newest_state()
    opened = log.cluster.connection.stores(state).get(StoreId(store))
    return [each.key for each in opened.list_keys("append/")]
