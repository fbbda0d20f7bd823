"""`sparklog job …`: run maintenance jobs on a local Spark. `spark-submit jobs/NAME.py …` runs the same verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.common_options import settings
from sparklog.cli.jobs import job_mirror
from sparklog.cli.jobs.job_materialize import EPILOG, materialize
from sparklog.cli.jobs.job_run import DRY_RUN, NOW, REPORT, run_on_spark
from sparklog.cli.jobs.job_runner import JOB_COMMAND
from sparklog.cli.output import connect, ending, print_warning, show_rows
from sparklog.core.errors import SparklogError

if TYPE_CHECKING:
    from sparklog.core.records import JobRan
    from sparklog.maintenance.job_report import JobReport

app = typer.Typer(help="Run maintenance jobs here, or show their last runs.", no_args_is_help=True)

TOPICS = typer.Option(
    [], "--topic", "-t", metavar="T", help="Only this topic; may be given several times. Default: all."
)
STORES = typer.Option(
    [], "--store", metavar="ID", help="Only objects on this store; may be given several times. Default: all."
)


@app.command(epilog=ending("sparklog job roll --dry-run", "sparklog job roll --topic orders --all --report roll.json"))
def roll(
    topic: list[str] = TOPICS,
    now: str | None = NOW,
    everything: bool = typer.Option(False, "--all", help="Seal everything, even if it is neither full nor old."),
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Rewrite append objects into sealed segments. segment.bytes and segment.ms decide which objects are due."""
    from sparklog.maintenance.rewrite.roll_job import run_roll

    _run("roll", lambda **given: run_roll(everything=everything, **given), topic, now, dry_run, report)


