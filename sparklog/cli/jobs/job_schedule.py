"""Recurring jobs: runs them for `sparklog job run-all`, and makes the rows of `sparklog job status`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from sparklog.cli.jobs.job_run import INTERRUPTED
from sparklog.cli.jobs.job_runner import job_runner
from sparklog.cli.output import connect, now_ms, print_warning, show_rows
from sparklog.client.error_line import print_failure
from sparklog.core.describe.readable import point_in_time
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.host.standard_streams import flush, print_to

if TYPE_CHECKING:
    from sparklog.client.connection import Connection
    from sparklog.maintenance.job_command import JobEnd
    from sparklog.maintenance.job_scheduler import JobRunner
    from sparklog.wire.job_messages import JobStanding, LastRun


def run_jobs(names: Sequence[str], every_s: int | None, job_command: str | None) -> None:
    """Run the jobs `names` once, or every `every_s` seconds until SIGTERM or SIGINT; then print each job's last run.

    Without `names`, run the jobs that coordinators schedule. Raises InvalidInput for an unknown job or a job command
    that is "none" or malformed, KeyboardInterrupt if a signal stops a single pass, and typer.Exit if the last run of
    any job failed.
    """
    from sparklog.maintenance.jobs import JOBS, SCHEDULED, in_order

    for name in names:
        if name not in JOBS:
            raise InvalidInput(f"--job: wanted {', '.join(JOBS)}, found {name!r}")
    runner_at = job_runner(job_command)
    if runner_at is None:
        raise InvalidInput("--job-command: wanted local or a command, found none, which runs nothing")
    jobs = in_order(set(names)) or list(SCHEDULED)
    with connect() as cluster:
        connection = cluster.connection
        if every_s is not None:
            _warn_if_scheduled(connection)
        run = _RunAll(runner_at(connection.url), jobs)
        if every_s is None:
            stopped = asyncio.run(run.until_stopped(run.once()))
        else:
            asyncio.run(run.until_stopped(run.for_ever(connection, every_s, named=bool(names))))
            stopped = False
    show_rows(run.rows.values(), empty="no job has run")
    if stopped:
        print_failure(INTERRUPTED)
        raise KeyboardInterrupt
    if any(row["outcome"] != "done" for row in run.rows.values()):
        raise typer.Exit(1)


class _RunAll:
    """One call of `sparklog job run-all`. `rows`: by job name, the table row of the job's last run in this call."""

    def __init__(self, runner: JobRunner, jobs: Sequence[str]) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._runner = runner
        self._jobs = jobs

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` until it ends, or until SIGTERM or SIGINT arrives. Return True if a signal arrived."""
        task = asyncio.create_task(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    async def once(self) -> None:
        from sparklog.maintenance.job_scheduler import run_once

        await run_once(self._jobs, self._runner, self._ended)

    async def for_ever(self, connection: Connection, every_s: int, *, named: bool) -> None:
        from sparklog.core.config.cluster_config import effective_cluster
        from sparklog.core.maintenance.schedule import Schedule
        from sparklog.host.clock import SystemClock
        from sparklog.maintenance.job_scheduler import Scheduler
        from sparklog.maintenance.jobs import ages_ms, tasks_every

        state, clock = connection.follower.state, SystemClock()
        tasks = tasks_every(self._jobs, every_s * 1000, effective_cluster(state.config), named=named)
        ages = ages_ms(state, tasks, clock.now_ms())
        schedule = Schedule(tasks, clock.monotonic_ms(), delay_ms=0, ages_ms=ages)
        await Scheduler(schedule, self._runner, clock, self._ended).run()

    def _ended(self, job: str, end: JobEnd) -> None:
        outcome = "broke off" if end.broke_off else "failed" if end.error else "done"
        report = end.report
        self.rows[job] = {
            "job": job,
            "outcome": outcome,
            "started_ms": None if report is None else report.started_ms,
            "ended_ms": now_ms() if report is None else report.ended_ms,
            "objects": None if report is None else report.done.objects,
            "records": None if report is None else report.done.records,
            "done_bytes": None if report is None else report.done.size_bytes,
            "deleted": None if report is None else report.deletion.done.objects,
            "deleted_bytes": None if report is None else report.deletion.done.size_bytes,
            "error": end.error,
        }
        print_to(sys.stderr, f"{point_in_time(now_ms())}  {job}: {end.error or end.summary}")
        flush(sys.stderr)


# ---- the jobs of a coordinator ------------------------------------------------------------------------


def scheduled(connection: Connection) -> tuple[JobStanding, ...] | None:
    """Return the coordinator's report on the jobs; None if no coordinator is in force.

    Raises SparklogError if the coordinator does not answer.
    """
    if not connection.follower.state.coordinator.in_force:
        return None
    return connection.committer.jobs()


def _warn_if_scheduled(connection: Connection) -> None:
    try:
        jobs = scheduled(connection)
    except SparklogError:
        return  # then it can't run jobs either
    if any(job.interval_ms is not None for job in jobs or ()):
        address = connection.follower.state.coordinator.address
        print_warning(f"the coordinator at {address} runs jobs too: that does no harm, but one of the two is enough")


def status_rows(runs: Mapping[str, LastRun], jobs: Sequence[JobStanding] | None) -> list[dict[str, Any]]:
    """Return a row for each job, with its last run.

    `jobs` is the coordinator's report on its jobs. Unless it is None, each row also says since when the job is running,
    when it is next due, and the error of the last run that the coordinator began.
    """
    from sparklog.maintenance.jobs import in_order

    standing = {job.job: job for job in jobs or ()}
    rows = []
    for name in in_order({*runs, *standing}):
        row = {"job": name, **_run_cells(runs.get(name))}
        if jobs is not None:
            job = standing.get(name)
            row["running_since_ms"] = job and job.running_since_ms
            row["next_due_ms"] = job and job.next_due_ms
            row["error"] = job and job.error
        rows.append(row)
    return rows


def _run_cells(run: LastRun | None) -> dict[str, Any]:
    figures = None if run is None else run.figures
    return {
        "started_ms": run and run.started_ms,
        "ended_ms": run and run.ended_ms,
        "failed": run and run.failed,
        "objects": figures and figures.objects,
        "records": figures and figures.records,
        "done_bytes": figures and figures.done_bytes,
        "deleted": figures and figures.deleted,
        "deleted_bytes": figures and figures.deleted_bytes,
    }
