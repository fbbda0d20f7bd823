"""Plans a batch read: turns its options and one state of the chain into tasks, each a list of ranges to read.

The micro-batches of a stream (`stream_plan`) are planned with the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from sparklog.core.describe.readable import point_in_time_us
from sparklog.core.errors import Conflict, InvalidOption, OffsetOutOfRange
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.reading.plan import RangeToRead, check_range, pack, plan_range, weigh
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import EntryNumber, Offset, OffsetRange, TopicId
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.time_lookup import first_at_or_after
from sparklog.options.starting_offsets import AtOffset, AtTimestamp, Earliest, Latest, ReadBound, check_names_all
from sparklog.options.typed import AssignPartitions, ReadOptions, SubscribeTopics, Subscription

_LOOKUP_THREADS: Final = 16

OffsetsByTime = dict[tuple[int, int, int], Offset | None]  # (topic id, partition, timestamp in us) -> offset


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The tasks of a batch read, ordered by (topic, partition, offset).

    `planned_at`: the chain entry after which the tasks were planned. `warnings`: texts to log.
    """

    tasks: list[list[RangeToRead]]
    planned_at: EntryNumber
    warnings: list[str] = field(default_factory=list)


def plan_read(state: ClusterState, options: ReadOptions, stores: Stores) -> ReadPlan:
    """Plan a batch read with these options from `state`. Reads objects only to find starts and ends given by time.

    Raises InvalidOption (offsets for other partitions than those read, or a start after the end),
    UnknownTopicOrPartition, Conflict (the topic has another id than the option topicId), and OffsetOutOfRange or
    DataLoss if requested records are gone. If the option failOnDataLoss is false, the plan has just the records that
    exist.
    """
    if options.subscription is None:
        raise AssertionError("a plan of records needs a subscription")
    warnings: list[str] = []
    tasks = tasks_of(state, offsets_to_read(state, options, stores, warnings), options)
    return ReadPlan(tasks, EntryNumber(state.n), warnings)


def offsets_to_read(
    state: ClusterState, options: ReadOptions, stores: Stores, warnings: list[str]
) -> list[tuple[Topic, Partition, OffsetRange]]:
    """Return the offsets to read in each partition, ordered by topic name and partition.

    If requested records are gone and the option failOnDataLoss is false, appends a text about them to `warnings`.
    Raises the errors of `plan_read`.
    """
    assert options.subscription is not None
    read = partitions_to_read(state, options.subscription)
    _check_topic_id(read, options.topic_id)
    names = {(topic.name, int(partition.partition)) for topic, partition in read}
    check_names_all(options.start_option, options.start, names)
    check_names_all(options.end_option, options.end, names)
    by_time = _look_up(state, stores, read, options)
    return [(topic, partition, _offsets(topic, partition, options, by_time, warnings)) for topic, partition in read]


def tasks_of(
    state: ClusterState, ranges: Iterable[tuple[Topic, Partition, OffsetRange]], options: ReadOptions
) -> list[list[RangeToRead]]:
    """Divide `ranges`, ordered by (topic, partition), into tasks of the size in `options`. Leave out empty ranges."""
    topics: dict[TopicId, Topic] = {}
    weighed = []
    for topic, partition, offsets in ranges:
        if offsets.start < offsets.end:
            topics[topic.topic_id] = topic
            weighed.append(weigh(state, topic.topic_id, partition.partition, offsets))
    packed = pack(weighed, options.max_bytes_per_partition, options.max_records_per_partition, options.min_partitions)
    return [
        [
            plan_range(state, topics[piece.topic_id], piece.partition, OffsetRange(piece.start, piece.end))
            for piece in task
        ]
        for task in packed
    ]


def partitions_to_read(
    state: ClusterState, subscription: Subscription, may_be_gone: Collection[str] = ()
) -> list[tuple[Topic, Partition]]:
    """The partitions of the subscription, ordered by topic name and partition.

    Leaves out topics that do not exist if they are in `may_be_gone`; otherwise raises UnknownTopicOrPartition.
    """
    gone = frozenset(name for name in may_be_gone if name not in state.topic_ids)
    if isinstance(subscription, AssignPartitions):
        return [
            (topic, partition_of(state, topic, index))
            for topic, indexes in sorted(
                (
                    (topic_of(state, name), indexes)
                    for name, indexes in subscription.partitions.items()
                    if name not in gone
                ),
                key=lambda assigned: assigned[0].name,
            )
            for index in indexes
        ]
    if isinstance(subscription, SubscribeTopics):
        names: Iterable[str] = [name for name in subscription.topics if name not in gone]
    else:
        names = [name for name in state.topic_ids if re.fullmatch(subscription.pattern, name)]
    topics = [topic_of(state, name) for name in sorted(names)]
    return [(topic, partition) for topic in topics for partition in state.partitions_of(topic)]


