"""Programs with a stream on a driver that has no time for them: none fails by a time limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.kills.running_driver import running_module
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_streams import values

pytestmark = [pytest.mark.spark, pytest.mark.campaign, pytest.mark.timeout(7_200)]

PROGRAMS = 70
AT_A_TIME = 4
LOOPS = 4


@pytest.fixture
def busy() -> Iterator[None]:
    """Processes that take what the processors have."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.usefixtures("busy")
def test_no_stream_fails_by_a_time_limit(cluster: Cluster, tmp_path: Path) -> None:
    """Spark gives a Python process that it starts 10 s to connect back. With the JAR it starts none for a stream."""
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 10)
    built = jar()

    def failure_of(number: int) -> str:
        folder = tmp_path / str(number)
        folder.mkdir()
        module = ("tests.spark.stream.busy_program", cluster.connection.url, str(folder / "checkpoint"))
        with running_module(folder, module, jars=[built]) as driver:
            code = driver.wait()
        return "" if code == 0 else (folder / "driver.err").read_text()[-2_000:]

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        failures = [each for each in threads.map(failure_of, range(PROGRAMS)) if each]
    assert failures == []
    assert sorted(values(cluster, "out")) == sorted([str(number).encode() for number in range(10)] * PROGRAMS)
