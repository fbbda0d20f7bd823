"""Run a job from the command line: its report, and the message after Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

from sparklog.cli.settings import settings
from sparklog.client.failures import print_failure
from sparklog.host.streams import print_to

if TYPE_CHECKING:
    from sparklog.maintenance.report_file import Report

INTERRUPTED: Final = "interrupted: what was committed stays, the rest was not done; it can be run again"


def run_to_report(run: Callable[[], Report], report_file: str | None) -> None:
    """Run a job and write its report; `--format json` prints it. Raises typer.Exit if part of the job failed.

    Refuses a report file that cannot be written before the job starts.
    """
    from sparklog.maintenance.report_file import check_report_file, write_report

    check_report_file(report_file)
    try:
        report = run()
    except KeyboardInterrupt:
        print_failure(INTERRUPTED)
        raise
    if settings.json and report_file != "-":
        print_to(sys.stdout, report.to_json())
    write_report(report, report_file)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
