"""Waiting times before another attempt after failures."""

from __future__ import annotations

from dataclasses import dataclass

from sparklog.core.config.cluster_config import ClusterConfig
from sparklog.host.dice import Dice


@dataclass(slots=True)
class Backoff:
    """Waits of `replica.fetch.backoff.ms` that double with each failure, up to `replica.lag.time.max.ms`."""

    failures: int = 0
    until_ms: float = 0

    def failed(self, now_ms: int, config: ClusterConfig, dice: Dice) -> None:
        """Note a failure: wait from now on, for longer than the last time."""
        longest_ms = max(config.replica_lag_time_max_ms, config.replica_fetch_backoff_ms)
        wait_ms = min(config.replica_fetch_backoff_ms << min(self.failures, 32), longest_ms)
        self.failures += 1
        self.until_ms = now_ms + dice.jittered(wait_ms)

    def waits(self, now_ms: int) -> bool:
        """True if it is still too early to try again."""
        return now_ms < self.until_ms