def _check_topic_id(read: Sequence[tuple[Topic, Partition]], wanted: int | None) -> None:
    for topic, _ in read:
        if wanted is not None and topic.topic_id != wanted:
            raise Conflict(
                f"topicId: wanted topic {wanted}, found that topic {topic.name} has the id {topic.topic_id}: it is "
                "another one, or was deleted and created again"
            )


def _look_up(
    state: ClusterState, stores: Stores, read: Sequence[tuple[Topic, Partition]], options: ReadOptions
) -> OffsetsByTime:
    """Look up the offset of the first record at or after each timestamp in the options; None if there is none.

    The keys of the result are (topic id, partition, timestamp in microseconds).
    """
    wanted: dict[tuple[int, int, int], tuple[Topic, Partition]] = {}
    for topic, partition in read:
        for spec in (options.start, options.end):
            bound = spec.at(topic.name, partition.partition)
            if isinstance(bound, AtTimestamp):
                wanted[topic.topic_id, partition.partition, bound.timestamp_us] = (topic, partition)
    if not wanted:
        return {}

    def first(item: tuple[tuple[int, int, int], tuple[Topic, Partition]]) -> Offset | None:
        (_, _, timestamp_us), (topic, partition) = item
        return first_at_or_after(lambda: (state, stores), topic.name, partition.partition, timestamp_us)

    with ThreadPoolExecutor(min(_LOOKUP_THREADS, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(first, wanted.items()), strict=True))


def _offsets(
    topic: Topic, partition: Partition, options: ReadOptions, by_time: OffsetsByTime, warnings: list[str]
) -> OffsetRange:
    name, index = topic.name, partition.partition
    start = _start(topic, partition, options, by_time)
    end = _resolved(options.end.at(name, index), topic, partition, by_time)
    end = partition.high_watermark if end is None else end
    low, high = partition.log_start, partition.high_watermark
    clamped_start, clamped_end = (Offset(min(max(offset, low), high)) for offset in (start, end))
    if (clamped_start, clamped_end) != (start, end):
        _lost(f"{name}-{index}", (start, end), (low, high), options, warnings)
    if clamped_start > clamped_end:
        raise InvalidOption(
            f"{name}-{index}: wanted a start not after the end, found start {start} ({options.start_option}) > "
            f"end {end} ({options.end_option})"
        )
    return check_range(name, partition, clamped_start, clamped_end)


def _start(topic: Topic, partition: Partition, options: ReadOptions, by_time: OffsetsByTime) -> Offset:
    bound = options.start.at(topic.name, partition.partition)
    offset = _resolved(bound, topic, partition, by_time)
    if offset is not None:
        return offset
    if options.start_at_latest_if_none:
        return partition.high_watermark
    wanted = point_in_time_us(bound.timestamp_us) if isinstance(bound, AtTimestamp) else "its timestamp"
    raise OffsetOutOfRange(
        f"{topic.name}-{partition.partition}: no offset matched from {options.start_option}: wanted a record at or "
        f"after {wanted}, found none; startingOffsetsByTimestampStrategy=latest starts at "
        "latest there"
    )


def _resolved(bound: ReadBound, topic: Topic, partition: Partition, by_time: OffsetsByTime) -> Offset | None:
    match bound:
        case Earliest():
            return partition.log_start
        case Latest():
            return partition.high_watermark
        case AtOffset(offset=offset):
            return offset
        case AtTimestamp(timestamp_us=timestamp_us):
            return by_time[topic.topic_id, partition.partition, timestamp_us]


def _lost(
    place: str, wanted: tuple[int, int], readable: tuple[int, int], options: ReadOptions, warnings: list[str]
) -> None:
    """Report that requested records are gone: raise OffsetOutOfRange, or add a text to `warnings`.

    If the option failOnDataLoss is true, raises; otherwise adds the text. `wanted`, `readable`: the requested and the
    readable offsets, [start, end).
    """
    message = (
        f"{place}: wanted offsets [{wanted[0]}, {wanted[1]}) ({options.start_option}, {options.end_option}), "
        f"the readable range is [{readable[0]}, {readable[1]})"
    )
    if not options.fail_on_data_loss:
        warnings.append(f"{message}: only the existing records are read (failOnDataLoss=false)")
        return
    raise OffsetOutOfRange(f"{message}; failOnDataLoss=false reads the existing records")
