"""Which stores new partitions are put on."""

from __future__ import annotations

from sparklog.core.types import StoreId

Assignment = tuple[tuple[StoreId, ...], ...]  # the stores of each partition, the preferred leader first


def assign(stores: tuple[StoreId, ...], partitions: int, replication_factor: int, first: int) -> Assignment:
    """Replicas of each partition, round robin over `stores` from `first` on; the preferred leader comes first."""
    return tuple(
        tuple(stores[(first + partition + replica) % len(stores)] for replica in range(replication_factor))
        for partition in range(partitions)
    )
