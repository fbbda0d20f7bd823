"""What a whole run fetches and makes once, begun beside its first tests: `python -m tests.servers.ahead`.

A test that comes before it is done waits for what it needs, or does without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.hadoop import write_hadoop_archives
from tests.servers.maven import CannotFetch
from tests.servers.s3_servers import s3proxy_jar
from tests.spark_classes import write_spark_archive

_STEPS: Final[tuple[Callable[[], object], ...]] = (write_hadoop_archives, s3proxy_jar, write_spark_archive)


def begin() -> subprocess.Popen[bytes]:
    """Start it, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.servers.ahead"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop it and all that it started. Legal at any time."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _tried(step: Callable[[], object]) -> None:
    with suppress(CannotFetch, subprocess.CalledProcessError):  # the tests that need it will say so
        step()


if __name__ == "__main__":
    with ThreadPoolExecutor(len(_STEPS)) as threads:
        list(threads.map(_tried, _STEPS))
