"""Counts of a consumer's work so far, for `Consumer.metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class ConsumerCounts:
    """Counts of one consumer's fetches, records, rebalances and commits since it was created."""

    fetches: int = 0
    records: int = 0
    size_bytes: int = 0
    rebalances: int = 0
    commits: int = 0
    failed_commits: int = 0

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Count one fetch, and the records and bytes of its batches."""
        self.fetches += 1
        for batch in batches:
            self.records += batch.num_rows
            self.size_bytes += batch.nbytes

    def shown(self, partitions: int, lags: Sequence[int]) -> dict[str, int]:
        """The counts, and total and greatest lag, by Kafka's metric names with underscores.

        `partitions`: number of partitions of the consumer; `lags`: the lag of each, in offsets.
        """
        return {
            "assigned_partitions": partitions,
            "records_consumed_total": self.records,
            "bytes_consumed_total": self.size_bytes,
            "fetch_total": self.fetches,
            "records_lag": sum(lags),
            "records_lag_max": max(lags, default=0),
            "commit_total": self.commits,
            "failed_commit_total": self.failed_commits,
            "rebalance_total": self.rebalances,
        }
