"""Where a report can be written, and what is said if it can't."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.core.errors import Landed, SparklogError
from sparklog.maintenance.job_report import DeletionResult, JobReport, Work
from sparklog.maintenance.job_report_file import check_report_file, write_report

EMPTY_REPORT = JobReport("roll", "file:///c", False, 1, 2, 3, Work(), Work(), 0, (), DeletionResult(), 0, (), 0)


def test_looking_whether_a_report_can_be_written_leaves_everything_as_it_was(tmp_path: Path) -> None:
    there, link = tmp_path / "file", tmp_path / "link"
    there.write_text("old")
    link.symlink_to(there)
    before = sorted(tmp_path.iterdir())
    for each in (there, link, tmp_path / "new.json"):
        check_report_file(str(each))
    assert (sorted(tmp_path.iterdir()), there.read_text()) == (before, "old")


def test_a_report_that_fails_after_the_job_says_that_the_job_landed(tmp_path: Path) -> None:
    with pytest.raises(SparklogError) as raised:
        write_report(EMPTY_REPORT, str(tmp_path))
    assert (raised.value.exit_code, raised.value.landed) == (1, Landed.YES)
    assert "the job ran, and its changes stay" in raised.value.message
