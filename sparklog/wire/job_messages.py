"""The state of the jobs that a coordinator schedules.

GET /v1/jobs  -> JobsReply
"""

from __future__ import annotations

import msgspec

from sparklog.core.records import JobRan
from sparklog.core.types import EntryNumber

JOBS = "/v1/jobs"


class JobFigures(msgspec.Struct, frozen=True):
    """The work of one run of a job.

    `objects`, `records` and `done_bytes` (stored bytes) count what the job has processed; for roll and retention,
    `objects` counts segments. `deleted` is the number of retired objects that the run deleted because their delay had
    passed, and `deleted_bytes` is their size.
    """

    objects: int
    records: int
    done_bytes: int
    deleted: int
    deleted_bytes: int


class LastRun(msgspec.Struct, frozen=True):
    """The last finished run of a job, whichever process began it.

    `failed` is the number of partitions that failed, and of retired objects that the run could not delete.

    `figures` is null if the run's report is of a kind that this version does not know.
    """

    started_ms: int
    ended_ms: int
    failed: int
    figures: JobFigures | None


class JobStanding(msgspec.Struct, frozen=True):
    """State of a job. All times are milliseconds since the epoch.

    `last` is null if no run has ended yet. If the coordinator does not schedule the job, only `job` and `last` are
    known. `next_due_ms` is null while the job runs, `running_since_ms` while it does not. A run breaks off if it ends
    without a report; `broken_runs` is the number of runs in a row that broke off. `error` is about the last run that
    this coordinator began: why it broke off, or why parts of it failed. It is null if that run succeeded.
    """

    job: str
    last: LastRun | None
    interval_ms: int | None = None
    running_since_ms: int | None = None
    next_due_ms: int | None = None
    broken_runs: int = 0
    error: str | None = None


class JobsReply(msgspec.Struct, frozen=True):
    """The jobs of the cluster, in the order in which they run. `position` is the newest entry that was read."""

    position: EntryNumber
    jobs: tuple[JobStanding, ...]


def last_run(run: JobRan) -> LastRun:
    """The last run of a job, from its record in the chain."""
    return LastRun(run.started_ms, run.ended_ms, run.failed_partitions, _figures(run.report))


def _figures(text: str) -> JobFigures | None:
    try:
        report = msgspec.json.decode(text, type=_ReportInChain)
    except msgspec.DecodeError:
        return None
    done, deleted = report.done, report.deletion.done
    return JobFigures(done.objects, done.records, done.bytes, deleted.objects, deleted.bytes)


def vacuum_figures(report: str) -> VacuumFigures | None:
    """The figures of a vacuum, from its report in the chain; None if the report is of an unknown kind."""
    try:
        return msgspec.json.decode(report, type=VacuumFigures)
    except msgspec.DecodeError:
        return None


class _Work(msgspec.Struct, frozen=True):
    objects: int
    records: int
    bytes: int


class _Amount(msgspec.Struct, frozen=True):
    objects: int = 0
    bytes: int = 0


class VacuumFigures(msgspec.Struct, frozen=True):
    """Objects that a vacuum planned to delete, and deleted. `metadata`, `metadata_done`: those of the chain alone."""

    planned: _Amount
    done: _Amount
    metadata: _Amount = _Amount()
    metadata_done: _Amount = _Amount()


class _Deletion(msgspec.Struct, frozen=True):
    done: _Work


class _ReportInChain(msgspec.Struct, frozen=True):
    done: _Work
    deletion: _Deletion
