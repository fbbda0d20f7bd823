"""Requests about consumer groups, and the replies.

GET  /v1/groups           -> GroupsReply
GET  /v1/groups/{name}    -> GroupReply

Any coordinator answers these requests, whether it leads or stands by. A reply has only what the caller may see: the
partitions of topics that it may describe, and the groups that have committed in such a topic or read it. A caller that
may describe all topics sees all groups.
"""

from __future__ import annotations

import msgspec

from sparklog.core.types import EntryNumber, LeaderEpoch, Offset, PartitionIndex

GROUPS = "/v1/groups"
GROUP = "/v1/groups/{name:path}"  # a name may contain slashes

MOST_GROUPS = 1_000


class GroupSummary(msgspec.Struct, frozen=True):
    """A group. `members` and `partitions` are counts; a partition counts if the group has committed an offset in it.

    `lag` is the sum of the lags of these partitions, in offsets; `max_lag` is the largest of them. `unread_since_ms` is
    the time at which the oldest unread record was appended, or null if all records are read. Its age is the metric
    `sparklog_group_lag_seconds` (docs/metrics.md).
    """

    group: str
    state: str
    generation: int
    members: int
    partitions: int
    lag: int
    max_lag: int
    unread_since_ms: int | None


class GroupsReply(msgspec.Struct, frozen=True):
    """Groups, sorted by name. `more` is true if further groups follow the last one."""

    chain_id: str
    position: EntryNumber
    groups: tuple[GroupSummary, ...]
    more: bool


class MemberReply(msgspec.Struct, frozen=True):
    """A member of a group. `partitions`: the number of partitions that it reads, of those that the caller may see."""

    member: str
    topics: tuple[str, ...]
    partitions: int
    session_timeout_ms: int


class GroupPartitionReply(msgspec.Struct, frozen=True):
    """A partition of a group. `committed`, `leader_epoch`, `committed_ms` and `lag` are null if nothing is committed.

    Offsets [log_start, high_watermark) can be read. `member`: the member that reads the partition, or null.
    """

    topic: str
    partition: PartitionIndex
    committed: Offset | None
    leader_epoch: LeaderEpoch | None
    committed_ms: int | None
    metadata: str
    log_start: Offset
    high_watermark: Offset
    lag: int | None
    member: str | None


class GroupReply(msgspec.Struct, frozen=True):
    """A group with some of its partitions. `partitions_total` is the number of all that the caller may see.

    `more` is true if further partitions follow the last one.
    """

    chain_id: str
    position: EntryNumber
    summary: GroupSummary
    members: tuple[MemberReply, ...]
    partitions_total: int
    partitions: tuple[GroupPartitionReply, ...]
    more: bool
