"""The status of each replica: its role in the partition, and how far it is behind the end of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from sparklog.core.row_offsets import records_between
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Offset, OffsetRange, StoreId, TopicPartition


class ReplicaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of a partition. `lag_records` and `lag_bytes` are what it lacks from `log_end` to the end of the log.

    `size_bytes` are stored batch bytes up to `log_end`. `may_lead`: it has every committed record, so it can be elected
    without a loss. `reachable`: its store is neither fenced nor reported as down.
    """

    store: StoreId
    zone: str
    is_leader: bool
    in_isr: bool
    in_elr: bool
    may_lead: bool
    log_end: Offset
    lag_records: int
    lag_bytes: int
    size_bytes: int
    registration: int
    reachable: bool
    adding: bool
    removing: bool


class StoreUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a store: its replicas, those that lead, and their stored batch bytes, without orphans."""

    replicas: int
    leaders: int
    size_bytes: int


def replica_statuses(state: ClusterState, partition: Partition) -> Iterator[ReplicaStatus]:
    """The replicas of the partition in the order of its assignment."""
    value = partition.replication
    for name, log_end in zip(value.replicas, value.log_ends, strict=True):
        store = state.stores[name]
        lag_records, lag_bytes = _lag(state, partition, log_end)
        yield ReplicaStatus(
            store=name,
            zone=store.zone,
            is_leader=name == value.leader,
            in_isr=name in value.isr,
            in_elr=name in value.elr,
            may_lead=log_end >= value.high_watermark,
            log_end=log_end,
            lag_records=lag_records,
            lag_bytes=lag_bytes,
            size_bytes=partition.size_bytes - lag_bytes,
            registration=store.registration,
            reachable=store.reachable,
            adding=name in value.adding,
            removing=name in value.removing,
        )


def store_uses(state: ClusterState) -> dict[StoreId, StoreUse]:
    """The use of each registered store."""
    replicas: Counter[StoreId] = Counter()
    leaders: Counter[StoreId] = Counter()
    sizes: Counter[StoreId] = Counter()
    for partition in state.partitions.values():
        value = partition.replication
        replicas.update(value.replicas)
        if value.leader is not None:
            leaders[value.leader] += 1
        for store, log_end in zip(value.replicas, value.log_ends, strict=True):
            sizes[store] += partition.size_bytes - _lag(state, partition, log_end)[1]
    return {
        store: StoreUse(replicas=replicas[store], leaders=leaders[store], size_bytes=sizes[store])
        for store in state.stores
    }


def _lag(state: ClusterState, partition: Partition, log_end: Offset) -> tuple[int, int]:
    """Records and bytes between a replica's LEO and the end of the log. Offsets without a record don't count."""
    if log_end >= partition.next_offset:
        return 0, 0
    key = TopicPartition(partition.topic_id, partition.partition)
    beyond = state.slices.find(key, OffsetRange(log_end, partition.next_offset)).columns
    records = min(int(beyond["records"].sum()), records_between(log_end, partition.next_offset))
    return records, int(beyond["length"].sum())
