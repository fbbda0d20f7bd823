"""Problems of a cluster in human-readable sentences. Those of replicas are in replica_findings.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.describe.readable import amount, counted, duration
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId

STALE_SNAPSHOT_ENTRIES: Final = 10_000  # ten times as many as the entries between two snapshots of a committer
CLOCK_AHEAD_MS: Final = 10_000
_FULL_DISK: Final = "docs/maintenance.md, A full disk"


def failed_jobs(state: ClusterState) -> list[str]:
    """A sentence for each job whose last run failed in some partitions."""
    runs = sorted(state.jobs.values(), key=lambda run: run.job)
    failed = (run for run in runs if run.failed_partitions)
    return [f"job {run.job}: {run.failed_partitions} failed, see sparklog job status" for run in failed]


def stale_snapshot(entries_since: int) -> list[str]:
    """A sentence if more than STALE_SNAPSHOT_ENTRIES entries were written since the last snapshot; else []."""
    if entries_since <= STALE_SNAPSHOT_ENTRIES:
        return []
    return [f"no snapshot for {counted(entries_since, 'entry')}: sparklog chain snapshot"]


def clock_remarks(chain_ms: int, now_ms: int) -> list[str]:
    """A remark if `chain_ms`, the time of the newest entry, is at least CLOCK_AHEAD_MS after `now_ms`; else []."""
    if chain_ms - now_ms < CLOCK_AHEAD_MS:
        return []
    ahead = duration((chain_ms - now_ms) // 1000 * 1000)
    advice = "compare it with those of coordinators and writers"
    return [f"the newest entry is {ahead} ahead of this machine's clock: {advice}"]


class Findings(msgspec.Struct):
    """Sentences about problems (`wrong`), and about lesser problems (`remarks`)."""

    wrong: list[str] = []
    remarks: list[str] = []


def store_findings(state: ClusterState, store: StoreId, problems: Sequence[str], free_bytes: int | None) -> Findings:
    """Return the findings about a store: its `problems`, and too little free space. `free_bytes`: None if unknown.

    Less free space than `store.free.min.bytes` is a problem (in `wrong`), and its sentence says how to make room. Less
    than `store.free.low.bytes` is only a remark. If the store is fenced, all findings are remarks, because the cluster
    does not use it.
    """
    config, findings = effective_cluster(state.config), Findings()
    registered = state.stores.get(store)  # the place of the metadata need not be one
    wrong = findings.remarks if registered is not None and registered.fenced else findings.wrong
    wrong += [f"store {store}: {problem}" for problem in problems]
    if free_bytes is not None and free_bytes < max(config.store_free_low_bytes, config.store_free_min_bytes):
        little = f"store {store}: only {amount(free_bytes)} are free"
        if free_bytes >= config.store_free_min_bytes:
            findings.remarks.append(f"{little}: plan for more (store.free.low.bytes is {config.store_free_low_bytes})")
        else:
            wrong.append(f"{little}: {_what_makes_room(state, store)}")
    return findings


def _what_makes_room(state: ClusterState, store: StoreId) -> str:
    """Return advice on making room on a store that is nearly full.

    If other stores have replicas of its partitions, the advice is not to delete records, because that deletes them on
    all these stores. But if the metadata is on the store, the advice is to shorten retention all the same.
    """
    registered = state.stores.get(store)
    if registered is None or registered.url == ".":  # the metadata is there
        commands = "stop the writers, then sparklog store free, shorten retention, sparklog job retention and vacuum"
        return f"{commands}, or give it more ({_FULL_DISK})"
    replicas = (partition.replication.replicas for partition in state.partitions.values())
    others = [len(stores) > 1 for stores in replicas if store in stores]
    if not others:
        return f"it holds no replica: sparklog store remove {store}, or give it more; delete nothing for it"
    if any(others):
        moved = f"give it more, or move replicas away (sparklog replica move --off {store})"
        alone = "" if all(others) else f" but not to {counted(others.count(False), 'partition')} with no other"
        return f"{moved}; writes continue with the other replicas{alone}; deleting records would delete them there, too"
    return f"shorten retention, then sparklog job retention and vacuum, or give it more ({_FULL_DISK})"
