"""Vacuum is killed at any change while it deletes old entries: nothing is lost, and nothing is left for ever."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparklog
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.maintenance.space.vacuum_job import run_vacuum
from sparklog.storage.keys import LOG
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import open_store
from tests.faults.crash_places import Place, objects_of
from tests.faults.interruptions import NEVER, killed_at
from tests.faults.killed_runs import KilledRuns
from tests.maintenance.maintained_log import MaintainedLog
from tests.maintenance.old_chain import BLOCK, STORES, counts, entries, grow, new_cluster, small_blocks

KILLS = 4


@pytest.fixture
def killer() -> Iterator[KilledRuns]:
    """Runs vacuum in processes of their own, whose environment names the place."""
    with KilledRuns("tests.faults.killed_deleter") as runs:
        yield runs


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a kill loses no pages


def is_trimmed(store: ObjectStore, end: int) -> bool:
    """Whether everything before the block `end` is gone, and all of it is marked."""
    left = entries(store)
    return left == list(range(end * BLOCK, left[-1] + 1)) and counts(store) == (3, end)


# M: C-05 S-09 (kills)
@pytest.mark.parametrize(
    "place",
    ["disk", *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.campaign]) for name in ("s3", "hdfs"))],
    indirect=True,
)
def test_a_vacuum_killed_anywhere_and_run_again_loses_nothing_and_leaves_nothing(
    place: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer: KilledRuns = request.getfixturevalue("killer")
    with new_cluster(place.new_url()) as cluster:
        filled = MaintainedLog(cluster)
        grow(filled)
        objects = objects_of(filled.url)
        n = filled.cluster.connection.follower.state.n
        ended = killer(filled.clock.at_ms, NEVER, filled.url)
        assert not ended.killed
        assert ended.notes > 3 * BLOCK
    in_the_middle = 0
    for step in killed_at(ended.notes, request, KILLS):
        with sparklog.connect(place.copied(objects)) as cluster:
            log = MaintainedLog(cluster, copy.copy(filled.clock), copy.deepcopy(filled.model))
            assert killer(log.clock.at_ms, step, log.url) == (True, step)
            in_the_middle += 0 < len(entries(log.store)) - (n + 1 - 3 * BLOCK) < 3 * BLOCK
            log.check()
            with sparklog.connect(log.url) as opened:
                assert opened.connection.follower.state.n == n
            log.append("t", 0, 1)
            assert run_vacuum(log.url, **log._common()).exit_code == 0  # type: ignore[arg-type]
            log.check()
            assert is_trimmed(log.store, 3)
            assert not place.unpublished(log.url)
    assert in_the_middle, "no run died between two entries"


# M: F-08 C-05 (kills)
def test_each_store_with_copies_is_enough_for_a_restore_wherever_vacuum_was_killed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    killer: KilledRuns = request.getfixturevalue("killer")
    with new_cluster(str(tmp_path / "full" / "meta"), copies=True) as cluster:
        filled = MaintainedLog(cluster)
        grow(filled)
    shutil.copytree(tmp_path / "full", tmp_path / "never")
    ended = killer(filled.clock.at_ms, NEVER, str(tmp_path / "never" / "meta"))
    assert ended.notes > 3 * 3 * BLOCK
    for step in killed_at(ended.notes, request, KILLS):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "full", folder)
        assert killer(filled.clock.at_ms, step, str(folder / "meta")) == (True, step)
        for store in STORES:
            _check_restore(folder, tmp_path / f"{step}-{store}", store, filled)
        with sparklog.connect(str(folder / "meta")) as cluster:
            log = MaintainedLog(cluster, copy.copy(filled.clock), copy.deepcopy(filled.model))
            assert log.vacuum().exit_code == 0
            log.check()
            places = [
                MirrorPlace(open_store(f"{log.url}-{store}"), cluster.connection.follower.state.chain_id)
                for store in STORES
            ]
            assert all(is_trimmed(place, 3) for place in (log.store, *places))
        for store in STORES:
            _check_restore(folder, tmp_path / f"{step}-{store}-again", store, filled)


def _check_restore(folder: Path, alone: Path, store: str, filled: MaintainedLog) -> None:
    """Restore from one store; the metadata and the copies on the others are lost."""
    shutil.copytree(folder, alone, ignore=shutil.ignore_patterns("meta"))
    for other in STORES:
        if other != store:
            shutil.rmtree(alone / f"meta-{other}" / "copies")
    restore_cluster(str(alone / "meta"), {each: str(alone / f"meta-{each}") for each in STORES})
    with sparklog.connect(str(alone / "meta")) as cluster:
        log = MaintainedLog(cluster, copy.copy(filled.clock), copy.deepcopy(filled.model))
        log.check()
        log.append("t", 0, 1)
        log.check()
        assert next(iter(log.store.list_keys(LOG)), None) is not None
