"""How far a group has come: committed offset, end and lag of each partition; and what lag is, for any reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sparklog.core.groups.membership import CommittedOffset, Group
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, TopicPartition


def committed_offsets(state: ClusterState, group: str) -> Mapping[TopicPartition, CommittedOffset]:
    """What a group has committed, by partition, ascending; nothing if there is no such group."""
    known = state.groups.get(group)
    return {} if known is None else state.offsets.of_group(known.number)


def lag_of(offset: int, log_start: Offset, high_watermark: Offset) -> int:
    """The offsets that a reader who goes on at `offset` has left to read, as Kafka counts them.

    After compaction there may be fewer records. Offsets below the log start don't count: nobody can read them any more.
    """
    return max(0, high_watermark - max(log_start, offset))


class GroupPartition(msgspec.Struct, frozen=True):
    """A partition of which a group has an offset, or which one of its members reads.

    `end` is the high watermark. `lag` is None if nothing is committed.
    """

    topic: str
    topic_partition: TopicPartition
    committed: CommittedOffset | None
    log_start: Offset
    end: Offset
    member_id: str | None

    @property
    def lag(self) -> int | None:
        """As `lag_of`."""
        return None if self.committed is None else lag_of(self.committed.offset, self.log_start, self.end)


def group_partitions(state: ClusterState, group: Group) -> Iterator[GroupPartition]:
    """The partitions of a group, by topic name and number."""
    committed = state.offsets.of_group(group.number)
    readers = {key: member.member_id for member in group.members for key in member.assigned}
    names = {key.topic_id: state.topics[key.topic_id].name for key in (*committed, *readers)}
    for key in sorted(committed.keys() | readers.keys(), key=lambda each: (names[each.topic_id], each.partition)):
        partition = state.partitions[key]
        yield GroupPartition(
            names[key.topic_id],
            key,
            committed.get(key),
            partition.log_start,
            partition.high_watermark,
            readers.get(key),
        )
