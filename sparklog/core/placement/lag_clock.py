"""Finds followers that lag, which are then taken out of the ISR.

While writers continue, a follower may always be a little behind. So a follower lags only if it has been in the ISR for
the last `replica.lag.time.max.ms`, and still lacks something that the leader already had when that period began. Kafka
computes the same from the fetches that its leader serves (KIP-16, `Replica.isCaughtUp`). Here no leader sees a follower
fetch, so this clock remembers the leader's LEOs of the last `replica.lag.time.max.ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sparklog.core.commands import LaggingReplicas
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState, Partition, Store
from sparklog.core.tables.copy_on_write import CopyOnWriteMap
from sparklog.core.types import LeaderEpoch, Offset, StoreId, TopicPartition

LOG_ENDS: Final = 16  # LEOs of the leader kept per period and partition (at most twice as many); others are left out


@dataclass(slots=True)
class _Behind:
    """A partition with an in-sync follower that is behind the leader. Times are milliseconds of the caller's clock."""

    leader_epoch: LeaderEpoch
    leader_ends: list[tuple[int, Offset]] = field(default_factory=list)  # since when the leader's LEO is known; ascends
    in_sync_since: dict[StoreId, tuple[int, int]] = field(default_factory=dict)  # registration, time


class LagClock:
    """Finds followers that lag (see the module) in the partitions that `store` leads; in all if `store` is None.

    Call `observe` with each newer state, then `check`. A process that takes over begins with a new LagClock. Partitions
    whose followers have everything take no time and no memory while they are unchanged.
    """

    def __init__(self, store: StoreId | None) -> None:
        self._store = store
        self._partitions: CopyOnWriteMap[TopicPartition, Partition] = CopyOnWriteMap()
        self._behind: dict[TopicPartition, _Behind] = {}
        self._stores: CopyOnWriteMap[StoreId, Store] = CopyOnWriteMap()
        self._period_ms = 0
        self._asked_ms = 0
        self._check_ms = 0

    def observe(self, state: ClusterState, asked_ms: int, now_ms: int) -> None:
        """Take a state that was requested at `asked_ms` and arrived at `now_ms`.

        The followers' LEOs in this state count as of `asked_ms`, the leader's LEO as of `now_ms`. So if this process
        was paused between these times, no follower counts as lagging by mistake.
        """
        self._period_ms = effective_cluster(state.config).replica_lag_time_max_ms
        self._asked_ms = asked_ms
        changed = {*state.partitions.differing(self._partitions)}
        if [*state.stores.differing(self._stores)]:  # a store may be registered again where its LEOs stay the same
            changed.update(self._behind)
        for key in changed:
            partition = state.partitions.get(key)
            if partition is None or not self._has_follower_behind(partition.replication):
                self._behind.pop(key, None)
            else:
                self._remember(key, partition.replication, state, now_ms)
        self._partitions, self._stores = state.partitions, state.stores

    def check(self, now_ms: int) -> tuple[LaggingReplicas, ...]:
        """Return the followers that lag in the newest state, in ascending order of their partitions.

        After a check, returns () until half of `replica.lag.time.max.ms` has passed.
        """
        if now_ms < self._check_ms:
            return ()
        self._check_ms = now_ms + self._period_ms // 2
        lagging = []
        for key in sorted(self._behind):
            value = self._partitions[key].replication
            stores = self._lagging(self._behind[key], value)
            if stores:
                lagging.append(LaggingReplicas(key.topic_id, key.partition, value.leader_epoch, value.version, stores))
        return tuple(lagging)

    def _has_follower_behind(self, value: Replication) -> bool:
        watched = value.leader is not None if self._store is None else value.leader == self._store
        return watched and any(value.log_end(store) < value.next_offset for store in value.isr)

    def _remember(self, key: TopicPartition, value: Replication, state: ClusterState, now_ms: int) -> None:
        behind = self._behind.get(key)
        if behind is None or behind.leader_epoch != value.leader_epoch:
            behind = self._behind[key] = _Behind(value.leader_epoch)
        ends = behind.leader_ends
        if not ends or value.next_offset > ends[-1][1]:
            if len(ends) > 1 and (now_ms - ends[-2][0]) * LOG_ENDS < self._period_ms:
                ends.pop()  # as if the leader had got this far only now, in the follower's favour
            ends.append((now_ms, value.next_offset))
        before, behind.in_sync_since = behind.in_sync_since, {}
        for store in value.isr:
            registration = state.stores[store].registration
            known = before.get(store)
            behind.in_sync_since[store] = (
                known if known is not None and known[0] == registration else (registration, now_ms)
            )

    def _lagging(self, behind: _Behind, value: Replication) -> tuple[StoreId, ...]:
        """Return the followers that lack something that the leader already had `replica.lag.time.max.ms` ago.

        That time is counted back from the request for the newest state. Followers that were not yet in sync then are
        left out.
        """
        then_ms = self._asked_ms - self._period_ms
        ends = behind.leader_ends
        while len(ends) > 1 and ends[1][0] < then_ms:
            del ends[0]
        # The leader's log end then. If the partition was not behind at that time, each `in_sync_ms` is later.
        _, leader_end = ends[0]
        return tuple(
            store
            for store, (_, in_sync_ms) in behind.in_sync_since.items()
            if in_sync_ms < then_ms and value.log_end(store) < leader_end
        )
