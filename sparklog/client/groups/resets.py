"""Resets the committed offsets of a group, as Kafka's kafka-consumer-groups --reset-offsets does.

The group must have no members, neither for the plan nor for the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum

import msgspec

from sparklog.client.groups.offsets import committed, rows_to_commit
from sparklog.core.commands import CommitOffsets
from sparklog.core.decide.groups import check_no_members
from sparklog.core.errors import InvalidInput
from sparklog.core.lookup import chosen_partitions, existing_group, topic_of
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import Place

OffsetForTime = Callable[[str, int, int], int | None]  # of topic, partition and microseconds: `Cluster.offset_for_time`


class ResetKind(StrEnum):
    """Kinds of targets to which the offsets of a group can be reset."""

    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    OFFSET = "to-offset"
    DATETIME = "to-datetime"
    SHIFT = "shift-by"
    CURRENT = "to-current"


class ResetTarget(msgspec.Struct, frozen=True):
    """The target of a reset. The meaning of `value` depends on `kind`.

    OFFSET: the offset. DATETIME: the time in microseconds since the epoch. SHIFT: the number of offsets to move by,
    negative to go back. EARLIEST, LATEST and CURRENT: unused.
    """

    kind: ResetKind
    value: int = 0


def reset_command(
    state: ClusterState,
    offset_for_time: OffsetForTime,
    group: str,
    target: ResetTarget,
    topics: Sequence[str],
    chosen: Collection[int] = (),
) -> CommitOffsets:
    """The command that resets the partitions `chosen` of `topics`; if `chosen` is empty, all partitions of `topics`.

    If `topics` is empty, it resets all partitions in which the group has a committed offset; there may be none. A
    target below the log start is raised to the log start, and one above the high watermark is lowered to it, as in
    Kafka's tool. With `topics`, the group need not exist yet. Raises GroupIdNotFound, NonEmptyGroup, InvalidInput (a
    shift of a partition without a committed offset), UnknownTopicOrPartition, InvalidCommitOffsetSize, and the errors
    of `offset_for_time`.
    """
    known = state.groups.get(group) if topics else existing_group(state, group)
    if known is not None:
        check_no_members(known)
    before = {place: row.offset for place, row in committed(state, group).items()}
    places = _places(state, topics or sorted({topic for topic, _ in before}), chosen)
    offsets: dict[Place, int] = {}
    for topic, partition in places:
        if not topics and (topic, partition.partition) not in before:
            continue
        was = before.get((topic, partition.partition))
        wanted = _wanted(offset_for_time, target, topic, partition, was)
        offsets[topic, partition.partition] = min(max(wanted, partition.log_start), partition.high_watermark)
    return CommitOffsets(state.chain_id, group, rows_to_commit(state, offsets, ""))


def _places(state: ClusterState, topics: Sequence[str], chosen: Collection[int]) -> list[tuple[str, Partition]]:
    return [
        (topic, partition)
        for topic in dict.fromkeys(topics)
        for partition in chosen_partitions(state, topic_of(state, topic), tuple(chosen))
    ]


def _wanted(
    offset_for_time: OffsetForTime, target: ResetTarget, topic: str, partition: Partition, before: int | None
) -> int:
    match target.kind:
        case ResetKind.EARLIEST:
            return partition.log_start
        case ResetKind.LATEST:
            return partition.high_watermark
        case ResetKind.OFFSET:
            return target.value
        case ResetKind.DATETIME:
            offset = offset_for_time(topic, partition.partition, target.value)
            return partition.high_watermark if offset is None else offset
        case ResetKind.SHIFT:
            if before is None:
                raise InvalidInput(f"nothing is committed in {topic}-{partition.partition}, so it can't be shifted")
            return before + target.value
        case ResetKind.CURRENT:
            return partition.high_watermark if before is None else before
