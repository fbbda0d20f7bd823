"""Pauses between failed attempts, which grow with each failure."""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.config.cluster_config import ClusterConfig
from sparklog.core.pauses import pause_ms_after
from sparklog.host.dice import Dice


@dataclass(slots=True)
class Backoff:
    """A pause after failures: `replica.fetch.backoff.ms`, doubled with each further failure.

    It is doubled up to `replica.lag.time.max.ms` at most. It ends at `until_ms`, on the monotonic clock of the caller.
    `failures`: the number of failures so far.
    """

    failures: int = 0
    until_ms: float = 0

    def failed(self, now_ms: int, config: ClusterConfig, dice: Dice) -> None:
        """Count a failure, and start the next pause now. It lasts a random part of its full length, at least half."""
        longest_ms = max(config.replica_lag_time_max_ms, config.replica_fetch_backoff_ms)
        wait_ms = pause_ms_after(self.failures, config.replica_fetch_backoff_ms, longest_ms)
        self.failures += 1
        self.until_ms = now_ms + dice.jittered(wait_ms)

    def waits(self, now_ms: int) -> bool:
        """True while the pause lasts."""
        return now_ms < self.until_ms
