"""Commands whose stdout or stderr nobody reads, or which have none: what they do and how they end is the same."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import sparklog as library
from sparklog.cli.common_options import settings
from sparklog.cli.jobs.job_run import run_to_report
from sparklog.cli.main import run
from sparklog.core.commands import ReportJob
from tests.cli.conftest import Cli
from tests.host.left_pipe import left_pipe

LINE_BY_LINE = 1  # as stderr is buffered


def test_a_reader_who_left_does_not_hide_what_was_wrong(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = json.dumps({"failures": ["x" * 50_000]})
    with library.connect(sparklog.url) as cluster:
        for job in ("roll", "retention"):  # together more than a stream holds back
            cluster.submit(ReportJob(job, 0, 1000, 1, failed))
    for verb in (["job", "status"], ["cluster", "health"]):
        with left_pipe() as stream, monkeypatch.context() as patched:
            patched.setattr("sys.stdout", stream)
            assert run(["--cluster", sparklog.url, *verb, "--format", "json"]) == 5
    for words, code, debug in (
        (["topic", "describe", "gone"], 3, ""),
        (["topic", "describe", "gone"], 3, "1"),
        (["topic"], 2, ""),
    ):
        with left_pipe(LINE_BY_LINE) as stream, monkeypatch.context() as patched:
            patched.setattr("sys.stderr", stream)
            patched.setenv("SPARKLOG_DEBUG", debug)
            assert run(["--cluster", sparklog.url, *words]) == code


def test_a_job_that_failed_in_part_writes_its_report_though_stdout_has_no_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @dataclass
    class Failed:
        exit_code: int = 1

        def to_json(self) -> str:
            return "x" * 100_000

    monkeypatch.setattr(settings, "_given", {"--format": "json"})
    with left_pipe() as stream, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", stream)
        with pytest.raises(typer.Exit) as exit_:
            run_to_report(Failed, str(tmp_path / "report.json"))
    assert exit_.value.exit_code == 1
    assert (tmp_path / "report.json").read_text() == "x" * 100_000 + "\n"


def test_a_command_runs_without_standard_streams(sparklog: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert run(["--cluster", sparklog.url, "topic", "create", "t"]) == 0
    assert run(["--cluster", sparklog.url, "topic", "create", "t"]) == 4
    assert run(["--cluster", sparklog.url, "produce", "t"]) == 0
    for each in (sys.stdin, sys.stdout, sys.stderr):
        each.close()
