"""The progress of a group: committed offset, high watermark and lag of each partition. `lag_of` defines the lag of any
reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sparklog.core.groups.membership import CommittedOffset, ConsumerGroup
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, TopicPartition


def committed_offsets(state: ClusterState, group: str) -> Mapping[TopicPartition, CommittedOffset]:
    """The committed offsets of a group by partition, in ascending order; empty if there is no such group."""
    known = state.groups.get(group)
    return {} if known is None else state.offsets.of_group(known.number)


def lag_of(offset: int, log_start: Offset, high_watermark: Offset) -> int:
    """The number of offsets that a reader at `offset` has left to read in the log, as Kafka counts them.

    After compaction there may be fewer records than offsets. Offsets below the log start are not counted.
    """
    return max(0, high_watermark - max(log_start, offset))


class GroupPartition(msgspec.Struct, frozen=True):
    """A partition in which a group has a committed offset, or which one of its members reads.

    `end` is the high watermark. `committed` and `lag` are None if nothing is committed. `member_id` is None if no
    member reads the partition.
    """

    topic: str
    topic_partition: TopicPartition
    committed: CommittedOffset | None
    log_start: Offset
    end: Offset
    member_id: str | None

    @property
    def lag(self) -> int | None:
        """The partition's lag, as `lag_of` counts it; None if nothing is committed."""
        return None if self.committed is None else lag_of(self.committed.offset, self.log_start, self.end)


def group_partitions(state: ClusterState, group: ConsumerGroup) -> Iterator[GroupPartition]:
    """Yield the partitions in which the group has a committed offset, and those that a member reads.

    They are ordered by topic name and partition number.
    """
    committed = state.offsets.of_group(group.number)
    readers = {key: member.member_id for member in group.members for key in member.assigned}
    names = {key.topic_id: state.topics[key.topic_id].name for key in (*committed, *readers)}
    for key in sorted(committed.keys() | readers.keys(), key=lambda place: (names[place.topic_id], place.partition)):
        partition = state.partitions[key]
        yield GroupPartition(
            names[key.topic_id],
            key,
            committed.get(key),
            partition.log_start,
            partition.high_watermark,
            readers.get(key),
        )
