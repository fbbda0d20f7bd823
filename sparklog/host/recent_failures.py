"""Remembers what failed a moment ago in this process, so that it is asked last, or not at all, for a while.

Otherwise each use would wait for a dead store's timeout. A store on S3, gs, abfs or HDFS that hangs fails after its
`timeout_ms`, so only the first use waits for it. The users:

    FAILED_READS  log/cluster_stores.py            readers ask such a store last
    SLOW_HERE     client/plans/task_upload.py      writes leave out a store that was slow while it is catching up
    Mirrors       chain/mirror/mirrors.py          an entry's mirrors are made there last
    Waiting       client/waiting.py                waits read the chain and don't ask such a coordinator (for 1 s)

Java's readers have their own memory, with the same effect as FAILED_READS: `Holder.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

FAILED_FOR_MS: Final = 30_000  # for a store


class RecentFailures:
    """The time of the last failure of each store or coordinator, by its address or another key. Thread-safe."""

    def __init__(self, monotonic_ms: Callable[[], int], for_ms: int = FAILED_FOR_MS) -> None:
        self._monotonic_ms = monotonic_ms
        self._for_ms = for_ms
        self._failed_ms: dict[Hashable, int] = {}

    def note(self, key: Hashable) -> None:
        """Remember a failure."""
        self._failed_ms[key] = self._monotonic_ms()

    def is_recent(self, key: Hashable) -> bool:
        """True if there was a failure less than `for_ms` ago."""
        failed_ms = self._failed_ms.get(key)
        return failed_ms is not None and self._monotonic_ms() - failed_ms < self._for_ms
