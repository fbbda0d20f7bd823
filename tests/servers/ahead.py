"""What a whole run fetches and makes once, begun beside its first tests: `python -m tests.servers.ahead`.

A test that comes before it is done waits for what it needs, or does without.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peer_jars import delta, kafka_connector
from tests.servers.cloud_servers import azurite_program, fake_gcs_program
from tests.servers.hadoop import write_hadoop_archives
from tests.servers.kafka_broker import kafka_jars
from tests.servers.made_once import CannotFetch
from tests.servers.s3_servers import s3proxy_jar
from tests.spark_classes import write_spark_archive

PROGRAM = ("-m", "tests.servers.ahead")
_STEPS: Final[tuple[Callable[[], object], ...]] = (
    *(write_hadoop_archives, s3proxy_jar, kafka_jars, write_spark_archive),
    *(delta, kafka_connector, azurite_program, fake_gcs_program),
)


@dataclass(frozen=True)
class Ahead:
    """The running process. It and all that it starts are one process group, with one folder for temporary files."""

    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]


def begin() -> Ahead:
    """Start it."""
    folder = tempfile.TemporaryDirectory(prefix="sparklog-ahead-", ignore_cleanup_errors=True)
    process = subprocess.Popen(
        [sys.executable, *PROGRAM],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": folder.name},
        start_new_session=True,
    )
    return Ahead(process, folder)


def end(running: Ahead) -> None:
    """Stop it and all that it started, at once. Legal at any time.

    Not by SIGTERM: a JVM would still take seconds to write the archive that nobody waits for any more.
    """
    if running.process.poll() is None:
        os.killpg(running.process.pid, signal.SIGKILL)
    running.process.wait()
    running.folder.cleanup()


def _tried(step: Callable[[], object]) -> None:
    with suppress(CannotFetch, subprocess.CalledProcessError):  # the tests that need it will say so
        step()


if __name__ == "__main__":
    with ThreadPoolExecutor(len(_STEPS)) as threads:
        list(threads.map(_tried, _STEPS))
