"""Where a report can be written, and what is said if it can't."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.core.errors import InvalidInput, Landed, SparklogError
from sparklog.maintenance.job_report import DeletionResult, JobReport, Work
from sparklog.maintenance.job_report_file import check_report_file, check_report_is_no_source, write_report

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


# ---- beside what produce reads ----------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """in/a.json, in/day1/, and hard, a link to the file."""
    (tmp_path / "in" / "day1").mkdir(parents=True)
    (tmp_path / "in" / "a.json").write_text("{}")
    (tmp_path / "hard").hardlink_to(tmp_path / "in" / "a.json")
    (tmp_path / "soft").symlink_to(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("report", "source"),
    [
        ("in/a.json", "in/a.json"),
        ("./in/../in/a.json", "{place}/in/a.json"),
        ("hard", "file://{place}/in/a.json"),
        ("in/report.json", "in"),
        ("in/report.json", "soft"),
        ("soft/report.json", "file:{place}/in/"),
        ("in/day1/report.json", "in"),
        ("in/report.json", "."),
        ("in/report.json", "in/*.json"),
        ("in/day1/report.json", "in/day?"),
        ("in/report.json", "{{out,in}}/*.json"),
    ],
)
def test_a_report_that_would_be_read_or_replace_what_is_read_is_refused(place: Path, report: str, source: str) -> None:
    with pytest.raises(InvalidInput, match=r"--report: wanted a file outside the source, found .*; nothing was be"):
        check_report_is_no_source(report, source.format(place=place))


@pytest.mark.parametrize(
    ("report", "source"),
    [
        (None, "in"),
        ("-", "."),
        ("report.json", None),
        ("in/report.json", "in/a.json"),
        ("report.json", "in"),
        ("in/_report.json", "in"),
        ("in/.reports/r.json", "in"),
        ("in/report.txt", "in/*.json"),
        ("in/report.json", "s3a://bucket/in"),
    ],
)
def test_any_other_place_will_do(place: Path, report: str | None, source: str | None) -> None:
    check_report_is_no_source(report, source)
