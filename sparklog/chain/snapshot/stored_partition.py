"""A partition as a snapshot stores it: each store is a number, and a field with its usual value is None.

This form is small, because a snapshot has all partitions of the cluster, maybe 100,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sparklog.core.replication.epoch_history import EpochHistory
from sparklog.core.replication.partition import Replication
from sparklog.core.state import Partition
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex, StoreId, TopicId

StoredStores = tuple[int, ...]  # positions in the snapshot's list of stores


class StoredExtras(msgspec.Struct, frozen=True, array_like=True):
    """Fields that few partitions need: those with an ELR, a move under way, or lost records."""

    elr: StoredStores
    adding: StoredStores
    removing: StoredStores
    lost: tuple[OffsetRange, ...]
    arrived: tuple[tuple[int, Offset], ...]


class StoredPartition(msgspec.Struct, frozen=True, array_like=True):
    """A partition in stored form. If `isr` is None, all replicas are in sync.

    If `log_ends` is None, all replicas end at `next_offset`. If `high_watermark` is None, it equals `next_offset`.
    """

    topic_id: TopicId
    partition: PartitionIndex
    replicas: StoredStores
    leader: int | None
    leader_epoch: LeaderEpoch
    version: int
    isr: StoredStores | None
    log_ends: tuple[Offset, ...] | None
    next_offset: Offset
    high_watermark: Offset | None
    log_start: Offset
    epochs: EpochHistory
    size_bytes: int = 0
    extras: StoredExtras | None = None


def stored(partition: Partition, numbers: Mapping[StoreId, int]) -> StoredPartition:
    """Return the partition in stored form. `numbers`: each store's position in the snapshot's list of stores."""
    value = partition.replication

    def numbered(stores: Iterable[StoreId]) -> tuple[int, ...]:
        return tuple(numbers[store] for store in stores)

    extras = None
    if value.elr or value.adding or value.removing or value.lost or value.arrived:
        arrived = tuple((numbers[store], end) for store, end in value.arrived)
        extras = StoredExtras(
            numbered(value.elr), numbered(value.adding), numbered(value.removing), value.lost, arrived
        )
    end = value.next_offset
    return StoredPartition(
        partition.topic_id,
        partition.partition,
        numbered(value.replicas),
        None if value.leader is None else numbers[value.leader],
        value.leader_epoch,
        value.version,
        None if value.isr == value.replicas else numbered(value.isr),
        None if all(log_end == end for log_end in value.log_ends) else value.log_ends,
        end,
        None if value.high_watermark == end else value.high_watermark,
        value.log_start,
        value.epochs,
        partition.size_bytes,
        extras,
    )


def restored(partition: StoredPartition, stores: Sequence[StoreId]) -> Partition:
    """Return the partition from its stored form. The store with number n is `stores[n]`.

    Raises IndexError for a number that is not in `stores`.
    """

    def named(bits: StoredStores) -> tuple[StoreId, ...]:
        return tuple(stores[number] for number in bits)

    replicas, end = named(partition.replicas), partition.next_offset
    extras = partition.extras or StoredExtras((), (), (), (), ())
    value = Replication(
        replicas,
        None if partition.leader is None else stores[partition.leader],
        partition.leader_epoch,
        partition.version,
        replicas if partition.isr is None else named(partition.isr),
        (end,) * len(replicas) if partition.log_ends is None else partition.log_ends,
        end,
        end if partition.high_watermark is None else partition.high_watermark,
        partition.log_start,
        partition.epochs,
        named(extras.elr),
        named(extras.adding),
        named(extras.removing),
        extras.lost,
        tuple((stores[number], log_end) for number, log_end in extras.arrived),
    )
    return Partition(partition.topic_id, partition.partition, value, partition.size_bytes)
