"""Which stores hold the slices of a partition, according to the state: `replication/holders.py` for many slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sparklog.core.column_blocks import Column
from sparklog.core.replication.holders import stores_holding
from sparklog.core.slice_table import SliceColumns
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Holder, Offset, OffsetRange, StoreId, TopicPartition


class Holding:
    """The stores that hold slices of one partition. It is fast for many slices: nearly all are on every replica."""

    def __init__(self, state: ClusterState, partition: Partition) -> None:
        self._replicas = partition.replication
        self._registrations = {store.store: store.registration for store in state.stores.values()}
        self._unreachable = [store.store for store in state.stores.values() if not store.reachable]
        self._level_up_to = min(self._replicas.log_ends)
        self._everywhere = self._of(self._level_up_to, ())

    def of(self, slice_end: Offset, named: Sequence[Holder]) -> tuple[StoreId, ...]:
        """The stores that hold a slice up to `slice_end`, in the order in which a reader tries them."""
        return self._everywhere if slice_end <= self._level_up_to else self._of(slice_end, named)

    def _of(self, slice_end: Offset, named: Sequence[Holder]) -> tuple[StoreId, ...]:
        return stores_holding(slice_end, named, self._replicas, self._registrations, unreachable=self._unreachable)


def held_by_store(
    state: ClusterState, store: StoreId, partition: Partition
) -> tuple[Mapping[str, Column], npt.NDArray[np.bool_]]:
    """The slices of a partition as columns, and which of them its replica on the store holds."""
    key = TopicPartition(partition.topic_id, partition.partition)
    slices = state.slices.find(key, whole_log(partition))
    held = slices.columns["end"] <= partition.replication.log_end(store)
    above = np.flatnonzero(~held)
    if len(above):
        held[above] = _held_by_name(state, store, partition, slices.rows(int(above[0]), len(slices)))
    return slices.columns, held


def whole_log(partition: Partition) -> OffsetRange:
    """All offsets of a partition, up to its LEO."""
    return OffsetRange(partition.log_start, partition.next_offset)


def _held_by_name(state: ClusterState, store: StoreId, partition: Partition, slices: SliceColumns) -> list[bool]:
    holding = Holding(state, partition)
    held = []
    for slice_ in slices:
        object_ = state.objects.get(slice_.object_number)
        held.append(object_ is not None and store in holding.of(slice_.end, object_.holders))
    return held
