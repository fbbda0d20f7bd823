"""Plans rolls: chooses the slices to turn into sealed segments. Pure: time is an argument."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import counted, setting_bytes, setting_ms
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import ObjectKind, Offset, OffsetRange, TimestampSource, TopicPartition

# A segment is made of at most this many slices, however small they are, because one task holds the list of them.
MOST_SLICES = 10_000


class SegmentToRoll(msgspec.Struct, frozen=True):
    """Slices that cover [start, end) of a partition and are rewritten by one swap; `digest` identifies them.

    They become one sealed segment. Only a single slice of more than `segment.bytes` becomes several, cut between
    batches. `size_bytes` counts stored batch bytes. `reason` says in words why the roll is due.
    """

    topic: str
    partition: Partition
    start: Offset
    end: Offset
    digest: str
    slices: int
    records: int
    size_bytes: int
    reason: str


def plan_roll(
    state: ClusterState, topic: Topic, partition: Partition, now_ms: int, *, everything: bool = False
) -> list[SegmentToRoll]:
    """Return the segments that are due, oldest first.

    A segment is made of consecutive slices of append objects. It is full, and due, if the next slice would exceed
    `segment.bytes` or MOST_SLICES. It ends early, and is due, at a sealed segment, at a gap, and where the leader epoch
    or the timestamp source changes. The last slices are due when they reach `segment.bytes` or MOST_SLICES, when the
    first of them was appended `segment.ms` ago (or `max.compaction.lag.ms` ago if the topic is compacted: KIP-354), or
    with `everything`. A slice that the log start cuts stays as it is (a swap replaces whole slices), and so does one
    that is not below the high watermark.

    The state of the replicas may not allow a swap now. This is checked elsewhere (`replication/rewrites.py`).
    """
    config = state.topic_config(topic)
    key = TopicPartition(topic.topic_id, partition.partition)
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark))
    slices = slices.rows(0, int(np.searchsorted(slices.columns["end"], partition.high_watermark, side="right")))
    due: list[SegmentToRoll] = []
    for low, high in _runs(state, slices, partition.log_start):
        for begin, end in size_edges(slices.columns["length"][low:high], config.segment_bytes):
            rows = slices.rows(low + begin, low + end)
            reason = _reason(rows, config, now_ms, everything=everything)
            if reason is None and low + end < high:
                reason = f"{setting_bytes('segment.bytes', config.segment_bytes)}, with the next slice"
            if reason is None and high < len(slices):
                reason = "nothing can be joined to it any more"
            if reason is not None:
                due.append(_segment(topic, partition, rows, reason))
    return due


def _reason(rows: SliceColumns, config: TopicConfig, now_ms: int, *, everything: bool) -> str | None:
    """Return the reason in words why these slices are due even if later slices could still be joined to them.

    Returns None if they are not due. With `everything`, they are always due.
    """
    columns = rows.columns
    if int(columns["length"].sum()) >= config.segment_bytes:
        return setting_bytes("segment.bytes", config.segment_bytes)
    if len(rows) >= MOST_SLICES:
        return counted(len(rows), "slice")
    age_ms = now_ms - int(columns["append_time_ms"][0])
    if age_ms >= config.segment_ms:
        return setting_ms("segment.ms", config.segment_ms)
    if config.compact and config.max_compaction_lag_ms is not None and age_ms >= config.max_compaction_lag_ms:
        return setting_ms("max.compaction.lag.ms", config.max_compaction_lag_ms)
    return "all was asked for" if everything else None


def _segment(topic: Topic, partition: Partition, rows: SliceColumns, reason: str) -> SegmentToRoll:
    columns = rows.columns
    return SegmentToRoll(
        topic.name,
        partition,
        Offset(int(columns["start"][0])),
        Offset(int(columns["end"][-1])),
        digest(rows),
        len(rows),
        int(columns["records"].sum()),
        int(columns["length"].sum()),
        reason,
    )


def _runs(state: ClusterState, slices: SliceColumns, log_start: Offset) -> list[tuple[int, int]]:
    """Return the runs of slices that may be joined into one segment, each as a range [low, high) of rows of `slices`.

    The slices of a run are in append objects, follow each other without a gap, and have the same leader epoch and the
    same timestamp source. Slices in no run, such as those of sealed segments, are not rolled.
    """
    columns = slices.columns
    if not len(slices):
        return []
    appended = (state.objects.kinds(columns["object_number"]) == ObjectKind.APPEND) & (columns["start"] >= log_start)
    created = columns["timestamp_source"] == TimestampSource.CREATE_TIME
    joins = np.zeros(len(slices), dtype=np.bool_)
    joins[1:] = (
        appended[1:]
        & appended[:-1]
        & (columns["start"][1:] == columns["end"][:-1])
        & (columns["leader_epoch"][1:] == columns["leader_epoch"][:-1])
        & (created[1:] == created[:-1])
    )
    borders = [*np.flatnonzero(~joins).tolist(), len(slices)]
    return [(low, high) for low, high in pairwise(borders) if appended[low]]


def size_edges(lengths: npt.NDArray[np.int64], segment_bytes: int) -> list[tuple[int, int]]:
    """Return the rows [begin, end) of each segment: as many slices as fit into `segment_bytes`, at most MOST_SLICES.

    `lengths`: the bytes of each slice. A slice of more than `segment_bytes` is a segment by itself.
    """
    edges = []
    begin = size = 0
    for row, length in enumerate(lengths.tolist()):
        if row > begin and (size + length > segment_bytes or row - begin == MOST_SLICES):
            edges.append((begin, row))
            begin, size = row, 0
        size += length
    edges.append((begin, len(lengths)))
    return edges
