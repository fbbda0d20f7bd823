"""LEO, ISR and HW of a partition: a record is committed once every in-sync replica has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparklog.core.types import Offset, StoreId


def high_watermark(log_ends: Mapping[StoreId, Offset], isr: Collection[StoreId]) -> Offset:
    """Smallest log end in the ISR: every offset below it is on every in-sync replica (rule H1)."""
    return min(log_ends[store] for store in isr)


Assignment = tuple[tuple[StoreId, ...], ...]  # the stores of each partition, the preferred leader first


def assign(stores: tuple[StoreId, ...], partitions: int, replication_factor: int, first: int) -> Assignment:
    """Replicas of each partition, round robin over `stores` from `first` on; the preferred leader comes first."""
    return tuple(
        tuple(stores[(first + partition + replica) % len(stores)] for replica in range(replication_factor))
        for partition in range(partitions)
    )
