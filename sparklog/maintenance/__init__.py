"""A broker's background work as jobs: `from sparklog.maintenance import run_roll`. Nothing here imports Spark.

Read job_frame.py first: every job plans, prints its plan, works, commits, deletes and reports in the same way. jobs.py
lists the jobs, and task_runner.py is the port through which the heavy part runs elsewhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sparklog.maintenance.replication_job import run_replication
    from sparklog.maintenance.rewrite.compaction_job import run_compaction
    from sparklog.maintenance.rewrite.roll_job import run_roll
    from sparklog.maintenance.space.retention_job import run_retention
    from sparklog.maintenance.space.vacuum_job import run_vacuum
    from sparklog.maintenance.verify.recovery_job import run_recovery
    from sparklog.maintenance.verify.verify_job import run_verify

__all__ = [
    "run_compaction",
    "run_recovery",
    "run_replication",
    "run_retention",
    "run_roll",
    "run_vacuum",
    "run_verify",
]
_MODULES: Final = {
    "run_compaction": "rewrite.compaction_job",
    "run_recovery": "verify.recovery_job",
    "run_replication": "replication_job",
    "run_retention": "space.retention_job",
    "run_roll": "rewrite.roll_job",
    "run_vacuum": "space.vacuum_job",
    "run_verify": "verify.verify_job",
}


def __getattr__(name: str) -> Any:
    """Import a job's function, such as `run_roll`, on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
