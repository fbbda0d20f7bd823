"""Consumers of one group, each a process, are killed, stopped and started while records arrive in three topics.

Every record is read, and none twice in one generation. The test is for campaigns: a member that was killed keeps its
share for a session of 6 seconds. `tests/core/reading/test_consumer_histories.py` has the same without processes, in
make test.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.faults.consuming import TOPICS
from tests.faults.crash_places import Place

ROUNDS, RECORDS, PARTITIONS = 10, 60, 2
DEADLINE_S = 240


class Consumers:
    """The processes, and what they have written to files in `folder`."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.running: list[subprocess.Popen[bytes]] = []
        self.started = 0

    def start(self) -> None:
        program = [sys.executable, "-m", "tests.faults.consuming"]
        path = self.folder / f"seen-{self.started}.txt"
        self.running.append(subprocess.Popen([*program, self.url, str(path)]))
        self.started += 1

    def end(self, number: int, how: signal.Signals) -> None:
        process = self.running.pop(number)
        process.send_signal(how)
        assert process.wait(60) in (0, -how)  # not 0 if it was still starting

    def seen(self) -> list[tuple[str, ...]]:
        """A line that was cut by a kill is left out: its record was not committed."""
        found = []
        for path in self.folder.glob("seen-*.txt"):
            whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
            found += [tuple(line.split()) for line in whole.splitlines()]
        return found


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "seed"), [("disk", 0), ("disk", 1), ("disk", 2), ("s3", 3), ("hdfs", 4)], indirect=["place"]
)
def test_every_record_is_read_and_none_twice_in_one_generation(place: Place, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    url = place.new_url()
    init_cluster(url)
    consumers = Consumers(url, tmp_path)
    with sparklog.connect(url) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=PARTITIONS)
        try:
            consumers.start()
            consumers.start()
            for number in range(ROUNDS):
                for topic in TOPICS:
                    keys = [str(key) for key in range(RECORDS)]
                    cluster.append(topic, pa.table({"key": keys, "value": [str(number)] * RECORDS}))
                read_before = len(consumers.seen())
                wait_until(lambda before=read_before: len(consumers.seen()) > before)  # type: ignore[misc]
                if number % 3 == 0:
                    consumers.start()
                elif len(consumers.running) > 1:
                    how = signal.SIGKILL if dice.random() < 0.7 else signal.SIGTERM
                    consumers.end(dice.randrange(len(consumers.running)), how)
                    consumers.start()
            wanted = ROUNDS * RECORDS * len(TOPICS)
            wait_until(lambda: len({row[2:] for row in consumers.seen()}) == wanted)
            wait_until(lambda: cluster.describe_group("billing").lag == 0)
        finally:
            for process in consumers.running:
                process.terminate()
            for process in consumers.running:
                process.wait(60)
    repeated = [row for row, count in Counter(consumers.seen()).items() if count > 1]
    assert repeated == []


def wait_until(done) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
