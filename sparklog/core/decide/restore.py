"""Begins a new chain for a cluster whose chain was lost and is restored from a copy.

The log stays as it is: topics, offsets, high watermarks, and the writes of producers and applications. But nothing that
was begun on the lost chain may be committed to the new one: every partition gets a new leader epoch, and FLOOR rises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.decide.changes import of_each
from sparklog.core.records import At, ClusterRestored, FloorRaised, Record
from sparklog.core.replication.new_leader import led_by
from sparklog.core.replication.partition import Replication, ReplicationChange, settled
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber, StoreId, TopicPartition


def restored_records(
    state: ClusterState, chain_id: str, urls: Mapping[StoreId, str], given_up: Sequence[str], at: At
) -> tuple[Record, ...]:
    """Return the records with which the restored chain begins, at entry `at`.

    `chain_id`: the id of the new chain. `urls`: new addresses of stores. `given_up`: ids of the chains of earlier
    restores that failed before their first entry.
    """

    def renewed(key: TopicPartition, before: Replication, config: TopicConfig) -> ReplicationChange | Replication:
        if before.leader is None:
            return before
        led = led_by(before, before.leader)
        return ReplicationChange(settled(before, led.after, config.min_insync_replicas), led.forgotten)

    changes = of_each(state, [(key, key) for key in sorted(state.partitions)], renewed)
    restored = ClusterRestored(chain_id, EntryNumber(state.n), dict(urls), tuple(given_up))
    return (restored, FloorRaised(at.n), *changes)
