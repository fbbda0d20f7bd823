"""Remember the stores that failed lately in this process, so that not every read waits for a dead store's timeout.

Readers try such a store last during the next FAILED_FOR_MS. A store on S3, gs, abfs or HDFS that hangs fails after its
`timeout_ms`, so only the first read waits for it. Writes have a list of their own (SLOW_HERE in
`client/plans/task_upload.py`): the stores that were too slow while their replicas were catching up. The next writes
leave these stores out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sparklog.core.errors import Damaged, KeyNotFound, SparklogError
from sparklog.host.clock import SystemClock

FAILED_FOR_MS: Final = 30_000


class StoreFailures:
    """The time of the last failure of each store, by the store's address. Thread-safe."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._failed_ms: dict[str, int] = {}

    def note(self, address: str, error: SparklogError) -> None:
        """Remember that a store failed, unless `error` only says that one object is missing or damaged."""
        if not isinstance(error, KeyNotFound | Damaged):
            self._failed_ms[address] = self._monotonic_ms()

    def is_recent(self, address: str) -> bool:
        """True if the store failed less than FAILED_FOR_MS ago."""
        failed_ms = self._failed_ms.get(address)
        return failed_ms is not None and self._monotonic_ms() - failed_ms < FAILED_FOR_MS


OF_THIS_PROCESS: Final = StoreFailures(SystemClock().monotonic_ms)
