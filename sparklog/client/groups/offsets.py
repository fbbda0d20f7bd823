"""Reads the committed offsets of a group, and commits to groups without members. For members, see `member.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sparklog.client.connection import Connection
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import InconsistentClusterId, InvalidInput
from sparklog.core.groups.group_progress import committed_offsets
from sparklog.core.groups.membership import (
    OFFSETS_PER_COMMIT,
    CommittedOffset,
    OffsetToCommit,
    check_commit_size,
)
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.positions import Position
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, Place, TopicPartition

Offsets = Mapping[Place, int | Position]


def committed(state: ClusterState, name: str) -> dict[Place, CommittedOffset]:
    """The committed offsets of the group `name`, keyed by (topic, partition); empty if there is no such group."""
    rows = committed_offsets(state, name)
    return {(state.topics[key.topic_id].name, key.partition): row for key, row in rows.items()}


def commit_offsets(connection: Connection, group: str, offsets: Offsets, metadata: str = "") -> None:
    """Commit these offsets to a group without members: all of them, or nothing; see `Cluster.commit_offsets`."""
    state = connection.newest_state()
    command = CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, metadata))
    connection.submit(command)


def commit_with_records(state: ClusterState, group: str, offsets: Offsets) -> CommitOffsets:
    """The command that commits these offsets to a group without members, for `Append.consumed`.

    Raises the errors of `rows_to_commit`.
    """
    return CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, "", with_records=True))


def commit_of_stream(state: ClusterState, group: str, positions: Iterable[Position]) -> CommitOffsets | None:
    """The command that commits a stream's positions to a group without members; None if no offset would change.

    If a partition has several positions, the lowest is committed, because all records below it were consumed. The
    command leaves out partitions that no longer exist, and those whose committed offset would not change: of many
    partitions, a stream commits only those that it read.
    """
    lowest: dict[TopicPartition, Position] = {}
    for position in positions:
        key = TopicPartition(position.topic_id, position.partition)
        known = lowest.get(key)
        if key in state.partitions and (known is None or position.offset < known.offset):
            lowest[key] = position
    has = committed_offsets(state, group)
    rows = tuple(
        OffsetToCommit(position.topic_id, position.partition, position.offset, position.leader_epoch)
        for key, position in lowest.items()
        if key not in has or has[key].offset != position.offset
    )
    return CommitOffsets(state.chain_id, group, rows) if rows else None


def advance_group(connection: Connection, group: str, positions: Iterable[Position]) -> None:
    """Commit a stream's positions to a group without members, except where the group's offset is higher already.

    One commit takes at most OFFSETS_PER_COMMIT partitions; more take several commits. If one fails, those before it
    remain, and the next call commits the rest. Raises UnknownMemberId if the group has members, InvalidGroupId if its
    name is not legal, and the other errors of `commit_offsets`.
    """
    command = commit_of_stream(connection.follower.state, group, positions)
    if command is None:
        return
    for at in range(0, len(command.offsets), OFFSETS_PER_COMMIT):
        rows = command.offsets[at : at + OFFSETS_PER_COMMIT]
        connection.submit(msgspec.structs.replace(command, offsets=rows, only_forward=True))


def rows_to_commit(
    state: ClusterState, offsets: Offsets, metadata: str, *, with_records: bool = False
) -> tuple[OffsetToCommit, ...]:
    """Convert `offsets` to the rows of a commit command. A plain offset gets the partition's present leader epoch.

    `with_records`: true for `Append.consumed`; this only changes the text of InvalidCommitOffsetSize. Raises
    UnknownTopicOrPartition, InconsistentClusterId (a position of another cluster), InvalidInput (a position of another
    topic or partition), InvalidCommitOffsetSize.
    """
    rows = []
    for (name, index), wanted in offsets.items():
        topic = topic_of(state, name)
        partition = partition_of(state, topic, index)
        if isinstance(wanted, Position):
            if wanted.chain_id != state.chain_id:
                raise InconsistentClusterId(
                    f"the position in {name}-{index} is of cluster {wanted.chain_id}, this is {state.chain_id}"
                )
            if (wanted.topic_id, wanted.partition) != (topic.topic_id, index):
                raise InvalidInput(
                    f"the position is of topic id {wanted.topic_id}, partition {wanted.partition}; {name}-{index} has "
                    f"topic id {topic.topic_id}: the topic was deleted and created again, or this is another one"
                )
            rows.append(
                OffsetToCommit(topic.topic_id, partition.partition, wanted.offset, wanted.leader_epoch, metadata)
            )
        else:
            epoch = partition.replication.leader_epoch
            rows.append(OffsetToCommit(topic.topic_id, partition.partition, Offset(wanted), epoch, metadata))
    check_commit_size(rows, with_records=with_records)  # here, as the request would be large, too
    return tuple(rows)
