"""What people see of a job."""

from __future__ import annotations

import io
import sys

import pytest

from sparklog.maintenance.job_output import PROGRESS_EVERY_MS, ROWS_SHOWN, JobOutput
from sparklog.maintenance.job_report import DeletionResult, JobReport, PartitionResult, Work, WorkOutcome, total
from tests.host.left_pipe import left_pipe
from tests.kit.hand_clock import HandClock


def test_a_long_plan_is_cut_and_its_sums_are_of_all() -> None:
    said, clock = io.StringIO(), HandClock()
    rows = [PartitionResult(f"t-{each}", "t", each, "due", Work(1, 10, 1024, 3)) for each in range(ROWS_SHOWN + 5)]
    output = JobOutput(said, clock)
    output.plan("roll", "segments", rows, total(each.planned for each in rows), Work(2, 0, 2048, 5), ["a note"])
    text = said.getvalue()
    assert f"t-{ROWS_SHOWN - 1} " in text
    assert f"t-{ROWS_SHOWN} " not in text
    assert "and 5 more" in text
    assert "45.0 KiB" in text
    assert "2 objects, 2.0 KiB" in text
    assert "a note" in text


def test_a_failure_is_one_line_however_long_its_path_is() -> None:
    said, path = io.StringIO(), "/data/" + "[x] y " * 50 + "z"
    failed = PartitionResult("t-0", "t", 0, "due", Work(), outcome=WorkOutcome.FAILED, messages=(f"no room at {path}",))
    deletion = DeletionResult(messages=(f"cannot delete {path}",))
    report = JobReport("roll", "file:///c", False, 1, 2, 3, Work(), Work(), 1, (failed,), deletion, 0, (), 1)
    JobOutput(said, HandClock()).end(report)
    assert said.getvalue().splitlines()[:2] == [f"t-0: failed: no room at {path}", f"cannot delete {path}"]


def test_progress_is_one_line_in_some_seconds() -> None:
    said, clock = io.StringIO(), HandClock()
    output = JobOutput(said, clock)
    for done in range(3):
        output.progress("rolled", done, 10)
    assert said.getvalue() == ""
    clock.at_ms += PROGRESS_EVERY_MS
    for done in range(3, 6):
        output.progress("rolled", done, 10)
    assert said.getvalue() == "rolled: 3 of 10\n"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_job_goes_on_when_nobody_reads_its_output_any_more(monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    with left_pipe() as stream:
        monkeypatch.setattr("sys.stdout" if dry_run else "sys.stderr", stream)
        output = JobOutput(sys.stdout if dry_run else None, HandClock())
        output.plan("roll", "segments", [], Work(), Work(), ["a note"])
        output.end(JobReport("roll", "file:///c", dry_run, 1, 2, 3, Work(), Work(), 0, (), DeletionResult(), 0, (), 0))


def test_a_job_goes_on_in_a_process_without_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    JobOutput(None, HandClock()).say("nobody reads this")
    monkeypatch.undo()
    assert capsys.readouterr().out == ""
