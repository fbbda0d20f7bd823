"""Limits of a micro-batch. Source: `rateLimit` and `delayBatch` of Spark's KafkaMicroBatchStream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

_K = TypeVar("_K")


class TriggerLimits(msgspec.Struct, frozen=True):
    """The limits of a stream's micro-batches; a limit of None does not apply.

    A micro-batch takes at most about `max_offsets` offsets that have a record, and `max_bytes` stored bytes. A
    micro-batch waits for `min_offsets` new offsets, but for no longer than `max_delay_ms` after the last micro-batch
    that did not wait.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = 900_000

    @property
    def is_limited(self) -> bool:
        """True if `max_offsets`, `min_offsets` or `max_bytes` is set."""
        return any(limit is not None for limit in (self.max_offsets, self.min_offsets, self.max_bytes))

    def without_minimum(self) -> TriggerLimits:
        """The same limits without `min_offsets`, so that no micro-batch waits."""
        return msgspec.structs.replace(self, min_offsets=None)

    def holds_back(self, new_offsets: int, now_ms: int, last_ms: int | None) -> bool:
        """True if a micro-batch must wait because `new_offsets` is below `min_offsets`. The first of a run never waits.

        `last_ms`: the time at which this function last returned False in this run, whether or not there was anything to
        read (as in Spark's connector); None if it has not yet. `now_ms` and `last_ms` are from one monotonic clock.
        """
        if self.min_offsets is None or last_ms is None or now_ms - last_ms >= self.max_delay_ms:
            return False
        return new_offsets < self.min_offsets


def shares(limit: int, backlogs: Mapping[_K, int]) -> dict[_K, int]:
    """Divide `limit` in proportion to the backlogs: rounded down, but at least 1 for a backlog that is not empty.

    So with many small backlogs the sum of the shares may exceed the limit. No share exceeds its backlog.
    """
    total = sum(backlogs.values())
    return {
        key: min(backlog, max(1, limit * backlog // total)) if backlog > 0 else 0 for key, backlog in backlogs.items()
    }
