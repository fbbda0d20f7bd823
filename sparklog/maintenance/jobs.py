"""The jobs by name, in the order in which they run one after the other: roll comes first, vacuum last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Final

from sparklog.core.config.cluster import ClusterConfig
from sparklog.core.errors import InvalidInput
from sparklog.core.schedule import Task
from sparklog.core.state import ClusterState
from sparklog.maintenance.report import JobReport

JOBS: Final = ("roll", "compaction", "retention", "replication", "vacuum")
SCHEDULED: Final = ("roll", "compaction", "retention", "vacuum")  # agents do the work of replication, bit by bit
ON_SPARK: Final = ("compaction",)  # nothing else can hold the keys: `spark/job_child.py` runs them


def job_named(name: str) -> Callable[[str], JobReport]:
    """The function that runs the job on the cluster at an address, in this process. Raises InvalidInput."""
    known = [job for job in JOBS if job not in ON_SPARK]
    if name not in known:
        raise InvalidInput(f"wanted one of the jobs {', '.join(known)}, found {name!r}")
    run: Callable[[str], JobReport] = getattr(import_module(f"sparklog.maintenance.{name}"), f"run_{name}")
    return run


def in_order(names: Iterable[str]) -> list[str]:
    """The jobs in the order in which they run; those of another version come last."""
    return sorted(names, key=lambda name: (JOBS.index(name) if name in JOBS else len(JOBS), name))


def scheduled_tasks(config: ClusterConfig) -> tuple[Task, ...]:
    """What a coordinator runs, and how often."""
    check_ms, vacuum_ms = config.log_retention_check_interval_ms, config.vacuum_interval_ms
    return tuple(Task(job, vacuum_ms if job == "vacuum" else check_ms) for job in SCHEDULED)


def ages_ms(state: ClusterState, jobs: Sequence[Task], now_ms: int) -> Mapping[str, int]:
    """How long ago each job began to run last, as far as the chain knows of a run that came to its end."""
    return {job.name: now_ms - state.jobs[job.name].started_ms for job in jobs if job.name in state.jobs}
