"""All that `/metrics` and the pages show of a coordinator process at one moment, as an immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sparklog.chain.commit.commit_counts import CommitCounts
from sparklog.client.stores.store_look import StoreLook
from sparklog.coordinator.leading.service import Service
from sparklog.coordinator.watching.activity import Distribution, LagSample, Sample
from sparklog.core.placement.counts import ReplicaCounts, replica_counts
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId


@dataclass(frozen=True)
class Observation:
    """The state and the counts of a coordinator process at `now_ms` (wall clock). Immutable: any thread may read it.

    `commits`: counts since this process began to lead; zero on a standby. `heard_ms_ago`: for each store, the
    milliseconds since its agent or a write last showed that it is alive, or since this process began to lead if none
    has; empty on a standby. `looks`: the newest check of each store (`StoreLooks`). `snapshot_n`, `snapshot_time_ms`:
    the entry and the time of the newest snapshot; -1 and None if this process knows of no snapshot.
    """

    now_ms: int
    state: ClusterState
    leads: bool
    name: str
    address: str
    metadata: str
    session_ms: int
    snapshot_n: int
    snapshot_time_ms: int | None
    queued: int
    queued_max: int
    commits: CommitCounts
    heard_ms_ago: Mapping[StoreId, int]
    looks: Mapping[StoreId, StoreLook]
    requests: Mapping[tuple[str, int], int]
    refusals: Mapping[str, int]
    latency: Distribution
    samples: tuple[Sample, ...]
    lags: tuple[LagSample, ...]
    isr_shrinks: int
    isr_expands: int
    elections: int
    storage_failure: str

    @property
    def entries_since_snapshot(self) -> int:
        """The number of entries since the newest snapshot that this process knows of."""
        return self.state.n - self.snapshot_n

    @cached_property
    def replicas(self) -> ReplicaCounts:
        """Counts of replicas over all partitions. Thousands of partitions take milliseconds: call it in a thread."""
        return replica_counts(self.state)


def observe(service: Service, now_ms: int) -> Observation:
    """Return an observation of this coordinator. To be called in the event loop."""
    activity, follower = service.activity, service.follower
    return Observation(
        now_ms=now_ms,
        state=follower.state,
        leads=service.leads,
        name=service.control.leadership.name,
        address=service.control.leadership.address,
        metadata=service.metadata,
        session_ms=service.control.leadership.session_ms,
        snapshot_n=follower.snapshot_n,
        snapshot_time_ms=follower.snapshot_time_ms,
        queued=service.control.queued,
        queued_max=service.control.queued_max,
        commits=service.commit_counts(),
        heard_ms_ago=service.heard_ms_ago(),
        looks=service.looks_at_stores(),
        requests=dict(activity.requests),
        refusals=dict(activity.refusals),
        latency=activity.latency.copy(),
        samples=tuple(activity.samples),
        lags=tuple(activity.lags),
        isr_shrinks=activity.isr_shrinks,
        isr_expands=activity.isr_expands,
        elections=activity.elections,
        storage_failure=activity.storage_failure,
    )
