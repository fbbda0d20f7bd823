"""The existing jobs, in the order in which they run one after the other: roll comes first, vacuum last.

A new job is one line of `KNOWN_JOBS`. The coordinator's scheduler, `sparklog job run-all`, `job status` and the tests
of the ready schedules in conf/ all use that list. Its name is also in core/decide/job_reports.py, which refuses the
reports of others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple, Protocol

from sparklog.core.config.cluster_config import ClusterConfig
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import InvalidInput
from sparklog.core.maintenance.schedule import Task
from sparklog.core.state import ClusterState
from sparklog.host.extras import install_line
from sparklog.maintenance.job_report import JobReport

CHECK: Final = "log.retention.check.interval.ms"  # of jobs that are light enough to run every few minutes


class KnownJob(NamedTuple):
    """A job, whose function, a `RunJob`, is `run_NAME` in `sparklog.maintenance`.

    `interval_key`: the cluster's config key with the interval at which schedulers run the job; None if they don't run
    it. `spark_module`: the module of the function if the job works on Spark only; that module may import pyspark.
    """

    name: str
    interval_key: str | None
    spark_module: str | None = None

    def interval_ms(self, config: ClusterConfig) -> int | None:
        """Return the interval in ms at which schedulers run the job; None if they don't run it."""
        if self.interval_key is None:
            return None
        interval_ms: int = getattr(config, self.interval_key.replace(".", "_"))
        return interval_ms


KNOWN_JOBS: Final = (
    KnownJob("roll", CHECK),
    KnownJob("compaction", CHECK, spark_module="sparklog.spark.maintain.key_shuffle"),  # nothing else can hold the keys
    KnownJob("retention", CHECK),
    KnownJob("replication", None),  # agents do this work bit by bit
    KnownJob("recovery", None),  # run after trouble, or by a user's schedule
    KnownJob("verify", None),  # reads everything, so users schedule it
    KnownJob("vacuum", "vacuum.interval.ms"),
)
JOBS: Final = tuple(job.name for job in KNOWN_JOBS)
SCHEDULED: Final = tuple(job.name for job in KNOWN_JOBS if job.interval_key is not None)


class RunJob(Protocol):
    """The function of a job. `settings`: as in `JobOptions`; most jobs take its other options, too."""

    def __call__(self, cluster_url: str, *, settings: StorageSettings) -> JobReport: ...


def job_named(name: str) -> RunJob:
    """Return the function that runs the job in this process.

    Raises InvalidInput if there is no such job, or if it needs Spark and pyspark is not installed.
    """
    job = next((job for job in KNOWN_JOBS if job.name == name), None)
    if job is None:
        raise InvalidInput(f"wanted one of the jobs {', '.join(JOBS)}, found {name!r}")
    if job.spark_module is not None and find_spec("pyspark") is None:
        raise InvalidInput(
            f"{name} works on Spark, wanted pyspark in {sys.executable}, found none: {install_line('spark')} "
            "there, or let jobs run elsewhere by --job-command 'spark-submit …/jobs/{job}.py --cluster {cluster} "
            "--report {report}'"
        )
    module = import_module(job.spark_module or "sparklog.maintenance")
    run: RunJob = getattr(module, f"run_{name}")
    return run


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names in the order in which the jobs run. Names that this version does not know come last."""
    return sorted(names, key=lambda name: (JOBS.index(name) if name in JOBS else len(JOBS), name))


def scheduled_tasks(config: ClusterConfig) -> tuple[Task, ...]:
    """The jobs that a coordinator runs, with their intervals."""
    intervals = ((job.name, job.interval_ms(config)) for job in KNOWN_JOBS)
    return tuple(Task(name, interval_ms) for name, interval_ms in intervals if interval_ms is not None)


def tasks_every(names: Iterable[str], every_ms: int, config: ClusterConfig, *, named: bool) -> list[Task]:
    """Return a task for each of the jobs `names`, to run every `every_ms`.

    Vacuum is the only job with a config key of its own for its interval. It keeps that interval if it is longer, unless
    `named` is true: the user has named the jobs.
    """
    rare_ms = {job.name: job.interval_ms(config) for job in KNOWN_JOBS if job.interval_key != CHECK and not named}
    return [Task(name, max(every_ms, rare_ms.get(name) or 0)) for name in names]


def ages_ms(state: ClusterState, jobs: Sequence[Task], now_ms: int) -> Mapping[str, int]:
    """The time in ms since the last completed run of each job began. Jobs without such a run are left out."""
    return {job.name: now_ms - state.jobs[job.name].started_ms for job in jobs if job.name in state.jobs}
