"""The offsets that are due for a table, and the part that the next commit adds. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sparklog.core.errors import DataLoss
from sparklog.core.reading.plan import WeighedRange, weigh
from sparklog.core.reading.positions import valid_up_to
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, PartitionIndex
from sparklog.spark.materialize.position import Mode, PartitionEnd, TablePosition


class DueRange(NamedTuple):
    """The offsets of a partition that are due: the table lacks them, and they are below the high watermark."""

    offsets: OffsetRange
    leader_epoch: LeaderEpoch


Due = dict[PartitionIndex, DueRange]


def due_ranges(
    state: ClusterState, topic: Topic, position: TablePosition | None, *, fail_on_data_loss: bool
) -> tuple[Due, list[str]]:
    """Return the offsets that the table lacks, by partition, and warnings about lost records.

    Without a position, the table lacks everything from the log start on. Records are lost if they were removed before
    the table got them, or if the log gave them up although the table has them. With `fail_on_data_loss`, they raise
    DataLoss instead of a warning. Raises InconsistentClusterId, UnknownTopicOrPartition or UnknownLeaderEpoch if
    `position` does not fit this log.
    """
    due: Due = {}
    warnings: list[str] = []
    for partition in state.partitions_of(topic):
        start, lost = _start(state, topic, partition, position)
        if lost is not None:
            if fail_on_data_loss:
                raise DataLoss(f"{lost}; --no-fail-on-data-loss continues without them")
            warnings.append(lost)
        if start < partition.high_watermark:
            epoch = partition.replication.leader_epoch
            due[partition.partition] = DueRange(OffsetRange(start, partition.high_watermark), epoch)
    return due, warnings


def _start(
    state: ClusterState, topic: Topic, partition: Partition, position: TablePosition | None
) -> tuple[Offset, str | None]:
    """Return the first offset to add, and a text about lost records, which is None if none are lost."""
    if position is None:
        return partition.log_start, None
    place = f"{topic.name}-{partition.partition}"
    reached = position.of_partition(partition.partition)
    wanted = Offset(0)
    if reached is not None:
        wanted = reached.offset
        valid_to = valid_up_to(state, reached)
        if valid_to < wanted:
            lost = f"{place}: the table has records of offsets [{valid_to}, {wanted}) that an unclean election gave up"
            return max(wanted, partition.log_start), lost
    if wanted < partition.log_start:
        lost = f"{place}: wanted records from offset {wanted} on, found the log start at {partition.log_start}"
        return partition.log_start, lost
    return wanted, None


class Step(NamedTuple):
    """One commit to the table: the offsets that it adds, by partition, and the table's position after it."""

    ranges: Mapping[PartitionIndex, OffsetRange]
    after: TablePosition


Weighed = Mapping[PartitionIndex, WeighedRange]


def weighed(state: ClusterState, topic: Topic, due: Due) -> Weighed:
    """Return the number of records in each range of `due`, and where they lie."""
    return {partition: weigh(state, topic.topic_id, partition, range_.offsets) for partition, range_ in due.items()}


def next_step(before: TablePosition, due: Due, weights: Weighed, most_records: int) -> Step:
    """Return the step after `before`: all due records if they are at most `most_records`, else about that many.

    In the second case, the step has the same fraction of the due records of each partition, but at least one record, so
    every partition advances. `weights`: what `weighed` returns for `due`.
    """
    total = sum(weight.records for weight in weights.values())
    ranges: dict[PartitionIndex, OffsetRange] = {}
    ends = {end.partition: end for end in before.ends}
    for partition, (offsets, epoch) in due.items():
        weight = weights[partition]
        is_all = total <= most_records or not weight.records
        end = offsets.end if is_all else weight.after(max(1, weight.records * most_records // total))
        ranges[partition] = OffsetRange(offsets.start, end)
        ends[partition] = PartitionEnd(partition, end, epoch)
    after = TablePosition(
        before.chain_id,
        before.topic_id,
        before.topic,
        before.mode,
        before.step + 1,
        before.run,
        tuple(ends[partition] for partition in sorted(ends)),
    )
    return Step(ranges, after)


def first_position(state: ClusterState, topic: Topic, mode: Mode, run: str) -> TablePosition:
    """Return the position of a table before the job's first commit: step 0, at the log start of each partition.

    The first commit stores this position even for a partition from which it adds no records. So records that were
    removed before the first commit never count as lost.
    """
    ends = tuple(
        PartitionEnd(partition.partition, partition.log_start, partition.replication.leader_epoch)
        for partition in state.partitions_of(topic)
    )
    return TablePosition(state.chain_id, topic.topic_id, topic.name, mode, 0, run, ends)
