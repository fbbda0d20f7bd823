"""Problems of a cluster's replicas, in human-readable sentences.

A partition is reported as wrong if it has no leader or can't take a write with acks=all. There is a remark for a
partition with fewer replicas in sync than it should have, and for a store that is fenced or silent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import counted
from sparklog.core.placement.replica_health import is_offline, is_under_min_isr, is_under_replicated
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import PartitionIndex

_SHOWN = 5  # partitions of a topic that are named


class ReplicationHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of unhealthy partitions, and sentences: problems in `wrong`, lesser ones in `remarks`.

    A partition counts only once: as offline, else as under min ISR, else as under-replicated.
    """

    offline: int
    under_min_isr: int
    under_replicated: int
    wrong: list[str]
    remarks: list[str]


def replication_health(state: ClusterState) -> ReplicationHealth:
    """The health of all partitions and stores, as far as the chain knows."""
    counts = [0, 0, 0]
    wrong: list[str] = []
    remarks: list[str] = []
    for topic in sorted(state.topics.values(), key=lambda topic: topic.name):
        offline, under_min, under = by_topic = _unhealthy(state, topic, state.topic_config(topic))
        counts = [count + len(indexes) for count, indexes in zip(counts, by_topic, strict=True)]
        if offline:
            wrong.append(
                f"{_named(topic, offline)} no leader: sparklog replica list --offline shows which stores could lead"
            )
        if under_min:
            wrong.append(
                f"{_named(topic, under_min)} fewer replicas in sync than min.insync.replicas: writes with acks=all fail"
            )
        if under:
            remarks.append(f"{_named(topic, under)} replicas that are not in sync (under-replicated)")
    return ReplicationHealth(
        offline=counts[0],
        under_min_isr=counts[1],
        under_replicated=counts[2],
        wrong=wrong,
        remarks=remarks + _of_stores(state) + _without_agents(state),
    )


def min_isr_warning(topic: str, config: TopicConfig, replication_factor: int) -> str | None:
    """Return a warning if min.insync.replicas is above the topic's replication factor, else None.

    In that case, a write with acks=all needs all replicas in sync.
    """
    if config.min_insync_replicas <= replication_factor:
        return None
    return (
        f"topic {topic}: min.insync.replicas={config.min_insync_replicas} is more than its "
        f"{counted(replication_factor, 'replica')}: all of them must be in sync for a write with acks=all"
    )


def _unhealthy(
    state: ClusterState, topic: Topic, config: TopicConfig
) -> tuple[list[PartitionIndex], list[PartitionIndex], list[PartitionIndex]]:
    offline: list[PartitionIndex] = []
    under_min: list[PartitionIndex] = []
    under: list[PartitionIndex] = []
    for partition in state.partitions_of(topic):
        value = partition.replication
        if is_offline(value):
            offline.append(partition.partition)
        elif is_under_min_isr(value, config.min_insync_replicas):
            under_min.append(partition.partition)
        elif is_under_replicated(value):
            under.append(partition.partition)
    return offline, under_min, under


def _of_stores(state: ClusterState) -> list[str]:
    remarks = []
    for store in state.stores.values():
        if store.reachable:
            continue
        replicas = sum(store.store in partition.replication.replicas for partition in state.partitions.values())
        why = "is fenced" if store.fenced else "is silent (its agent is down)"
        remarks.append(f"store {store.store} {why}, and has {counted(replicas, 'replica')}")
    return remarks


def _without_agents(state: ClusterState) -> list[str]:
    """Return a remark if agents have run but none is up, else [].

    Without agents, replicas that lack records stay behind.
    """
    stores = [store for store in state.stores.values() if not store.fenced]
    if not any(store.had_agent for store in stores) or any(store.agent_up for store in stores):
        return []
    first = min(store.store for store in stores)
    return [f"no agent runs, so a replica that lacks records stays behind: sparklog agent --store {first}, and so on"]


def _named(topic: Topic, partitions: Sequence[PartitionIndex]) -> str:
    shown = ", ".join(str(index) for index in partitions[:_SHOWN])
    more = f" and {counted(len(partitions) - _SHOWN, 'more partition')}" if len(partitions) > _SHOWN else ""
    singular = len(partitions) == 1
    return f"topic {topic.name}: partition{'' if singular else 's'} {shown}{more} {'has' if singular else 'have'}"
