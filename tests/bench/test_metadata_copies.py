"""The benchmarks of copies and of restores run, on a small scale."""

from __future__ import annotations

from pathlib import Path

import sparklog
from bench import metadata_copies, restores
from bench.lost_chains import chain_of_entries, chain_of_segments, linked
from sparklog.client.restoring.restore_cluster import restore_cluster
from sparklog.core.state_invariants import check


def test_a_lost_chain_of_many_segments_is_restored_with_all_of_them(tmp_path: Path) -> None:
    chain_of_segments(tmp_path / "made", 1_000, 10, 5)
    linked(tmp_path / "made", tmp_path)
    restore_cluster(str(tmp_path / "new"), {store: str(tmp_path / store) for store in "abc"})
    with sparklog.connect(str(tmp_path / "new")) as cluster:
        state = cluster.connection.follower.state
        assert len(state.slices) == 1_000 + 6
        check(state)


def test_a_lost_chain_of_many_entries_has_a_snapshot_only_once_it_is_asked_for(tmp_path: Path) -> None:
    with chain_of_entries(tmp_path, 30) as snapshot_and:
        assert not list(tmp_path.glob("?/copies/*/snapshot/*"))
        snapshot_and(5)
    assert list(tmp_path.glob("?/copies/*/snapshot/*"))
    what, figure = restores._on_disk(tmp_path, "35 entries", rounds=1)
    assert what == "restore of 35 entries; disk"
    assert " GET, " in figure


def test_an_append_with_copies_is_measured_beside_one_without(tmp_path: Path) -> None:
    found = metadata_copies._compared("disk", str(tmp_path), 1, {})
    assert [each.what for each in found if each.what.endswith("1 thread")] == [
        f"append, metadata.copies={number}, disk, 1 thread" for number in (1, 2)
    ]
    assert all(each.ratio for each in found)
