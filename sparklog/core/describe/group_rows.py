"""Rows of consumer groups, their members and their partitions, with the same fields wherever they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from msgspec import structs

from sparklog.core.describe.readable import counted, one_line_repr
from sparklog.core.describe.topic_rows import PartitionName
from sparklog.core.groups.group_progress import lag_of
from sparklog.core.groups.lag import NEVER, GroupLag, appended_ms
from sparklog.core.groups.membership import CommittedOffset, ConsumerGroup
from sparklog.core.lookup import existing_group
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import partition_key
from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, TopicPartition


class GroupName(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its generation. `state` is one of GROUP_CONDITIONS, Kafka's names."""

    group: str
    state: str
    generation: int


class GroupSummary(GroupName, frozen=True, kw_only=True):
    """A group with its lag. `lag` is the sum of the lags of its partitions, in offsets; `max_lag` the largest of them.

    `unread_since_ms` is the time at which the oldest unread record was appended, or null if all records are read. Its
    age is the metric `sparklog_group_lag_seconds` (docs/metrics.md).
    """

    lag: int
    max_lag: int
    unread_since_ms: int | None


class GroupRow(GroupSummary, frozen=True, kw_only=True):
    """A group in a list. `members` and `partitions` are counts; a partition counts if an offset is committed in it."""

    members: int
    partitions: int


class MemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group. `partitions`: the number of partitions that it reads. `instance_id`: of a static member.

    `renewed_at_entry`: the last entry of the chain in which it showed that it is alive.
    """

    member: str
    instance_id: str | None
    topics: tuple[str, ...]
    partitions: int
    session_timeout_ms: int
    renewed_at_entry: EntryNumber


class GroupPartitionRow(PartitionName, frozen=True, kw_only=True):
    """A partition in which a group has committed an offset, or which one of its members reads.

    `committed`, `leader_epoch`, `metadata`, `committed_ms` and `lag` are null if nothing is committed. Offsets
    [log_start, end) can be read: `end` is the high watermark. `member`: the member that reads the partition, or null.
    `unread_since_ms`: the time at which the oldest unread record was appended, or null if there is none.
    """

    committed: Offset | None
    leader_epoch: LeaderEpoch | None
    metadata: str | None
    committed_ms: int | None
    log_start: Offset
    end: Offset
    lag: int | None
    member: str | None
    unread_since_ms: int | None


class GroupDescription(GroupSummary, frozen=True, kw_only=True):
    """A group with its members and partitions."""

    members: tuple[MemberRow, ...]
    partitions: tuple[GroupPartitionRow, ...]

    def __repr__(self) -> str:
        counts = counted(len(self.members), "member"), counted(len(self.partitions), "partition")
        return one_line_repr("Group", self.group, self.state, *counts, f"lag {self.lag:,}")


def group_name(group: ConsumerGroup) -> GroupName:
    """The group without its lag."""
    return GroupName(group=group.name, state=group.condition, generation=group.generation)


def group_row(lag: GroupLag) -> GroupRow:
    """The group of this lag as a row of a list."""
    return GroupRow(
        **structs.asdict(group_name(lag.group)),
        lag=lag.lag_records,
        max_lag=lag.max_lag_records,
        unread_since_ms=lag.unread_since_ms,
        members=len(lag.group.members),
        partitions=sum(topic.partitions for topic in lag.topics),
    )


def describe_group(
    state: ClusterState, name: str, may_see: Callable[[str], bool] = lambda topic: True
) -> GroupDescription:
    """Describe the group `name` as of this state, as far as the caller may see its topics. Raises GroupIdNotFound."""
    group = existing_group(state, name)
    rows = [row for row in group_partition_rows(state, group) if may_see(row.topic)]
    reads = Counter(row.member for row in rows)
    lags = [row.lag for row in rows if row.lag is not None]
    times_ms = [row.unread_since_ms for row in rows if row.unread_since_ms is not None]
    return GroupDescription(
        **structs.asdict(group_name(group)),
        lag=sum(lags),
        max_lag=max(lags, default=0),
        unread_since_ms=min(times_ms, default=None),
        members=tuple(
            MemberRow(
                member=member.member_id,
                instance_id=member.instance_id,
                topics=tuple(topic for topic in member.topics if may_see(topic)),
                partitions=reads[member.member_id],
                session_timeout_ms=member.session_timeout_ms,
                renewed_at_entry=member.renewed_at,
            )
            for member in group.members
        ),
        partitions=tuple(rows),
    )


def group_partition_rows(state: ClusterState, group: ConsumerGroup) -> list[GroupPartitionRow]:
    """A row for each partition in which the group has a committed offset, and for each that a member reads.

    They are ordered by topic name and partition number.
    """
    committed = state.offsets.of_group(group.number)
    readers = {place: member.member_id for member in group.members for place in member.assigned}
    names = {place.topic_id: state.topics[place.topic_id].name for place in (*committed, *readers)}
    places = sorted(committed.keys() | readers.keys(), key=lambda place: (names[place.topic_id], place.partition))
    unread_since_ms = _unread_since_ms(state, committed)
    rows = []
    for place in places:
        partition, offset = state.partitions[place], committed.get(place)
        log_start, end = partition.log_start, partition.high_watermark
        rows.append(
            GroupPartitionRow(
                topic=names[place.topic_id],
                partition=place.partition,
                committed=None if offset is None else offset.offset,
                leader_epoch=None if offset is None else offset.leader_epoch,
                metadata=None if offset is None else offset.metadata,
                committed_ms=None if offset is None else offset.committed_ms,
                log_start=log_start,
                end=end,
                lag=None if offset is None else lag_of(offset.offset, log_start, end),
                member=readers.get(place),
                unread_since_ms=unread_since_ms.get(place),
            )
        )
    return rows


def _unread_since_ms(
    state: ClusterState, committed: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, int]:
    """The time at which the oldest unread record of each partition was appended, for partitions that have one."""
    next_offsets = {
        place: max(offset.offset, partition.log_start)
        for place, offset in committed.items()
        for partition in [state.partitions[place]]
        if offset.offset < partition.high_watermark
    }
    keys = np.array(list(map(partition_key, next_offsets)), dtype=np.int64)
    since_ms = appended_ms(state, keys, np.array(list(next_offsets.values()), dtype=np.int64)).tolist()
    return {place: at_ms for place, at_ms in zip(next_offsets, since_ms, strict=True) if at_ms != NEVER}
