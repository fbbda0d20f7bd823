"""What a benchmark starts ends with it, also if it is interrupted while it starts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.process_cpu import all_stats, below


@contextmanager
def ended_on_failure() -> Iterator[None]:
    """If the block raises, kill what it started. Else leave that running.

    PySpark waits for its JVM in a loop; interrupted there, it leaves a JVM behind that waits for nobody.
    """
    before = below(os.getpid(), all_stats())
    try:
        yield
    except BaseException:
        for pid, _ in below(os.getpid(), all_stats()).keys() - before.keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise
