"""The common part of the `sparklog job` verbs: shared options, the run, its report, and the message after Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TextIO

import typer

from sparklog.cli.common_options import settings
from sparklog.client.error_line import print_failure
from sparklog.host.standard_streams import print_to

if TYPE_CHECKING:
    from sparklog.maintenance.job_report import JobReport
    from sparklog.maintenance.job_report_file import JsonReport

NOW = typer.Option(
    None,
    "--now",
    metavar="TIME",
    help="Compute ages as of this time instead of now: ISO 8601 with a zone, or ms since the epoch. Delays before "
    "deletions always follow the machine's clock.",
)
DRY_RUN = typer.Option(False, "--dry-run", help="Print the plan with its bytes and requests; change nothing.")
REPORT = typer.Option(None, "--report", metavar="FILE", help="Write the report to this file, as JSON (- is stdout).")

INTERRUPTED: Final = "interrupted: committed work stays, the rest was not done; run it again to continue"


def run_on_spark(
    run: Callable[..., JobReport],
    session: Callable[[], Any],
    now: str | None,
    dry_run: bool,
    report_file: str | None,
) -> None:
    """Run a maintenance job with its tasks on Spark, and write its report.

    `run` is the function of the job, such as `run_roll`. `session` starts Spark; it is called once the job has tasks,
    or at once if YARN runs this driver. `now` is the option --now, `report_file` is --report. A dry run prints its plan
    to stdout, or to stderr if JSON goes to stdout. Raises InvalidOption for a malformed `now`, InvalidInput without a
    Spark that sparklog supports, and the errors of the job and of `run_to_report`.
    """

    def run_here() -> JobReport:
        from sparklog.options.starting_offsets import parse_timestamp_us
        from sparklog.spark import check_spark
        from sparklog.spark.job_session import start_if_yarn_waits
        from sparklog.spark.maintain.spark_tasks import SparkTasks

        if not dry_run:
            check_spark()
        start_if_yarn_waits(session)

        return run(
            cluster_url=settings.cluster(),
            now_ms=None if now is None else parse_timestamp_us("--now", now) // 1000,
            dry_run=dry_run,
            tasks=SparkTasks(session),
            console=plan_stream(dry_run=dry_run, report_file=report_file),
        )

    run_to_report(run_here, report_file)


def plan_stream(*, dry_run: bool, report_file: str | None) -> TextIO | None:
    """Return stdout for the plan of a dry run, unless JSON goes there; None in all other cases, for stderr."""
    return sys.stdout if dry_run and not settings.json and report_file != "-" else None


def run_to_report(run: Callable[[], JsonReport], report_file: str | None) -> None:
    """Run a job and write its report; with `--format json`, also print it. Raises typer.Exit if part of the job failed.

    Raises InvalidInput before the job starts if the report file can't be written.
    """
    from sparklog.maintenance.job_report_file import check_report_file, write_report

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
