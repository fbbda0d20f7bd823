"""Ends of the leader epochs of a partition: Kafka's OffsetsForLeaderEpoch."""

from __future__ import annotations

from sparklog.core.errors import InvalidInput
from sparklog.core.lookup import partition_of
from sparklog.core.replication.epoch_history import EpochEnd, end_of_epoch
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import LeaderEpoch


def end_of_leader_epoch(state: ClusterState, topic: Topic, partition: int, leader_epoch: int) -> EpochEnd | None:
    """Return the greatest leader epoch in a partition's history up to `leader_epoch`, and its end.

    The newest epoch ends at the log end, which may lie above the high watermark. An older one ends where the next
    greater one begins. If `leader_epoch` is older than the history, returns it with the start of the history as its
    end. Returns None for an epoch that has not begun. Raises InvalidInput (a negative epoch), UnknownTopicOrPartition.
    """
    if leader_epoch < 0:
        raise InvalidInput(f"a leader epoch is 0 or greater, found {leader_epoch}")
    value = partition_of(state, topic, partition).replication
    return end_of_epoch(value.epochs, value.next_offset, LeaderEpoch(leader_epoch))
