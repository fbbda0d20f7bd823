"""A process that reads until SIGTERM, and keeps a journal: everything once, in order, and samples of it again.

    python -m tests.soak.reader CLUSTER JOURNAL NAME

Journal: {"read": partition, "start": offset, "values": [value, …], "hw": high watermark}, {"error": …, "code": …}.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.errors import SparklogError
from tests.soak.journal import Journal, lines_of
from tests.soak.writer import PARTITIONS, TOPIC

PAUSE_S = 0.3
SAMPLE = 50  # records that are read again
AT_MOST = 2_000


class Reader:
    """One process of the reader `name`."""

    def __init__(self, cluster: Cluster, journal: Path, name: str) -> None:
        self._cluster = cluster
        self._random = random.Random(name)
        self._stopped = False
        self._position = dict.fromkeys(range(PARTITIONS), 0)
        for line in lines_of(journal):
            if "read" in line:
                at = line["read"]
                self._position[at] = max(self._position[at], line["start"] + len(line["values"]))
        self._journal = Journal(journal)

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def run(self) -> None:
        while not self._stopped:
            for partition in range(PARTITIONS):
                try:
                    self._read_on(partition)
                    if self._position[partition] and self._random.random() < 0.2:
                        start = self._random.randrange(self._position[partition])
                        self._read(partition, start, min(start + SAMPLE, self._position[partition]))
                except SparklogError as error:
                    self._journal.note(error=str(error), code=error.code)
            time.sleep(PAUSE_S)

    def _read_on(self, partition: int) -> None:
        end = self._cluster.describe(TOPIC).partitions[partition].high_watermark
        self._journal.note(seen=partition, hw=end)
        start = self._position[partition]
        if start < end:
            self._position[partition] = self._read(partition, start, min(end, start + AT_MOST))

    def _read(self, partition: int, start: int, end: int) -> int:
        rows = self._cluster.read(TOPIC, partition=partition, start=start, end=end)
        offsets = rows["offset"].to_pylist()
        values = [value.decode() for value in rows["value"].to_pylist()]
        if offsets != list(range(start, end)):
            self._journal.note(error=f"wanted offsets {start} to {end} of {partition}, found {offsets}", code="GAP")
        self._journal.note(read=partition, start=start, values=values)
        return end


def main(url: str, journal: str, name: str) -> None:
    with sparklog.connect(url) as cluster:
        reader = Reader(cluster, Path(journal), name)
        signal.signal(signal.SIGTERM, reader.stop)
        reader.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
