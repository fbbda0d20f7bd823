"""Whatever a benchmark starts ends with it, even if the benchmark is interrupted while starting it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from bench.process_cpu import all_stats, below


@contextmanager
def ended_on_failure() -> Iterator[None]:
    """If the block raises, kill the processes that it started; else leave them running.

    PySpark waits for its JVM in a loop. If it is interrupted there, it leaves behind a JVM that nobody uses.
    """
    before = below(os.getpid(), all_stats())
    try:
        yield
    except BaseException:
        for pid, _ in below(os.getpid(), all_stats()).keys() - before.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise
