"""Objects that a store should hold according to the chain: samples of them, or all of a partition in order.

The agent of a store checks that these objects are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec

from sparklog.core.placement.held_slices import named_object
from sparklog.core.state import ClusterState
from sparklog.core.types import NewObject, ObjectNumber, Offset, OffsetRange, Slice, StoreId, TopicPartition


class HeldObject(msgspec.Struct, frozen=True, array_like=True):
    """An object that a replica should hold, because one of the object's slices lies below the replica's LEO.

    `start`: the offset at which this slice begins.
    """

    topic_partition: TopicPartition
    start: Offset
    number: ObjectNumber
    topic: str
    object: NewObject


def held_partitions(state: ClusterState, store: StoreId) -> list[TopicPartition]:
    """The partitions of which the store should hold some records, ascending."""
    return sorted(
        TopicPartition(partition.topic_id, partition.partition)
        for partition in state.partitions.values()
        if store in partition.replication.replicas and partition.log_start < partition.replication.log_end(store)
    )


def newest_held(state: ClusterState, store: StoreId, key: TopicPartition) -> HeldObject | None:
    """Return the object of the partition's last slice below the store's LEO; None if there is no slice below it."""
    partition = state.partitions[key]
    log_end, width = partition.replication.log_end(store), 1
    while width < 2 * (log_end - partition.log_start):
        start = max(partition.log_start, log_end - width)
        slices = state.slices.find(key, OffsetRange(Offset(start), log_end))
        if len(slices):
            (slice_,) = slices.rows(len(slices) - 1, len(slices))
            return _held(state, key, slice_)
        width *= 2  # the log ends with a gap
    return None


def some_held(
    state: ClusterState, store: StoreId, among: Collection[TopicPartition], count: int, below: Callable[[int], int]
) -> list[HeldObject]:
    """Return at most `count` random objects of the partitions `among` that the store should hold, each only once.

    `among` must be partitions of which the store should hold some records, as `held_partitions` returns them.
    `below(n)` draws a number from [0, n).
    """
    keys = sorted(among)
    drawn: dict[ObjectNumber, HeldObject] = {}
    for _ in range(count if keys else 0):
        key = keys[below(len(keys))]
        partition = state.partitions[key]
        offset = Offset(partition.log_start + below(partition.replication.log_end(store) - partition.log_start))
        for slice_ in state.slices.find(key, OffsetRange(offset, Offset(offset + 1))):
            drawn[slice_.object_number] = _held(state, key, slice_)
    return list(drawn.values())


def all_held(state: ClusterState, store: StoreId, key: TopicPartition) -> Iterator[HeldObject]:
    """Yield the object of each slice of the partition that the store should hold, in the order of offsets."""
    partition = state.partitions[key]
    held = OffsetRange(partition.log_start, partition.replication.log_end(store))
    return (_held(state, key, slice_) for slice_ in state.slices.walk(key, held))


def is_still_held(state: ClusterState, store: StoreId, held: HeldObject) -> bool:
    """True if the store should still hold the object `held`, which is from an older state.

    False if the store may lack it by now, because of retention, a rewrite, an election, a move or a reported loss.
    """
    partition = state.partitions.get(held.topic_partition)
    if partition is None or store not in partition.replication.replicas:
        return False
    slices = state.slices.find(held.topic_partition, OffsetRange(held.start, Offset(held.start + 1)))
    log_end = partition.replication.log_end(store)
    return any(slice_.object_number == held.number and slice_.end <= log_end for slice_ in slices)


def _held(state: ClusterState, key: TopicPartition, slice_: Slice) -> HeldObject:
    named = named_object(state, slice_)
    return HeldObject(key, slice_.start, named.number, state.topics[key.topic_id].name, named.object)
