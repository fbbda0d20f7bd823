"""Which stores hold the slices of a partition, according to the state: `replication/holders.py` for many slices."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.replication.holders import stores_holding
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Holder, Offset, StoreId


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
