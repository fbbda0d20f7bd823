"""Resets the committed offsets of a group, as Kafka's kafka-consumer-groups --reset-offsets does.

`plan_reset` changes nothing and returns a plan, which the caller may show; `reset_offsets` commits it. The group must
have no members, neither for the plan nor for the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import StrEnum

import msgspec

from sparklog.client.cluster import Cluster
from sparklog.client.groups.offsets import committed
from sparklog.core.decide.groups import check_no_members
from sparklog.core.errors import InvalidInput
from sparklog.core.lookup import chosen_partitions, existing_group, topic_of
from sparklog.core.state import ClusterState, Partition

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


class PlannedReset(msgspec.Struct, frozen=True):
    """The planned reset of a partition: `before` is the committed offset now (None: none), `after` the new one.

    `end`: the high watermark.
    """

    topic: str
    partition: int
    before: int | None
    after: int
    end: int

    @property
    def lag(self) -> int:
        """The group's lag in this partition after the reset, in offsets."""
        return self.end - self.after


def plan_reset(
    cluster: Cluster, group: str, target: ResetTarget, topics: Sequence[str], chosen: Collection[int] = ()
) -> list[PlannedReset]:
    """Plan a reset from the newest state. Commits nothing. For parameters and errors see `planned_resets`."""
    state = cluster.connection.newest_state()
    return planned_resets(state, cluster.offset_for_time, group, target, topics, chosen)


def planned_resets(
    state: ClusterState,
    offset_for_time: OffsetForTime,
    group: str,
    target: ResetTarget,
    topics: Sequence[str],
    chosen: Collection[int] = (),
) -> list[PlannedReset]:
    """Plan a reset for the partitions `chosen` of `topics`; if `chosen` is empty, for all partitions of `topics`.

    If `topics` is empty, the plan is for all partitions in which the group has a committed offset. A target below the
    log start is raised to the log start, and one above the high watermark is lowered to it, as in Kafka's tool. With
    `topics`, the group need not exist yet. Raises GroupIdNotFound, NonEmptyGroup, UnknownTopicOrPartition, InvalidInput
    (a shift of a partition without a committed offset), and the errors of `offset_for_time`.
    """
    known = state.groups.get(group) if topics else existing_group(state, group)
    if known is not None:
        check_no_members(known)
    before = {place: row.offset for place, row in committed(state, group).items()}
    places = _places(state, topics or sorted({topic for topic, _ in before}), chosen)
    plan = []
    for topic, partition in places:
        if not topics and (topic, partition.partition) not in before:
            continue
        was = before.get((topic, partition.partition))
        wanted = _wanted(offset_for_time, target, topic, partition, was)
        after = min(max(wanted, partition.log_start), partition.high_watermark)
        plan.append(PlannedReset(topic, partition.partition, was, after, partition.high_watermark))
    return plan


def reset_offsets(cluster: Cluster, group: str, plan: Sequence[PlannedReset]) -> None:
    """Commit the `after` offsets of the plan, all or nothing. Raises the errors of `Cluster.commit_offsets`."""
    cluster.commit_offsets(group, {(reset.topic, reset.partition): reset.after for reset in plan})


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
