"""Which slices a roll turns into sealed segments (S-06). Pure: time is an argument."""

from __future__ import annotations

import msgspec
import numpy as np

from sparklog.core.slice_table import SliceColumns, digest
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import LeaderEpoch, ObjectKind, Offset, OffsetRange, TimestampSource, TopicPartition


class SegmentToRoll(msgspec.Struct, frozen=True):
    """Slices [start, end) of a partition that become one sealed segment; `digest` is that of the slices."""

    topic: str
    partition: Partition
    start: Offset
    end: Offset
    digest: str
    slices: int
    size_bytes: int
    leader_epoch: LeaderEpoch


def plan_roll(
    state: ClusterState, topic: Topic, partition: Partition, now_ms: int, *, everything: bool = False
) -> list[SegmentToRoll]:
    """The segments that are due, oldest first.

    Consecutive slices of append objects are gathered until the next one would pass `segment.bytes`: that segment is
    due. What is left is due when its first record is older than `segment.ms`, or with `everything`. A slice larger
    than `segment.bytes` gets a segment of its own. Sealed segments, gaps, and a change of timestamp source end one.
    """
    config = state.topic_config(topic)
    key = TopicPartition(topic.topic_id, partition.partition)
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark))
    first = slices.first_ending_after(partition.log_start)
    while first < len(slices) and int(slices.columns["start"][first]) < partition.log_start:
        first += 1  # a slice that the log start cuts stays as it is: a swap keeps whole slices
    due: list[SegmentToRoll] = []
    for low, high in _runs(state, slices, first):
        edges = _edges(slices.columns["length"][low:high], config.segment_bytes)
        for begin, end in edges:
            rows = slices.rows(low + begin, low + end)
            full = low + end < high
            oldest_ms = int(rows.columns["min_timestamp_us"].min()) // 1000
            if full or everything or now_ms - oldest_ms >= config.segment_ms or high < len(slices):
                due.append(_segment(topic, partition, rows))
    return due


def _segment(topic: Topic, partition: Partition, rows: SliceColumns) -> SegmentToRoll:
    columns = rows.columns
    return SegmentToRoll(
        topic.name,
        partition,
        Offset(int(columns["start"][0])),
        Offset(int(columns["end"][-1])),
        digest(rows),
        len(rows),
        int(columns["length"].sum()),
        LeaderEpoch(int(columns["leader_epoch"][-1])),
    )


def _runs(state: ClusterState, slices: SliceColumns, first: int) -> list[tuple[int, int]]:
    """Runs [low, high) of slices of append objects without a gap and with one way to read their timestamps."""
    columns = slices.columns
    rows = len(slices)
    appended = np.fromiter(
        (_is_append(state, int(number)) for number in columns["object_number"]), dtype=np.bool_, count=rows
    )
    source = np.where(
        columns["timestamp_source"] == TimestampSource.CREATE_TIME,
        TimestampSource.CREATE_TIME,
        TimestampSource.APPEND_TIME,
    )
    runs: list[tuple[int, int]] = []
    low = None
    for row in range(first, rows):
        joins = (
            low is not None
            and appended[row]
            and columns["start"][row] == columns["end"][row - 1]
            and source[row] == source[row - 1]
        )
        if joins:
            continue
        if low is not None:
            runs.append((low, row))
        low = row if appended[row] else None
    if low is not None:
        runs.append((low, rows))
    return runs


def _is_append(state: ClusterState, number: int) -> bool:
    found = state.objects.get(number)  # type: ignore[arg-type]
    return found is not None and found.kind is ObjectKind.APPEND


def _edges(lengths: np.typing.NDArray[np.int64], segment_bytes: int) -> list[tuple[int, int]]:
    """Rows [begin, end) of each segment: as many slices as fit `segment_bytes`, at least one."""
    edges = []
    begin = size = 0
    for row, length in enumerate(lengths.tolist()):
        if row > begin and size + length > segment_bytes:
            edges.append((begin, row))
            begin, size = row, 0
        size += length
    edges.append((begin, len(lengths)))
    return edges
