"""Restores beside a lost chain that is alive."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import sparklog
from sparklog.core.errors import (
    InconsistentClusterId,
)
from sparklog.storage.local.store import LocalStore
from tests.client.restoring.lost_cluster import LostCluster, append, values


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


def test_a_store_that_was_left_out_stops_the_lost_chain_once_it_is_added(tmp_path: Path) -> None:
    """A process of the lost chain reaches that store only, and puts one copy there after the other."""
    lost = LostCluster(tmp_path, copies=1)
    lost.append("1")
    running = sparklog.connect(lost.url)
    copies = running.connection.follower.mirrors
    assert copies is not None
    copies._is_elsewhere = lambda store: store.store == "c"
    lost.restore("a", without=["c"])
    for value in ("2", "3"):
        append(running, value)
    lost.add("c", lost.new_url)
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
    tmp_path: Path, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of the metadata was emptied. Writers go on there, as in a bucket, and who lags finds free slots."""
    monkeypatch.setattr(LocalStore, "keep_to", lambda store, folder, newest: None)
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
