"""A store as a row, with the same fields in HTTP replies, Spark's tables and the command line's JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import msgspec

from sparklog.core.describe.replica_lags import replica_lags
from sparklog.core.placement.counts import ReplicaCounts
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId


class StoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """A store, with its replicas. `state` is one of STORE_CONDITIONS.

    `leaders`: the number of replicas that lead. `behind`: the number of those that lack something up to the end of the
    log; `lag_records` is the sum of their lags in offsets, `max_lag_records` the largest. `size_bytes`: the stored
    batch bytes of all its replicas, without orphans.
    """

    store: StoreId
    url: str
    zone: str | None
    registration: int
    state: str
    replicas: int
    leaders: int
    behind: int
    lag_records: int
    max_lag_records: int
    size_bytes: int


def store_rows(state: ClusterState, counts: ReplicaCounts, address: Callable[[str], str]) -> list[StoreRow]:
    """A row for each registered store, by id.

    `counts` are those of the state; `address` turns the URL of a registration into the one to show.
    """
    sizes: Counter[StoreId] = Counter()
    for topic in state.topics.values():
        for partition, lags in zip(state.partitions_of(topic), replica_lags(state, topic), strict=True):
            for store, lag in zip(partition.replication.replicas, lags, strict=True):
                sizes[store] += partition.size_bytes - lag.size_bytes
    return [
        StoreRow(
            store=name,
            url=address(store.url),
            zone=store.zone or None,
            registration=store.registration,
            state=store.condition,
            **asdict(counts.stores[name]),
            size_bytes=sizes[name],
        )
        for name, store in sorted(state.stores.items())
    ]
