"""Counts of a consumer's work so far, for `Consumer.metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(slots=True)
class ConsumerCounts:
    """Counts since the consumer was made."""

    fetches: int = 0
    records: int = 0
    size_bytes: int = 0
    rebalances: int = 0
    commits: int = 0
    failed_commits: int = 0

    def read(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Count the batches of one call."""
        self.fetches += 1
        for batch in batches:
            self.records += batch.num_rows
            self.size_bytes += batch.nbytes

    def shown(self, partitions: int, lags: Sequence[int]) -> dict[str, int]:
        """The counts under Kafka's names in Python's spelling. `lags` has the lag of each partition."""
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
