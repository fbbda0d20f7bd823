"""Which sealed segments a compaction rewrites (C-02, C-03; KIP-58, KIP-354). Time is an argument."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np

from sparklog.core.cleaner import Cleaner
from sparklog.core.config.topic import TopicConfig
from sparklog.core.readable import setting_ms
from sparklog.core.rolling import size_edges
from sparklog.core.slice_table import SliceColumns, digest
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import ObjectKind, Offset, OffsetRange, TimestampSource, TopicPartition


class StretchToCompact(msgspec.Struct, frozen=True):
    """Sealed segments that cover [start, end) and are rewritten together, with one swap; `digest` identifies them.

    `size_bytes` counts stored batch bytes.
    """

    start: Offset
    end: Offset
    digest: str
    segments: int
    records: int
    size_bytes: int


class PartitionToCompact(msgspec.Struct, frozen=True):
    """The cleanable part of a partition, which a run compacts whole: of each key, its last record there stays.

    Tombstones below `tombstones_below` go (None: all stay). `cleaner` is what the run was planned on.
    """

    topic: str
    partition: Partition
    cleaner: Cleaner | None
    end: Offset
    tombstones_below: Offset | None
    stretches: tuple[StretchToCompact, ...]
    reason: str


def plan_compaction(
    state: ClusterState, topic: Topic, partition: Partition, now_ms: int, clock_ms: int, *, everything: bool = False
) -> PartitionToCompact | None:
    """The compaction that is due, or None.

    The cleanable part ends at the first slice that is not sealed (the roll comes first), that is not below the high
    watermark, or whose largest timestamp is younger than `min.compaction.lag.ms`. A slice that the log start cuts is
    left alone, sealed or not, because a swap replaces whole slices; while there is one, no tombstone goes.

    It is due if new segments are more than `min.cleanable.dirty.ratio` of its stored bytes, if the earliest record of
    new segments is older than `max.compaction.lag.ms`, if tombstones have waited for `delete.retention.ms`, or with
    `everything`. `now_ms` counts the ages of records; `clock_ms` is the machine's clock, for the delay of tombstones.
    """
    config = state.topic_config(topic)
    if not config.compact:
        return None
    key = TopicPartition(topic.topic_id, partition.partition)
    rows, cut = _cleanable(state, key, partition, config, now_ms)
    if not len(rows):
        return None
    cleaner = state.cleaners.get(key)
    position = partition.log_start if cleaner is None else cleaner.position
    over = None if cleaner is None or cut else cleaner.over(clock_ms, config.delete_retention_ms)
    reason = _reason(rows, position, config, now_ms, over, everything=everything)
    if reason is None:
        return None
    return PartitionToCompact(
        topic.name,
        partition,
        cleaner,
        Offset(int(rows.columns["end"][-1])),
        over,
        tuple(_stretches(rows, config.segment_bytes)),
        reason,
    )


def _cleanable(
    state: ClusterState, key: TopicPartition, partition: Partition, config: TopicConfig, now_ms: int
) -> tuple[SliceColumns, bool]:
    """The slices that may be compacted, and whether the log start cuts the slice before them."""
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark))
    columns = slices.columns
    cut = bool(len(slices)) and int(columns["start"][0]) < partition.log_start
    stays = state.objects.kinds(columns["object_number"]) != ObjectKind.SEGMENT
    stays[: int(cut)] = False  # no roll will ever seal it, so nothing behind it waits for that
    stays |= columns["end"] > partition.high_watermark
    if config.min_compaction_lag_ms:
        stays |= columns["max_timestamp_us"] > (now_ms - config.min_compaction_lag_ms) * 1000
    uncleanable = np.flatnonzero(stays)
    end = int(uncleanable[0]) if len(uncleanable) else len(slices)
    return slices.rows(int(cut), max(end, int(cut))), cut


def _reason(
    rows: SliceColumns, position: int, config: TopicConfig, now_ms: int, over: Offset | None, *, everything: bool
) -> str | None:
    """Why the cleanable part is due, or None."""
    columns = rows.columns
    dirty = columns["end"] > position
    dirty_bytes, all_bytes = int(columns["length"][dirty].sum()), int(columns["length"].sum())
    if dirty_bytes > config.min_cleanable_dirty_ratio * all_bytes:
        return f"{dirty_bytes / all_bytes:.0%} is new (min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio:g})"
    most_lag_ms = config.max_compaction_lag_ms
    if most_lag_ms is not None and dirty.any():
        earliest_us = int(columns["min_timestamp_us"][dirty].min())
        if earliest_us < (now_ms - most_lag_ms) * 1000:
            return setting_ms("max.compaction.lag.ms", most_lag_ms)
    if over is not None:
        return f"tombstones, {setting_ms('delete.retention.ms', config.delete_retention_ms)}"
    return "all was asked for" if everything else None


def _stretches(rows: SliceColumns, segment_bytes: int) -> list[StretchToCompact]:
    """Segments that are rewritten together: neighbours up to `segment_bytes`, of one epoch and timestamp source."""
    columns = rows.columns
    created = columns["timestamp_source"] == TimestampSource.CREATE_TIME
    joins = np.zeros(len(rows), dtype=np.bool_)
    joins[1:] = (
        (columns["start"][1:] == columns["end"][:-1])
        & (columns["leader_epoch"][1:] == columns["leader_epoch"][:-1])
        & (created[1:] == created[:-1])
    )
    borders = [*np.flatnonzero(~joins).tolist(), len(rows)]
    return [
        _stretch(rows.rows(low + begin, low + end))
        for low, high in pairwise(borders)
        for begin, end in size_edges(columns["length"][low:high], segment_bytes)
    ]


def _stretch(rows: SliceColumns) -> StretchToCompact:
    columns = rows.columns
    return StretchToCompact(
        Offset(int(columns["start"][0])),
        Offset(int(columns["end"][-1])),
        digest(rows),
        len(rows),
        int(columns["records"].sum()),
        int(columns["length"].sum()),
    )
