"""Counts of partitions by condition, and the lag of the replicas of each store, for metrics and pages.

One pass over all partitions; no slice is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparklog.core.placement.replica_health import is_offline, is_under_min_isr, is_under_replicated
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId, TopicId


@dataclass(slots=True)
class StoreReplicas:
    """Counts of the replicas on one store: all of them, those that lead, and those that are behind the end of the log.

    The lag of a replica is the number of offsets from its LEO to the end of the log. `lag_records` is the sum of the
    lags, `max_lag_records` the largest one.
    """

    replicas: int = 0
    leaders: int = 0
    behind: int = 0  # replicas with a lag
    lag_records: int = 0  # of all of them together
    max_lag_records: int = 0


@dataclass(slots=True)
class ReplicaCounts:
    """Counts of partitions, and of the replicas of each store. As in Kafka, a partition may be in several counts."""

    partitions: int = 0
    offline: int = 0
    under_min_isr: int = 0
    under_replicated: int = 0
    log_bytes: int = 0
    stores: dict[StoreId, StoreReplicas] = field(default_factory=dict)


def replica_counts(state: ClusterState) -> ReplicaCounts:
    """Count all partitions of the state, and the replicas of every registered store."""
    counts = ReplicaCounts(stores={store: StoreReplicas() for store in state.stores})
    min_isr: dict[TopicId, int] = {}
    for partition in state.partitions.values():
        topic_id, value = partition.topic_id, partition.replication
        counts.partitions += 1
        counts.log_bytes += partition.size_bytes
        counts.offline += is_offline(value)
        if value.isr != value.replicas:  # most partitions are healthy, and these checks cost more than all the rest
            if topic_id not in min_isr:
                min_isr[topic_id] = state.topic_config(state.topics[topic_id]).min_insync_replicas
            counts.under_replicated += is_under_replicated(value)
            counts.under_min_isr += is_under_min_isr(value, min_isr[topic_id])
        for store, log_end in zip(value.replicas, value.log_ends, strict=True):
            of_store = counts.stores[store]
            of_store.replicas += 1
            if log_end < value.next_offset:
                lag = value.next_offset - log_end
                of_store.behind += 1
                of_store.lag_records += lag
                of_store.max_lag_records = max(of_store.max_lag_records, lag)
        if value.leader is not None:
            counts.stores[value.leader].leaders += 1
    return counts
