"""Plans compaction: chooses the sealed segments to rewrite (C-02, C-03; KIP-58, KIP-354). Time is an argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from sparklog.core.config.topic_config import TopicConfig
from sparklog.core.describe.readable import setting_ms
from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.maintenance.roll_rule import size_edges
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import ObjectKind, Offset, OffsetRange, TimestampSource, TopicPartition


class StretchToCompact(NamedTuple):
    """Sealed segments that cover [start, end) and are rewritten together, with one swap.

    `size_bytes` counts stored batch bytes.
    """

    start: Offset
    end: Offset
    segments: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Stretches:
    """The stretches of a partition, ascending, as rows of an array with a column for each field of StretchToCompact.

    A segment of more than `segment.bytes` is a stretch by itself.
    """

    rows: npt.NDArray[np.int64]  # a column for each field of StretchToCompact

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StretchToCompact]:
        for start, end, *counts in self.rows.tolist():
            yield StretchToCompact(Offset(start), Offset(end), *counts)

    def sums(self) -> StretchToCompact:
        """Return all stretches as one, from the start of the first to the end of the last, with the sums of counts."""
        segments, records, size_bytes = self.rows[:, 2:].sum(axis=0).tolist()
        start, end = int(self.rows[0, 0]), int(self.rows[-1, 1])
        return StretchToCompact(Offset(start), Offset(end), segments, records, size_bytes)


class PartitionToCompact(msgspec.Struct, frozen=True):
    """The part of a partition to compact, which ends at `end`. Of each key's records in it, only the last one stays.

    Tombstones below `tombstones_below` are dropped (None: all stay). `cleaner`: the cleaner when the run was planned.
    `digest` identifies the segments of all `stretches`. There is at least one stretch.
    """

    topic: str
    partition: Partition
    cleaner: Cleaner | None
    end: Offset
    tombstones_below: Offset | None
    stretches: Stretches
    digest: str
    reason: str


def plan_compaction(
    state: ClusterState, topic: Topic, partition: Partition, now_ms: int, clock_ms: int, *, everything: bool = False
) -> PartitionToCompact | None:
    """Return the compaction that is due in the partition; None if none is due.

    The cleanable part of the log ends at the first slice that is not sealed (it must be rolled first), that is not
    below the high watermark, or whose largest timestamp is younger than `min.compaction.lag.ms`. If the log start cuts
    a slice, the part begins after that slice, because a swap replaces whole slices. In this case no tombstone is
    dropped, and nothing is compacted while the cut slice is younger than `min.compaction.lag.ms`.

    Compaction of the part is due in these cases, and always with `everything`:
    - more than `min.cleanable.dirty.ratio` of its stored bytes lie above the cleaner's position;
    - its earliest record above the position is older than `max.compaction.lag.ms`;
    - tombstones have waited for `delete.retention.ms`.

    Nothing is due if the part ends before the cleaner's position: it is clean already (`min.compaction.lag.ms` was
    raised, or an earlier run had a later `now_ms`). `now_ms`: the time at which the ages of records are measured.
    `clock_ms`: the time by this computer's clock, at which the delay of tombstones is measured.
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
    end = Offset(int(rows.columns["end"][-1]))
    if end < position:
        return None
    due_below = None if cleaner is None or cut else cleaner.tombstones_due(clock_ms, config.delete_retention_ms)
    reason = _reason(rows, position, config, now_ms, due_below, everything=everything)
    if reason is None:
        return None
    return PartitionToCompact(
        topic.name,
        partition,
        cleaner,
        end,
        due_below,
        _stretches(rows, config.segment_bytes),
        digest(rows),
        reason,
    )


def _cleanable(
    state: ClusterState, key: TopicPartition, partition: Partition, config: TopicConfig, now_ms: int
) -> tuple[SliceColumns, bool]:
    """Return the slices that may be compacted, and True if the log start cuts the slice before them."""
    slices = state.slices.find(key, OffsetRange(partition.log_start, partition.high_watermark))
    columns = slices.columns
    stays = state.objects.kinds(columns["object_number"]) != ObjectKind.SEGMENT
    stays |= columns["end"] > partition.high_watermark
    cut = bool(len(slices)) and int(columns["start"][0]) < partition.log_start
    first = int(cut)
    stays[:first] = False  # no roll will ever seal a slice that is cut, so the slices after it do not wait for that
    if config.min_compaction_lag_ms:
        stays |= columns["max_timestamp_us"] > (now_ms - config.min_compaction_lag_ms) * 1000
    uncleanable = np.flatnonzero(stays)
    end = max(first, int(uncleanable[0])) if len(uncleanable) else len(slices)
    return slices.rows(first, end), cut


def _reason(
    rows: SliceColumns, position: int, config: TopicConfig, now_ms: int, due_below: Offset | None, *, everything: bool
) -> str | None:
    """The reason why the cleanable part, `rows`, is due for compaction, as text; None if it is not due.

    `position` is the cleaner's; tombstones below `due_below` have waited long enough. With `everything`, the part is
    always due.
    """
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
    if due_below is not None:
        return f"tombstones, {setting_ms('delete.retention.ms', config.delete_retention_ms)}"
    return "all was asked for" if everything else None


def _stretches(rows: SliceColumns, segment_bytes: int) -> Stretches:
    """Divide segments into stretches of at most `segment_bytes`. A larger segment is a stretch by itself.

    The segments of a stretch are neighbours, and have the same leader epoch and the same timestamp source.
    """
    columns = rows.columns
    created = columns["timestamp_source"] == TimestampSource.CREATE_TIME
    joins = np.zeros(len(rows), dtype=np.bool_)
    joins[1:] = (
        (columns["start"][1:] == columns["end"][:-1])
        & (columns["leader_epoch"][1:] == columns["leader_epoch"][:-1])
        & (created[1:] == created[:-1])
    )
    borders = [*np.flatnonzero(~joins).tolist(), len(rows)]
    edges = np.array(
        [
            (low + begin, low + end)
            for low, high in pairwise(borders)
            for begin, end in size_edges(columns["length"][low:high], segment_bytes)
        ]
    )
    begins, ends = edges[:, 0], edges[:, 1]
    sums = [np.add.reduceat(columns[name], begins) for name in ("records", "length")]
    return Stretches(np.stack([columns["start"][begins], columns["end"][ends - 1], ends - begins, *sums], axis=1))
