"""`sparklog job …`: the maintenance jobs on a local Spark, the same code as `jobs/NAME.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from sparklog.cli.output import connect, settings, show_rows

if TYPE_CHECKING:
    from sparklog.spark.job_report import JobReport

app = typer.Typer(help="Run a maintenance job here, or see how the last runs ended.", no_args_is_help=True)

TOPICS = typer.Option([], "--topic", metavar="T", help="Only this topic; may be given several times. Default: all.")
NOW = typer.Option("", "--now", metavar="TIME", help="Count ages from this time: ms, or ISO 8601 with a zone.")
DRY_RUN = typer.Option(False, "--dry-run", help="Print the plan, change nothing.")
REPORT = typer.Option("", "--report", metavar="FILE", help="Write the report there, as JSON.")


@app.command()
def roll(
    topic: list[str] = TOPICS,
    now: str = NOW,
    everything: bool = typer.Option(False, "--all", help="Seal everything, also what is neither full nor old."),
    dry_run: bool = DRY_RUN,
    report: str = REPORT,
) -> None:
    """Rewrite what writers appended into sealed segments, by segment.bytes and segment.ms."""
    from sparklog.spark.roll_job import run_roll

    _run("roll", lambda **given: run_roll(everything=everything, **given), topic, now, dry_run, report)


@app.command()
def retention(topic: list[str] = TOPICS, now: str = NOW, dry_run: bool = DRY_RUN, report: str = REPORT) -> None:
    """Forget whole segments by retention.ms and retention.bytes, then delete objects whose delay has passed."""
    from sparklog.spark.retention_job import run_retention

    _run("retention", run_retention, topic, now, dry_run, report)


@app.command()
def vacuum(topic: list[str] = TOPICS, now: str = NOW, dry_run: bool = DRY_RUN, report: str = REPORT) -> None:
    """Delete uploads that no write ever named and none can name any more."""
    from sparklog.spark.vacuum_job import run_vacuum

    _run("vacuum", run_vacuum, topic, now, dry_run, report)


@app.command()
def status() -> None:
    """How each job ended last. Exit 1 if one failed."""
    with connect() as cluster, cluster.connection.follower.current() as state:
        rows = [
            {
                "job": each.job,
                "started_ms": each.started_ms,
                "ended_ms": each.ended_ms,
                "failed_partitions": each.failed_partitions,
                **({"report": each.report} if settings.json else {}),
            }
            for each in state.jobs.values()
        ]
    show_rows(rows, ("job", "started_ms", "ended_ms", "failed_partitions"), empty="no job ran yet")
    if any(row["failed_partitions"] for row in rows):
        raise typer.Exit(1)


def _run(
    name: str, run: Callable[..., JobReport], topics: list[str], now: str, dry_run: bool, report_file: str
) -> None:
    from sparklog.spark.job_arguments import job_session, parse_now_ms, write_report

    report = run(
        cluster_url=settings.cluster(),
        topics=topics or None,
        now_ms=parse_now_ms(now) if now else None,
        dry_run=dry_run,
        spark=lambda: job_session(name),
    )
    if settings.json:
        print(report.to_json())
    if report_file:
        write_report(report, report_file)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
