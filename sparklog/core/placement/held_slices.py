"""Looks up the stores that hold slices, for many slices at once. The rule is in `replication/slice_holders.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sparklog.core.replication.slice_holders import stores_holding
from sparklog.core.state import ClusterState, Partition
from sparklog.core.tables.column_blocks import Column
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import (
    Holder,
    NamedObject,
    ObjectNumber,
    Offset,
    OffsetRange,
    Slice,
    StoreId,
    TopicPartition,
)


class Holding:
    """Looks up the stores that hold slices of one partition. It is fast for slices that every replica has."""

    def __init__(self, state: ClusterState, partition: Partition) -> None:
        self._replicas = partition.replication
        self._registrations = {store.store: store.registration for store in state.stores.values()}
        self._unreachable = [store.store for store in state.stores.values() if not store.reachable]
        self._level_up_to = min(self._replicas.log_ends)
        self._everywhere = self._of(self._level_up_to, ())

    def of(self, slice_end: Offset, named: Sequence[Holder]) -> tuple[StoreId, ...]:
        """Return the stores that hold a slice that ends at `slice_end`, in the order in which a reader tries them.

        `named`: the holders of the slice's object.
        """
        return self._everywhere if slice_end <= self._level_up_to else self._of(slice_end, named)

    def _of(self, slice_end: Offset, named: Sequence[Holder]) -> tuple[StoreId, ...]:
        return stores_holding(slice_end, named, self._replicas, self._registrations, unreachable=self._unreachable)


def held_by_store(
    state: ClusterState, store: StoreId, partition: Partition
) -> tuple[Mapping[str, Column], npt.NDArray[np.bool_]]:
    """Return the columns of the partition's slices, and a mask that is true for the slices that the store holds.

    Raises NotLeaderOrFollower if the store has no replica of the partition.
    """
    key = TopicPartition(partition.topic_id, partition.partition)
    slices = state.slices.find(key, whole_log(partition))
    held = slices.columns["end"] <= partition.replication.log_end(store)
    above = np.flatnonzero(~held)
    if len(above):
        held[above] = _held_by_name(state, store, partition, slices.rows(int(above[0]), len(slices)))
    return slices.columns, held


def named_object(state: ClusterState, slice_: Slice) -> NamedObject:
    """Return the object, with its number, in which a slice of the state lies."""
    existing = state.objects.get(slice_.object_number)
    if existing is None:
        raise AssertionError(f"slice {slice_} names an object that the state does not have")
    return NamedObject(slice_.object_number, existing)


def slices_by_object(state: ClusterState, numbers: Collection[ObjectNumber]) -> dict[ObjectNumber, list[Slice]]:
    """Return the slices that lie in each of these objects, [] for an object without slices.

    Takes one pass over the partitions of the objects' topics.
    """
    by_object: dict[ObjectNumber, list[Slice]] = {number: [] for number in numbers}
    wanted = np.fromiter(by_object, dtype=np.int64, count=len(by_object))
    objects = (state.objects.get(number) for number in by_object)
    for topic_id in sorted({object_.topic_id for object_ in objects if object_ is not None}):
        topic = state.topics.get(topic_id)
        for partition in () if topic is None else state.partitions_of(topic):
            key = TopicPartition(partition.topic_id, partition.partition)
            slices = state.slices.find(key, whole_log(partition))
            for row in np.flatnonzero(np.isin(slices.columns["object_number"], wanted)).tolist():
                (slice_,) = slices.rows(row, row + 1)
                by_object[slice_.object_number].append(slice_)
    return by_object


def holders_of(state: ClusterState, slice_: Slice) -> tuple[StoreId, ...]:
    """The stores that hold a slice of the state, in the order in which a reader tries them."""
    partition = state.partitions[TopicPartition(slice_.topic_id, slice_.partition)]
    return Holding(state, partition).of(slice_.end, named_object(state, slice_).object.holders)


def held_slices(
    state: ClusterState, store: StoreId, numbers: Collection[ObjectNumber]
) -> dict[ObjectNumber, list[Slice]]:
    """Return, for each object, the slices that the store holds according to the chain.

    Objects of which the store holds no slice are left out.
    """
    held = {
        number: [slice_ for slice_ in slices if store in holders_of(state, slice_)]
        for number, slices in slices_by_object(state, numbers).items()
    }
    return {number: slices for number, slices in held.items() if slices}


def partitions_of(slices: Iterable[Slice]) -> list[TopicPartition]:
    """Return the partitions of these slices, each once, ascending."""
    return sorted({TopicPartition(slice_.topic_id, slice_.partition) for slice_ in slices})


def whole_log(partition: Partition) -> OffsetRange:
    """All offsets of a partition's log, from its log start to its end."""
    return OffsetRange(partition.log_start, partition.next_offset)


def _held_by_name(state: ClusterState, store: StoreId, partition: Partition, slices: SliceColumns) -> list[bool]:
    holding = Holding(state, partition)
    held = []
    for slice_ in slices:
        object_ = state.objects.get(slice_.object_number)
        held.append(object_ is not None and store in holding.of(slice_.end, object_.holders))
    return held