@app.command(
    epilog=ending("sparklog job compaction --dry-run", "sparklog job compaction --topic prices --all --report c.json")
)
def compaction(
    topic: list[str] = TOPICS,
    now: str | None = NOW,
    everything: bool = typer.Option(False, "--all", help="Compact all sealed segments, even if few are new."),
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Keep only the last record of each key, in topics with cleanup.policy=compact.

    Only sealed segments are compacted, so run roll first. min.cleanable.dirty.ratio, min.compaction.lag.ms and
    max.compaction.lag.ms decide which partitions are due. A tombstone stays for delete.retention.ms after the first run
    that reached it; the next run removes it.
    """
    from sparklog.maintenance.rewrite.compaction_job import run_compaction

    def run(**given: Any) -> JobReport:
        from sparklog.spark.job_session import job_session
        from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle

        shuffle = SparkKeyShuffle(lambda: job_session("compaction"))
        return run_compaction(shuffle=shuffle, everything=everything, **given)

    _run("compaction", run, topic, now, dry_run, report)


@app.command(epilog=ending("sparklog job retention --dry-run", "sparklog job retention --now 2026-12-01T00:00:00Z"))
def retention(
    topic: list[str] = TOPICS, now: str | None = NOW, dry_run: bool = DRY_RUN, report: str | None = REPORT
) -> None:
    """Drop old segments from the log, and delete retired objects.

    Whole slices are dropped, as retention.ms and retention.bytes demand. Objects that this or another job has retired
    are deleted once their delay (file.delete.delay.ms) has passed.
    """
    from sparklog.maintenance.space.retention_job import run_retention

    _run("retention", run_retention, topic, now, dry_run, report)


@app.command(epilog=ending("sparklog job vacuum --dry-run"))
def vacuum(
    topic: list[str] = TOPICS, now: str | None = NOW, dry_run: bool = DRY_RUN, report: str | None = REPORT
) -> None:
    """Delete uploads that no write can commit any more, and old entries and snapshots of the metadata.

    All of these are kept for a little longer than floor.delay.ms (default: seven days). With --topic, only sealed
    segments of these topics are deleted, because the name of an append object does not say its topic.
    """
    from sparklog.maintenance.space.vacuum_job import run_vacuum

    _run("vacuum", run_vacuum, topic, now, dry_run, report)


@app.command(
    epilog=ending("sparklog job replication --dry-run", "sparklog job replication --store zone-b --topic orders")
)
def replication(
    topic: list[str] = TOPICS,
    store: list[str] = typer.Option(
        [], "--store", metavar="ID", help="Only replicas on this store; may be given several times. Default: all."
    ),
    now: str | None = NOW,
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Copy the records that replicas lack to their stores, in many tasks at once, and commit the new LEOs.

    Agents do the same work in smaller steps. This job may run while agents run.
    """
    from sparklog.maintenance.replication_job import run_replication

    _run("replication", lambda **given: run_replication(stores=store, **given), topic, now, dry_run, report)


@app.command(epilog=ending("sparklog job verify --share 7", "sparklog job verify --topic orders --report verify.json"))
def verify(
    topic: list[str] = TOPICS,
    store: list[str] = STORES,
    share: int = typer.Option(
        1,
        "--share",
        metavar="N",
        min=1,
        help="Read only one of N parts of the objects, a different one each day: N daily runs read everything.",
    ),
    now: str | None = NOW,
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Compare all stored objects with the chain, byte for byte. Repairs nothing.

    Without --topic and --store, also verify the metadata chain and its copies. Exit 1 if anything differs or could not
    be read. The report lists each difference with the offsets that it affects and with advice.
    """
    from sparklog.maintenance.verify.verify_job import run_verify

    _run("verify", lambda **given: run_verify(stores=store, share=share, **given), topic, now, dry_run, report)


@app.command(
    epilog=ending(
        "sparklog job recovery --dry-run", "sparklog job recovery --full --store zone-b --report recovery.json"
    )
)
def recovery(
    topic: list[str] = TOPICS,
    store: list[str] = STORES,
    full: bool = typer.Option(False, "--full", help="Read all objects, including those below the recovery point."),
    accept_loss: bool = typer.Option(
        False,
        "--accept-loss",
        help="Give up records that no store can provide any more: they become a gap, where reads fail with DATA_LOSS.",
    ),
    now: str | None = NOW,
    dry_run: bool = DRY_RUN,
    report: str | None = REPORT,
) -> None:
    """Read the objects stored since the last recovery, and verify every checksum.

    Damaged objects are repaired from other stores. Objects that can't be repaired are reported by name and never
    served.
    """
    from sparklog.maintenance.verify.recovery_job import run_recovery

    _run(
        "recovery",
        lambda **given: run_recovery(stores=store, full=full, accept_loss=accept_loss, **given),
        topic,
        now,
        dry_run,
        report,
    )


app.command(epilog=EPILOG)(materialize)
app.command(epilog=job_mirror.EPILOG)(job_mirror.mirror)


@app.command(
    "run-all",
    epilog=ending(
        "sparklog job run-all", "sparklog job run-all --every 300", "sparklog job run-all --every 60 --job replication"
    ),
)
def run_all(
    every: int | None = typer.Option(
        None,
        "--every",
        metavar="SECONDS",
        min=1,
        help="Repeat the jobs at this interval, until SIGTERM or Ctrl-C. Vacuum still runs every vacuum.interval.ms, "
        "unless named by --job.",
    ),
    job: list[str] = typer.Option(
        [],
        "--job",
        metavar="NAME",
        help="Only this job; may be given several times. Default: all jobs that coordinators schedule.",
    ),
    job_command: str | None = JOB_COMMAND,
) -> None:
    """Run the jobs of a cluster that has no coordinator: once, or at intervals with --every.

    Jobs run one after the other, roll first. A job that fails does not stop the others. Each job runs in its own
    process; only compaction starts a local Spark, and only if something is due. Exit 1 if the last run of a job failed.
    """
    from sparklog.cli.jobs.job_schedule import run_jobs

    run_jobs(job, every, job_command)


@app.command(epilog=ending("sparklog job status", "sparklog job status --format json"))
def status() -> None:
    """Show the outcome of the last run of each job. Exit 5 if one of these runs failed or broke off.

    With a coordinator, also show when each job is next due. If the last run that the coordinator began has failed or
    broken off, also show why.
    """
    from sparklog.cli.jobs.job_schedule import scheduled, status_rows
    from sparklog.wire.job_messages import last_run

    with connect() as cluster:
        state = cluster.connection.newest_state()
        runs = dict(state.jobs.items())
        try:
            jobs = scheduled(cluster.connection)
        except SparklogError as error:
            print_warning(f"the coordinator did not report when jobs are due: {error}")
            jobs = None
    rows = status_rows({name: last_run(run) for name, run in runs.items()}, jobs)
    if settings.json:
        rows = [{**row, "report": _report(runs.get(row["job"]))} for row in rows]
    show_rows(rows, empty="no job has run yet")
    if any(run.failed_partitions for run in runs.values()) or any(job.error for job in jobs or ()):
        raise typer.Exit(5)


def _report(run: JobRan | None) -> Any:
    import msgspec

    return None if run is None else msgspec.json.decode(run.report)


def _run(
    name: str,
    run: Callable[..., JobReport],
    topics: list[str],
    now: str | None,
    dry_run: bool,
    report_file: str | None,
) -> None:
    def session() -> Any:
        from sparklog.spark.job_session import job_session

        return job_session(name)

    run_on_spark(partial(run, topics=topics or None), session, now, dry_run, report_file)
