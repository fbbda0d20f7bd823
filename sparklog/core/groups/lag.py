"""The lag of all groups, in records and in time, topic by topic: for metrics and lists.

All groups are computed in one pass over the columns of all committed offsets. The lag of a single group by partition is
in describe/group_rows.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from sparklog.core.groups.membership import ConsumerGroup
from sparklog.core.state import ClusterState
from sparklog.core.tables.column_blocks import Column
from sparklog.core.tables.slice_search import NO_SLICE, slices_at
from sparklog.core.tables.slice_table import split_keys, topic_partition_of
from sparklog.core.types import ObjectKind, Offset, TopicId

NEVER: Final = 2**63 - 1  # as a time: nothing is left to read


class TopicLag(msgspec.Struct, frozen=True):
    """The lag of a group in a topic, over the partitions in which it has committed.

    `offset` is the sum of the committed offsets, `lag_records` the sum of the lags, `max_lag_records` the largest lag.
    `unread_since_ms`: when the oldest unread record was appended (see `appended_ms`); None if nothing is left to read.
    """

    topic: str
    partitions: int
    offset: Offset
    lag_records: int
    max_lag_records: int
    unread_since_ms: int | None


class GroupLag(msgspec.Struct, frozen=True):
    """A group, and its lag by topic, ordered by name; no topics if nothing is committed yet."""

    group: ConsumerGroup
    topics: tuple[TopicLag, ...] = ()

    @property
    def lag_records(self) -> int:
        """The number of offsets that are left to read in all topics."""
        return sum(topic.lag_records for topic in self.topics)

    @property
    def max_lag_records(self) -> int:
        """The largest lag among the partitions of the group."""
        return max((topic.max_lag_records for topic in self.topics), default=0)

    @property
    def unread_since_ms(self) -> int | None:
        """The time in milliseconds at which the oldest unread record was appended; None if nothing is left to read."""
        return min((topic.unread_since_ms for topic in self.topics if topic.unread_since_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class GroupLags:
    """The lag of all groups. `columns` have a row for each group and topic, ordered by group number and topic id."""

    state: ClusterState
    columns: Mapping[str, Column]

    def most_behind(self, most: int) -> list[GroupLag]:
        """Return at most `most` groups, the furthest behind first: by the age of the oldest unread record, then by lag.

        Groups with nothing to read follow, by name.
        """
        rows = _first_of_each(self.columns["group"])
        numbers = self.columns["group"][rows]
        since = np.minimum.reduceat(self.columns["since_ms"], rows) if len(rows) else rows
        lags = np.add.reduceat(self.columns["lag"], rows) if len(rows) else rows
        behind = numbers[np.lexsort((numbers, -lags, since))][: np.count_nonzero(since < NEVER)][:most].tolist()
        by_number = {group.number: group for group in self.state.groups.values()}
        chosen = [by_number[number] for number in behind]
        if len(chosen) < most:
            known = set(behind)
            others = sorted(name for name, group in self.state.groups.items() if group.number not in known)
            chosen += [self.state.groups[name] for name in others[: most - len(chosen)]]
        return [self.of(group) for group in chosen]

    def of(self, group: ConsumerGroup) -> GroupLag:
        """The lag of this group, in each topic in which it has committed."""
        low, high = np.searchsorted(self.columns["group"], [group.number, group.number + 1]).tolist()
        return GroupLag(group, tuple(sorted(self._rows(np.arange(low, high)), key=lambda topic: topic.topic)))

    def in_topic(self, topic_id: TopicId, most: int) -> list[GroupLag]:
        """Return at most `most` groups that have committed in a topic, with their lag there. The one with the oldest
        unread record comes first.
        """
        rows = np.flatnonzero(self.columns["topic_id"] == topic_id)
        since, lags, numbers = (self.columns[name][rows] for name in ("since_ms", "lag", "group"))
        rows = rows[np.lexsort((numbers, -lags, since))][:most]
        by_number = {group.number: group for group in self.state.groups.values()}
        groups = [by_number[number] for number in self.columns["group"][rows].tolist()]
        return [GroupLag(group, (lag,)) for group, lag in zip(groups, self._rows(rows), strict=True)]

    def _rows(self, rows: Column) -> list[TopicLag]:
        values = (self.columns[name][rows].tolist() for name in _COLUMNS)
        return [
            TopicLag(self.state.topics[topic_id].name, partitions, offset, lag, most, None if since == NEVER else since)
            for topic_id, partitions, offset, lag, most, since in zip(*values, strict=True)
        ]


_COLUMNS: Final = ("topic_id", "partitions", "offset", "lag", "max_lag", "since_ms")  # beside `group`


def group_lags(state: ClusterState) -> GroupLags:
    """The lag of all groups of the state."""
    committed = state.offsets.all_columns()
    keys, offsets = committed["partition_key"], committed["offset"]
    log_start, high_watermark = _bounds(state, keys)
    next_offsets = np.maximum(offsets, log_start)
    lag = np.maximum(high_watermark - next_offsets, 0)
    since_ms = np.full(len(keys), NEVER)
    behind = np.flatnonzero(lag)
    since_ms[behind] = appended_ms(state, keys[behind], next_offsets[behind])
    topic_ids, _ = split_keys(keys)
    rows = _first_of_each(committed["group"], topic_ids)
    if not len(rows):
        return GroupLags(state, {name: np.zeros(0, dtype=np.int64) for name in ("group", *_COLUMNS)})
    columns = {
        "group": committed["group"][rows],
        "topic_id": topic_ids[rows],
        "partitions": np.diff(np.append(rows, len(keys))),
        "offset": np.add.reduceat(offsets, rows),
        "lag": np.add.reduceat(lag, rows),
        "max_lag": np.maximum.reduceat(lag, rows),
        "since_ms": np.minimum.reduceat(since_ms, rows),
    }
    return GroupLags(state, columns)


def appended_ms(state: ClusterState, keys: Column, offsets: Column) -> Column:
    """Return when the record at each offset was appended, in milliseconds. `keys`: the partition of each offset, as an
    integer (see `slice_table.partition_key`).

    If there is no record at an offset, the time of the next record counts; `NEVER` if no record follows.

    Until a record is rolled, its time is exactly that of its entry. Of a sealed segment, the chain knows only the time
    of the newest append. So the time of a record there is estimated: it is interpolated by offset between the oldest
    and the newest timestamp of the segment's records. The estimate is never after the segment's newest append, nor
    before the topic's creation or the newest append in the previous slice.
    """
    slices = slices_at(state.slices, keys, offsets)
    times = np.where(slices["start"] == NO_SLICE, NEVER, slices["append_time_ms"])
    numbers, which = np.unique(slices["object_number"], return_inverse=True)
    sealed = (state.objects.kinds(numbers) == ObjectKind.SEGMENT)[which] & (times < NEVER)
    start, end, oldest_us, newest_us = (
        slices[name][sealed] for name in ("start", "end", "min_timestamp_us", "max_timestamp_us")
    )
    part = np.maximum(offsets[sealed] - start, 0) / (end - start)
    estimated_ms = (oldest_us + (part * (newest_us - oldest_us)).astype(np.int64)) // 1000
    times[sealed] = np.clip(estimated_ms, _known_before(state, keys[sealed], start), times[sealed])
    return times


def _known_before(state: ClusterState, keys: Column, starts: Column) -> Column:
    """Return the earliest time in milliseconds at which records of the slices that begin at `starts` can have been
    appended.

    This is the time of the newest append in the slice before, or of the topic's creation if that is later.
    """
    topic_ids, which = np.unique(split_keys(keys)[0], return_inverse=True)
    created = (state.topics[topic_id].created_ms for topic_id in map(TopicId, topic_ids.tolist()))
    created_ms = np.fromiter(created, np.int64, len(topic_ids))[which]
    before = slices_at(state.slices, keys, starts - 1)
    return np.where(before["start"] < starts, np.maximum(before["append_time_ms"], created_ms), created_ms)


def _bounds(state: ClusterState, keys: Column) -> tuple[Column, Column]:
    """Return the log start and the high watermark of each partition in `keys` (see `slice_table.partition_key`)."""
    named, which = np.unique(keys, return_inverse=True)
    partitions = state.partitions.get_all(map(topic_partition_of, named.tolist()))
    values = [partition.replication for partition in partitions]
    starts = np.fromiter((value.log_start for value in values), np.int64, len(values))
    ends = np.fromiter((value.high_watermark for value in values), np.int64, len(values))
    return starts[which], ends[which]


def _first_of_each(*columns: Column) -> Column:
    """Return the number of the first row of each run of equal rows: row 0, and each row unlike the one before."""
    differs = np.zeros(len(columns[0]), dtype=np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(differs)
