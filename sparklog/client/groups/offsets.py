"""Committed offsets of a group, and commits to a group by a process that is no member. Members are in `member.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sparklog.client.connection import Connection
from sparklog.core.commands import CommitOffsets
from sparklog.core.describe.readable import counted, one_line_repr
from sparklog.core.errors import InconsistentClusterId, InvalidInput
from sparklog.core.groups.group_progress import GroupPartition, committed_offsets, group_partitions
from sparklog.core.groups.membership import (
    OFFSETS_PER_COMMIT,
    CommittedOffset,
    Member,
    OffsetToCommit,
    check_commit_size,
)
from sparklog.core.lookup import existing_group, partition_of, topic_of
from sparklog.core.reading.positions import Position
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, Place, TopicPartition

Offsets = Mapping[Place, int | Position]


class GroupDescription(msgspec.Struct, frozen=True):
    """A group as it is now: its members, and its progress in each partition."""

    group: str
    condition: str
    generation: int
    members: tuple[Member, ...]
    partitions: tuple[GroupPartition, ...]

    def __repr__(self) -> str:
        counts = counted(len(self.members), "member"), counted(len(self.partitions), "partition")
        return one_line_repr("Group", self.group, self.condition, *counts, f"lag {self.lag:,}")

    @property
    def lag(self) -> int:
        """Number of offsets left to read, in all partitions with a committed offset together."""
        return sum(partition.lag or 0 for partition in self.partitions)


def describe_group(state: ClusterState, name: str) -> GroupDescription:
    """The group. Raises GroupIdNotFound."""
    group = existing_group(state, name)
    partitions = tuple(group_partitions(state, group))
    return GroupDescription(name, group.condition, group.generation, group.members, partitions)


def committed(state: ClusterState, name: str) -> dict[Place, CommittedOffset]:
    """The offsets that a group has committed, by topic and partition; none if there is no such group."""
    rows = committed_offsets(state, name)
    return {(state.topics[key.topic_id].name, key.partition): row for key, row in rows.items()}


def commit_offsets(connection: Connection, group: str, offsets: Offsets, metadata: str = "") -> None:
    """Commit to a group without members: all of these offsets, or nothing; see `Cluster.commit_offsets`."""
    state = connection.follower.newest_state()
    command = CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, metadata))
    connection.submit(command)


def commit_with_records(state: ClusterState, group: str, offsets: Offsets) -> CommitOffsets:
    """A commit of these offsets to a group without members, for `Append.consumed`. Raises as `rows_to_commit` does."""
    return CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, "", with_records=True))


def commit_of_stream(state: ClusterState, group: str, positions: Iterable[Position]) -> CommitOffsets | None:
    """The commit of a stream's positions to a group without members; None if there is nothing to commit.

    If a partition has several positions, the lowest counts: everything below it was consumed. Partitions that are gone
    are left out, and so are those in which the group already has exactly this offset: a stream of many partitions
    commits only those that it read.
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
    """Move a group forward to a stream's positions. In partitions where it is already further, it stays.

    Many partitions take several commits. If one fails, the next call resumes from there. Raises UnknownMemberId if the
    group has members, InvalidGroupId, and the errors of `commit_offsets`.
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
    """The rows of a commit. An offset without a position counts as read under the present leader epoch.

    Raises UnknownTopicOrPartition, InconsistentClusterId (a position of another cluster), InvalidInput (a position of
    another topic or partition), InvalidCommitOffsetSize.
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
