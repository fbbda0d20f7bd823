"""How far a group has come: committed offset, end and lag of each partition."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sparklog.core.groups import CommittedOffset, Group
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, TopicPartition


class GroupPartition(msgspec.Struct, frozen=True):
    """A partition of which a group has an offset, or which one of its members reads.

    `lag` counts the offsets from where the group goes on up to the high watermark `end`, as Kafka's does: after
    compaction there may be fewer records. It is None if nothing is committed. Offsets below the log start don't count,
    as nobody can read them any more.
    """

    topic: str
    topic_partition: TopicPartition
    committed: CommittedOffset | None
    log_start: Offset
    end: Offset
    member_id: str | None

    @property
    def lag(self) -> int | None:
        """Offsets that are left to read."""
        return None if self.committed is None else self.end - max(self.committed.offset, self.log_start)


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
