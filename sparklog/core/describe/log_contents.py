"""The contents of a topic's partitions: records, slices and times, from one pass over the topic's slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from sparklog.core.row_offsets import most_records_in_each
from sparklog.core.state import ClusterState, Topic
from sparklog.core.tables.slice_table import partition_keys, split_keys

_COLUMNS: Final = ("partition_key", "start", "end", "records", "min_timestamp_us", "max_timestamp_us")


@dataclass(frozen=True, slots=True)
class LogContents:
    """The contents of the partitions of a topic: lists with a value for each partition, by number.

    `records`: the number of records that can be read. If a log start lies inside a compacted slice, it is an upper
    limit: only reading shows how many of its records lie above the log start. Otherwise it is exact. `slices`: the
    number of slices. `oldest_us`, `newest_us`: the smallest and the largest timestamp in these; None if there are none.
    """

    records: list[int]
    slices: list[int]
    oldest_us: list[int | None]
    newest_us: list[int | None]


def log_contents(state: ClusterState, topic: Topic) -> LogContents:
    """The contents of all partitions of the topic."""
    values = [partition.replication for partition in state.partitions_of(topic)]
    log_start = np.array([value.log_start for value in values], dtype=np.int64)
    log_end = np.array([value.next_offset for value in values], dtype=np.int64)
    high_watermark = np.array([value.high_watermark for value in values], dtype=np.int64)
    columns = state.slices.of_partitions(partition_keys(topic.topic_id, topic.partitions), *_COLUMNS)
    _, at = split_keys(columns["partition_key"])
    inside = np.flatnonzero((columns["end"] > log_start[at]) & (columns["start"] < log_end[at]))
    at, columns = at[inside], {name: column[inside] for name, column in columns.items()}
    records = np.zeros(len(values), dtype=np.int64)
    np.add.at(records, at, most_records_in_each(columns, log_start[at], high_watermark[at]))
    slices = np.bincount(at, minlength=len(values))
    oldest_us = np.full(len(values), np.iinfo(np.int64).max)
    np.minimum.at(oldest_us, at, columns["min_timestamp_us"])
    newest_us = np.full(len(values), np.iinfo(np.int64).min)
    np.maximum.at(newest_us, at, columns["max_timestamp_us"])
    counts = slices.tolist()
    return LogContents(
        records.tolist(),
        counts,
        [time_us if count else None for count, time_us in zip(counts, oldest_us.tolist(), strict=True)],
        [time_us if count else None for count, time_us in zip(counts, newest_us.tolist(), strict=True)],
    )
