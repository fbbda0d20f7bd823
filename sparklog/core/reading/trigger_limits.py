"""Limits of a micro-batch. Source: `rateLimit` and `delayBatch` of Spark's KafkaMicroBatchStream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

_K = TypeVar("_K")


class TriggerLimits(msgspec.Struct, frozen=True):
    """The limits of a stream's micro-batches; None if there is no such limit.

    A micro-batch takes about `max_offsets` offsets and `max_bytes` stored bytes at most. It waits for `min_offsets` new
    offsets, but not for longer than `max_delay_ms` after the last one that did not wait.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = 900_000

    @property
    def is_limited(self) -> bool:
        """True if any limit is set."""
        return any(limit is not None for limit in (self.max_offsets, self.min_offsets, self.max_bytes))

    def without_minimum(self) -> TriggerLimits:
        """The same limits, but a micro-batch never waits."""
        return msgspec.structs.replace(self, min_offsets=None)

    def holds_back(self, new_offsets: int, now_ms: int, last_ms: int | None) -> bool:
        """True if a micro-batch must wait for more than `new_offsets`. The first one of a run never waits.

        `last_ms` is when this was last called and returned false, whether or not there was anything to read (as in
        Spark's connector); None if that has not happened yet in this run. Both times are from one monotonic clock.
        """
        if self.min_offsets is None or last_ms is None or now_ms - last_ms >= self.max_delay_ms:
            return False
        return new_offsets < self.min_offsets


def shares(limit: int, backlogs: Mapping[_K, int]) -> dict[_K, int]:
    """Share `limit` in proportion to the backlogs: rounded down, but at least 1 if the backlog is not empty.

    So with many small backlogs the shares together may be greater than the limit.
    """
    total = sum(backlogs.values())
    return {
        key: min(backlog, max(1, limit * backlog // total)) if backlog > 0 else 0 for key, backlog in backlogs.items()
    }
