"""The jobs that there are, in the order in which they run one after the other: roll comes first, vacuum last.

A new job is one line of `KNOWN_JOBS`. From there the coordinator's scheduler, `sparklog job run-all`, `job status` and
the tests of the ready schedules in conf/ know it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple

from sparklog.core.config.cluster_config import ClusterConfig
from sparklog.core.errors import InvalidInput
from sparklog.core.extras import install_line
from sparklog.core.maintenance.schedule import Task
from sparklog.core.state import ClusterState
from sparklog.maintenance.job_report import JobReport

CHECK: Final = "log.retention.check.interval.ms"  # what is light enough to come every few minutes


class KnownJob(NamedTuple):
    """A job, whose function is `run_NAME(cluster_url)` in `sparklog.maintenance`.

    `interval_key`: the cluster's config key with the interval at which schedulers run it; None if they don't.
    `spark_module`: the module of the function if the job works on Spark only; that module may import pyspark.
    """

    name: str
    interval_key: str | None
    spark_module: str | None = None

    def interval_ms(self, config: ClusterConfig) -> int | None:
        """How often schedulers run it, in ms; None if they don't."""
        if self.interval_key is None:
            return None
        interval_ms: int = getattr(config, self.interval_key.replace(".", "_"))
        return interval_ms


KNOWN_JOBS: Final = (
    KnownJob("roll", CHECK),
    KnownJob("compaction", CHECK, spark_module="sparklog.spark.maintain.key_shuffle"),  # nothing else can hold the keys
    KnownJob("retention", CHECK),
    KnownJob("replication", None),  # agents do its work, bit by bit
    KnownJob("recovery", None),  # after trouble, or when people schedule it
    KnownJob("verify", None),  # it reads everything, so people schedule it
    KnownJob("vacuum", "vacuum.interval.ms"),
)
JOBS: Final = tuple(job.name for job in KNOWN_JOBS)
SCHEDULED: Final = tuple(job.name for job in KNOWN_JOBS if job.interval_key is not None)


def job_named(name: str) -> Callable[[str], JobReport]:
    """The function that runs the job on the cluster at an address, in this process. Raises InvalidInput."""
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
    run: Callable[[str], JobReport] = getattr(module, f"run_{name}")
    return run


def in_order(names: Iterable[str]) -> list[str]:
    """The jobs in the order in which they run; those of another version come last."""
    return sorted(names, key=lambda name: (JOBS.index(name) if name in JOBS else len(JOBS), name))


def scheduled_tasks(config: ClusterConfig) -> tuple[Task, ...]:
    """What a coordinator runs, and how often."""
    intervals = ((job.name, job.interval_ms(config)) for job in KNOWN_JOBS)
    return tuple(Task(name, interval_ms) for name, interval_ms in intervals if interval_ms is not None)


def tasks_every(names: Iterable[str], every_ms: int, config: ClusterConfig, *, named: bool) -> list[Task]:
    """These jobs, each every `every_ms`.

    A job that is too heavy for that, as its interval in the config says, comes as rarely as there, unless the user has
    `named` it.
    """
    rare_ms = {job.name: job.interval_ms(config) for job in KNOWN_JOBS if job.interval_key != CHECK and not named}
    return [Task(name, max(every_ms, rare_ms.get(name) or 0)) for name in names]


def ages_ms(state: ClusterState, jobs: Sequence[Task], now_ms: int) -> Mapping[str, int]:
    """How long ago each job began to run last, as far as the chain knows of a run that came to its end."""
    return {job.name: now_ms - state.jobs[job.name].started_ms for job in jobs if job.name in state.jobs}
