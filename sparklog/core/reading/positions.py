"""The positions that readers keep, and how far a position is still valid after elections (KIP-320)."""

from __future__ import annotations

import msgspec

from sparklog.core.errors import InconsistentClusterId, UnknownLeaderEpoch
from sparklog.core.lookup import existing_partition
from sparklog.core.replication.epoch_history import end_of_epoch
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState
from sparklog.core.types import LeaderEpoch, Name, Offset, PartitionIndex, TopicId, TopicPartition


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The position of a reader that has read everything below `offset`, as the log was under `leader_epoch`.

    `leader_epoch` is the partition's epoch in the state with which the read was planned. (A Kafka client keeps the
    epoch of its last record, which is checked in the same way.) A topic that is deleted and created again has another
    id.
    """

    chain_id: Name
    topic_id: TopicId
    partition: PartitionIndex
    offset: Offset
    leader_epoch: LeaderEpoch


def valid_up_to(state: ClusterState, position: Position) -> Offset:
    """Return the position's offset, or a lower one if the log no longer has all records that the reader has read.

    Below the result the log has the same records that the reader has read. The result is lower than the position's
    offset if an unclean election gave up records below that offset after the position was taken. The log start is not
    checked.

    The result may be too low in two cases, because records that were given up before the position was taken count, too:
    if a rewrite gave up records of the position's own epoch, and if the epoch history no longer has that epoch, so that
    the one before it counts instead.

    Raises the errors of `check_same_log`.
    """
    value, epoch, end = _of_same_log(state, position)
    begin = dict(value.epochs).get(epoch, Offset(0))
    newest = position.leader_epoch == value.leader_epoch
    # A range may begin before the epoch: those of two elections are one if nothing is left between them.
    given_up = (max(lost.start, begin) for lost in value.lost if not newest and lost.end > begin and lost.start < end)
    return min([position.offset, *given_up])


def check_same_log(state: ClusterState, position: Position) -> None:
    """Check that `state` has the partition of the position, and is not older than the position. Ignores lost records.

    Raises InconsistentClusterId (the position belongs to another cluster), UnknownTopicOrPartition (the topic was
    deleted, or created again), UnknownLeaderEpoch (the epoch is newer than this state).
    """
    _of_same_log(state, position)


def _of_same_log(state: ClusterState, position: Position) -> tuple[Replication, LeaderEpoch, Offset]:
    """Return the partition's replicas, and the epoch by which the position is checked, with its end."""
    if position.chain_id != state.chain_id:
        raise InconsistentClusterId(
            f"wanted cluster {position.chain_id}, found cluster {state.chain_id}: {_why(state, position.chain_id)}"
        )
    key = TopicPartition(position.topic_id, position.partition)
    value = existing_partition(state, key).replication
    ended = end_of_epoch(value.epochs, value.next_offset, position.leader_epoch)
    if ended is None:
        raise UnknownLeaderEpoch(
            f"{state.topics[position.topic_id].name}-{position.partition}: the position {position.offset} is of leader "
            f"epoch {position.leader_epoch}, the newest one is {value.leader_epoch}"
        )
    return value, *ended


def _why(state: ClusterState, chain_id: str) -> str:
    if chain_id in state.ancestors:
        return (
            "it was restored from a copy of its metadata. Records that a reader saw but that were never confirmed to "
            "their writer may be gone, and their offsets taken: begin again, from an offset that you know to be right"
        )
    return "it was deleted and created again"
