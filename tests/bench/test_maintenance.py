"""The benchmarks of the maintenance jobs, on logs that are small."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import old_entries, plans, report, retention, verify
from bench.paired import Comparison, Spread
from bench.state_scale import THREE, large_state
from tests.chain.chain_kit import small_blocks

ONE = Spread.of([1.0])


def test_each_job_plans_over_a_cluster_that_is_a_snapshot(tmp_path: Path) -> None:
    config = {"cleanup.policy": "compact,delete"}
    plans.write_cluster(tmp_path, large_state(2_000, THREE, config=config))
    for job in plans.JOBS:
        assert " MiB at most " in plans.planned(job, str(tmp_path))


def test_retention_is_planned_and_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ROUNDS", 1)
    assert len(retention.retention(tmp_path, 20)) == 3
    assert list(tmp_path.iterdir()) == []


def test_old_entries_are_deleted_beside_a_plain_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_blocks(monkeypatch)
    (found,) = old_entries.old_entries(tmp_path, 2, 1)
    assert found.what == "delete 2 blocks of 8 old entries, local disk"
    assert list(tmp_path.iterdir()) == []


def test_verify_is_measured_beside_plain_reads(tmp_path: Path) -> None:
    (found,) = verify.verify_speed(tmp_path, 1_000)
    assert found.goal == ">= 0.3"
    assert list(tmp_path.iterdir()) == []


def test_the_section_is_one_of_the_page_and_its_comparisons_are_read_back() -> None:
    found = Comparison("roll", "Spark", ">= 1", ONE, ONE, ONE, ONE)
    section = report.maintenance_section("a machine", [found], [("plans", "1 s")])
    page = report.page("a machine", [], [], "")
    for _ in range(2):
        page = report.with_section(page, section)
    assert page.count(report.MAINTENANCE) == 1
    assert [line.what for line in report.lines_of(page)] == ["roll"]
    assert "| plans | 1 s |" in report.sections_of(page)
