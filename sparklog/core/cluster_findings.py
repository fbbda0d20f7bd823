"""What is wrong with a cluster beside its replicas, in sentences for people."""

from __future__ import annotations

from typing import Final

from sparklog.core.config.cluster import ClusterConfig
from sparklog.core.errors import MAKE_ROOM
from sparklog.core.readable import amount, counted
from sparklog.core.state import ClusterState

STALE_SNAPSHOT_ENTRIES: Final = 10_000  # ten times the entries after which a committer writes the next snapshot


def failed_jobs(state: ClusterState) -> list[str]:
    """The jobs whose last run failed."""
    runs = sorted(state.jobs.values(), key=lambda run: run.job)
    failed = (run for run in runs if run.failed_partitions)
    return [f"job {run.job}: {run.failed_partitions} failed, see sparklog job status" for run in failed]


def stale_snapshot(entries_since: int) -> list[str]:
    """Whether it is long since the last snapshot of the metadata chain."""
    if entries_since <= STALE_SNAPSHOT_ENTRIES:
        return []
    return [f"no snapshot for {counted(entries_since, 'entry')}: sparklog chain snapshot"]


def little_space(free_bytes: int | None, config: ClusterConfig) -> str:
    """The finding about a store with this much free space, or "". See `is_wrong_space`."""
    if free_bytes is None or free_bytes >= max(config.store_free_low_bytes, config.store_free_min_bytes):
        return ""
    return f"only {amount(free_bytes)} are free: {MAKE_ROOM}"


def is_wrong_space(free_bytes: int, config: ClusterConfig) -> bool:
    """Whether so little free space is wrong (`store.free.min.bytes`) and not only worth a remark."""
    return free_bytes < config.store_free_min_bytes
