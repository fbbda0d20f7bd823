"""Runs commits in the background, in order: writes with acks=0, and asynchronous commits of a consumer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

log = logging.getLogger("sparklog")


class UnawaitedCommits:
    """Runs commits one after the other in a background thread. Thread-safe. A forked child must not use it.

    The process does not end before all commits are done.
    """

    def __init__(self, thread: str = "sparklog-acks-0") -> None:
        self._thread = thread
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def begin(self, commit: Callable[[], object]) -> None:
        """Queue `commit` to run in the thread after all earlier ones; returns at once. An error is only logged."""
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._thread)
            self._last = self._executor.submit(_run, commit)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True once all commits begun so far are done, or False after `timeout_s` (None: no limit)."""
        last = self._last
        return last is None or not wait([last], timeout_s).not_done

    def close(self) -> None:
        """Wait until all begun commits are done, and end the thread. A later `begin` starts a new thread."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()


def _run(commit: Callable[[], object]) -> None:
    try:
        commit()
    except Exception as error:
        log.warning("a write with acks=0 failed: %s", error)
