"""A process that writes until SIGTERM, and keeps a journal.

    python -m tests.soak.writer CLUSTER JOURNAL NAME KIND

Kinds:

    plain        appends without an identity: one whose outcome is unknown is in the log once or not at all
    application  (application, version): repeated until it is acknowledged, also by the process that comes next
    producer     (producer id, epoch, sequence): repeated likewise; the process that comes next takes the next epoch
    embedded     as plain, but commits to the chain itself, whoever coordinates the cluster

Journal: {"begin": turn, "values": {partition: [value, …]}}, then one of

    {"acked": turn, "ranges": [[partition, start, count], …]}
    {"refused": turn, "error": …}         nothing landed
    {"unknown": turn, "error": …}
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import pyarrow as pa

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.commits.client_committer import ClientCommitter
from sparklog.core.errors import Landed, SparklogError
from tests.soak.journal import Journal, Line, lines_of

TOPIC = "soak"
PARTITIONS = 3
TIMEOUT_MS = 15_000
PAUSE_S = 0.2

Values = Mapping[int, list[str]]


class Writer:
    """One process of the writer `name`."""

    def __init__(self, cluster: Cluster, journal: Path, name: str, kind: str) -> None:
        self._cluster = cluster
        self._name, self._kind = name, kind
        self._random = random.Random(name)
        self._stopped = False
        before = list(lines_of(journal))
        self._turn = sum("begin" in line for line in before)
        self._open = _open_turn(before)
        self._journal = Journal(journal)
        self._sequence = 0
        self._producer: tuple[int, int] | None = None
        ids = [line["producer"] for line in before if "producer" in line]
        self._producer_id: int | None = ids[-1] if ids else None

    def stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def run(self) -> None:
        if self._kind == "producer":
            self._begin_epoch()
        if self._kind == "application" and self._open is not None:
            self._until_known(int(self._open["begin"]), {int(at): rows for at, rows in self._open["values"].items()})
        while not self._stopped:
            turn, self._turn = self._turn, self._turn + 1
            values = self._values(turn)
            self._journal.note(begin=turn, values=values)
            self._until_known(turn, values)
            time.sleep(2 * PAUSE_S * self._random.random())

    def _values(self, turn: int) -> Values:
        """What to write: to one partition, or to all."""
        all_at_once = self._kind != "producer" and self._random.random() < 0.5
        partitions = range(PARTITIONS) if all_at_once else [self._random.randrange(PARTITIONS)]
        if self._kind == "producer":
            partitions = [0]  # its sequences are those of one partition
        return {
            at: [f"{self._name}/{turn}/{at}/{row}" for row in range(self._random.randint(1, 3))] for at in partitions
        }

    def _until_known(self, turn: int, values: Values) -> None:
        """Append, again while the outcome is unknown and a repeat can't write twice."""
        while True:
            try:
                written = self._append(turn, values)
            except SparklogError as error:
                if self._kind in ("application", "producer") and not self._stopped and not _is_final(error):
                    self._journal.note(tried=turn, error=str(error))
                    time.sleep(PAUSE_S)
                    continue
                may_be_there = error.landed is not Landed.NO or self._kind in ("application", "producer")
                self._journal.note(**{"unknown" if may_be_there else "refused": turn}, error=str(error))
                if self._kind == "producer" and not self._stopped:
                    self._begin_epoch()
            else:
                self._journal.note(acked=turn, ranges=written)
                self._sequence += sum(len(rows) for rows in values.values())
            return

    def _append(self, turn: int, values: Values) -> list[tuple[int, int, int]]:
        rows = [(value, at) for at, of_partition in values.items() for value in of_partition]
        table = pa.table(
            {"value": [value for value, _ in rows], "partition": pa.array([at for _, at in rows], pa.int32())}
        )
        producer = None if self._producer is None else (*self._producer, self._sequence)
        application = (self._name, turn) if self._kind == "application" else None
        result = self._cluster.append(
            TOPIC, table, producer=producer, application=application, write_id=self._name, timeout_ms=TIMEOUT_MS
        )
        return [(written.partition, written.start, written.end - written.start) for written in result.ranges]

    def _begin_epoch(self) -> None:
        """The writer's producer id with the next epoch: what was begun before is fenced."""
        while not self._stopped:
            try:
                self._producer = self._cluster.allocate_producer(self._producer_id)
            except SparklogError as error:
                self._journal.note(tried="epoch", error=str(error))
                time.sleep(PAUSE_S)
                continue
            self._producer_id, self._sequence = self._producer[0], 0
            self._journal.note(producer=self._producer_id)
            return


def _open_turn(before: list[Line]) -> Line | None:
    """The last append that was begun, if its outcome is not known."""
    begun = [line for line in before if "begin" in line]
    if not begun:
        return None
    ended = {line[outcome] for line in before for outcome in ("acked", "refused", "unknown") if outcome in line}
    return begun[-1] if begun[-1]["begin"] not in ended else None


def _is_final(error: SparklogError) -> bool:
    """Whether a repeat can't help."""
    return not error.retriable and error.landed is Landed.NO


def main(url: str, journal: str, name: str, kind: str) -> None:
    if kind == "embedded":
        ClientCommitter.submit = ClientCommitter.commit_here  # type: ignore[method-assign]
    with sparklog.connect(url) as cluster:
        writer = Writer(cluster, Path(journal), name, kind)
        signal.signal(signal.SIGTERM, writer.stop)
        writer.run()


if __name__ == "__main__":
    import tests.kit.pandas_hidden  # noqa: F401

    main(*sys.argv[1:])
