"""Applies transitions to partitions, and turns the changes into records.

A transition is a function of core/replication: from the replicas of a partition before a change, to those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.append import named_in_errors, partition_name
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.lookup import existing_partition
from sparklog.core.placement.assignment import Home
from sparklog.core.records import At, PartitionsChanged
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.replication.partition_change import PartitionChange, change_from
from sparklog.core.replication.slice_holders import stores_holding
from sparklog.core.state import ClusterState
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, StoreId, TopicPartition

PARTITIONS_PER_RECORD = 1_000

T = TypeVar("T")
# A transition: the replicas of a partition before it, and the config of the topic -> the replicas after it.
Transition = Callable[[TopicPartition, Replication, TopicConfig], ReplicationChange | Replication]


def of_store(state: ClusterState, store: StoreId, transition: Transition) -> tuple[PartitionsChanged, ...]:
    """Apply a transition to each partition that has a replica on the store, and return the changes as records."""
    changes: list[PartitionChange] = []
    for topic in state.topics.values():
        config = state.topic_config(topic)
        for partition in state.partitions_of(topic):
            if store in partition.replication.replicas:
                key = TopicPartition(partition.topic_id, partition.partition)
                changes += _change(key, partition.replication, transition(key, partition.replication, config))
    return in_records(changes)


def of_each(
    state: ClusterState,
    wanted: Sequence[tuple[TopicPartition, T]],
    transition: Callable[[T, Replication, TopicConfig], ReplicationChange | Replication],
    *,
    together: bool = False,
) -> tuple[PartitionsChanged, ...]:
    """Apply a transition to several partitions, and return their changes as records.

    `wanted`: each partition, and the request that the transition gets. A refused request is skipped; if all are
    refused, the first error is raised. With `together`, any refusal raises.
    """
    if len({key for key, _ in wanted}) < len(wanted):
        raise InvalidInput("a command names each partition once, found one named twice")
    changes: list[PartitionChange] = []
    refused: list[SparklogError] = []
    for key, request in wanted:
        try:
            before = existing_partition(state, key).replication
            config = state.topic_config(state.topics[key.topic_id])
            with named_in_errors(partition_name(state, key)):
                changes += _change(key, before, transition(request, before, config))
        except SparklogError as error:
            if together:
                raise
            refused.append(error)
    if refused and len(refused) == len(wanted):
        raise refused[0]
    return in_records(changes)


def reachable_stores(state: ClusterState, but: StoreId | None = None) -> list[StoreId]:
    """Return the stores whose replicas may lead, except the store `but`."""
    return [store.store for store in state.stores.values() if store.reachable and store.store != but]


def homes(state: ClusterState) -> list[Home]:
    """Return the stores that new replicas may be put on: those that are not fenced."""
    return [Home(store.store, store.zone, not store.reachable) for store in state.stores.values() if not store.fenced]


def silent_stores(state: ClusterState) -> list[StoreId]:
    """Return the stores that can't be reached, according to the chain: fenced, or with an agent reported as down."""
    return [store.store for store in state.stores.values() if not store.reachable]


def delay_begins_ms(state: ClusterState, at: At) -> int:
    """Return the time at which a deletion delay begins, in milliseconds.

    This is the time of entry `at`, or of the newest entry if that is later (the clock of the author of `at` may be
    slow).
    """
    return max(at.time_ms, state.time_ms)


def empty_end(state: ClusterState, key: TopicPartition) -> Offset:
    """Return the LEO of a replica that holds nothing: the log start, or the end of a gap that begins there."""
    log_start = state.partitions[key].log_start
    return max(log_start, held_end(state, key, log_start))


def held_end(state: ClusterState, key: TopicPartition, end: Offset) -> Offset:
    """Return the LEO of a replica that has the log up to `end`. `end` is at most the partition's next offset.

    If a gap begins at `end`, the LEO is the end of the gap. If `end` lies inside a slice, it is the start of the slice.
    """
    next_offset = state.partitions[key].next_offset
    if end == next_offset:
        return end
    across = state.slices.find(key, OffsetRange(end, Offset(end + 1))).columns["start"]
    if len(across):
        return Offset(across.item(0))
    later = state.slices.find(key, OffsetRange(end, next_offset)).columns["start"]
    return Offset(later.item(0)) if len(later) else next_offset


def named_end(state: ClusterState, key: TopicPartition, end: Offset, store: StoreId) -> Offset:
    """Return the LEO of the replica on `store`, which has fetched the log up to `end`, with later uploads to the store.

    The LEO rises past each next slice for which the store is named as a holder of the object. Writers also upload to a
    live store that is catching up. If these uploads did not count, it could never catch up while they continue.
    """
    value, registrations = state.partitions[key].replication, state.registrations()
    while end < value.next_offset:
        columns = state.slices.find(key, OffsetRange(end, Offset(end + 1))).columns
        if not len(columns["end"]):
            return end
        slice_end = Offset(columns["end"].item(0))
        named = state.objects.get(ObjectNumber(columns["object_number"].item(0)))
        if named is None or store not in stores_holding(slice_end, named.holders, value, registrations):
            return end
        end = held_end(state, key, slice_end)
    return end


def _change(
    key: TopicPartition, before: Replication, outcome: ReplicationChange | Replication
) -> list[PartitionChange]:
    after, forgotten = (outcome, None) if isinstance(outcome, Replication) else (outcome.after, outcome.forgotten)
    change = change_from(before, after, key, forgotten)
    return [] if change is None else [change]


def in_records(changes: Sequence[PartitionChange]) -> tuple[PartitionsChanged, ...]:
    """Return the changes as records of at most PARTITIONS_PER_RECORD partitions each. All go into one entry."""
    chunks = (
        tuple(changes[low : low + PARTITIONS_PER_RECORD]) for low in range(0, len(changes), PARTITIONS_PER_RECORD)
    )
    return tuple(PartitionsChanged(chunk) for chunk in chunks)
