"""Commits with acks=0: nobody waits for them, and they keep their order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

log = logging.getLogger("sparklog")


class UnawaitedCommits:
    """Runs commits one after the other in a thread that ends with the process, once they are done. For one process."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def begin(self, commit: Callable[[], object]) -> None:
        """Run it after those before it. Its error is only logged."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sparklog-acks-0")
        self._last = self._executor.submit(_run, commit)

    def wait(self) -> None:
        """Wait for all that were begun."""
        if self._last is not None:
            self._last.result()
            self._last = None


def _run(commit: Callable[[], object]) -> None:
    try:
        commit()
    except Exception as error:
        log.warning("a write with acks=0 failed: %s", error)
