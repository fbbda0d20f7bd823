"""The benchmarks of commits run, on a small scale."""

from __future__ import annotations

from pathlib import Path

from bench import commits, state_scale
from bench.soak import soak
from sparklog.chain.snapshot import snapshot
from sparklog.storage.local.store import LocalStore


def test_the_commit_path_is_measured_with_the_fsyncs_that_it_waits_for(tmp_path: Path) -> None:
    measured = commits._committed(commits._cluster_on(LocalStore(str(tmp_path / "log"))), callers=2, each=3)
    assert 3 <= measured.appends <= 6  # counted when the first caller is done
    assert len(measured.syncs_s) >= measured.entries > 0


def test_a_soak_reports_each_tenth_of_its_commits(tmp_path: Path) -> None:
    assert [tenth.commits for tenth in soak(tmp_path, commits=20)] == list(range(2, 21, 2))


def test_a_state_of_many_segments_is_planned_from_and_added_to() -> None:
    state = state_scale.large_state(20_000)
    snapshot.prepare(state, "0" * 64, {})
    assert state_scale.plan_ms(state, 20_000).median >= 0
    assert state_scale.add_ms(state, 20_000, appends=100) >= 0
    assert len(state_scale.replicated_figures(20_000)) == 2
