"""A writer is killed at any change of a store, and then the metadata is lost: each store with copies restores it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.core.state_invariants import check
from tests.faults.killed_runs import KilledRuns

STORES = "abc"
MOST_STEPS = 80
STRIDE = 8  # without --campaign


@pytest.fixture(scope="module")
def killer() -> Iterator[KilledRuns]:
    with KilledRuns("tests.faults.killed_copies") as runs:
        yield runs


# M: F-08 (kills)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_was_acknowledged_before_a_kill_is_restored_from_each_store_with_copies(
    tmp_path: Path, moment: str, killer: KilledRuns, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    outcomes: set[tuple[int, bool]] = set()
    stride = 1 if request.config.getoption("--campaign") else STRIDE
    for step in range(0 if moment == "before" else 1, MOST_STEPS, stride):
        folder = tmp_path / str(step)
        url = str(folder / "meta")
        stores = {store: f"../{store}" for store in STORES}
        init_cluster(url, stores=stores, config={"metadata.copies": 2})
        with sparklog.connect(url) as cluster:
            cluster.create_topic("t", replication_factor=3)
            cluster.append("t", pa.table({"value": ["first"]}))
        killed, acknowledged = killer(moment, step, url)
        shutil.rmtree(url)
        for store in "ab" if stride == 1 else "ab"[step // stride % 2]:
            alone = tmp_path / f"{step}-{store}"
            shutil.copytree(folder, alone)
            shutil.rmtree(alone / ("b" if store == "a" else "a") / "copies")  # only one store has copies
            outcomes.add((acknowledged, _check(alone, store, acknowledged)))
        shutil.rmtree(folder)
        if not killed:
            break
    assert not killed
    assert {(0, False), (1, True)} <= outcomes


def _check(folder: Path, store: str, acknowledged: int) -> bool:
    """Restore from one store, and check that nothing acknowledged is lost, and nothing is there twice."""
    url = str(folder / "meta")
    restore_cluster(url, {store: str(folder / store)})
    wanted = [b"first", b"killed"]
    with sparklog.connect(url) as cluster:
        rows = cluster.read("t", partition=0)
        values = rows["value"].to_pylist()
        assert rows["offset"].to_pylist() == list(range(len(values)))
        assert values == wanted[: len(values)]
        assert len(values) >= 1 + acknowledged
        cluster.append("t", pa.table({"value": ["next"]}))
        assert cluster.read("t", partition=0)["value"].to_pylist() == [*values, b"next"]
        check(cluster.connection.follower.state)
    shutil.rmtree(folder)
    return len(values) == len(wanted)
