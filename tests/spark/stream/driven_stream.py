"""A stream without Spark: the calls that Spark makes of a reader, in its order, with a clock that stands still."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import SparklogError
from sparklog.options.streams import parse_stream_read_options
from sparklog.spark.read.stream_reader import StreamReader
from sparklog.spark.schema import records_schema
from tests.kit.hand_clock import HandClock
from tests.kit.log import new_cluster, rows

Json = dict[str, Any]


@contextmanager
def memory_cluster(monkeypatch: pytest.MonkeyPatch, stores: str = "") -> Iterator[Cluster]:
    """A cluster in this process, to which every stream reader connects. `stores`: their ids, if not one alone."""
    with new_cluster(stores) as made:
        for module in ("read.stream_run", "read.task_to_read", "write.stream_writer", "write.batch_writer"):
            monkeypatch.setattr(f"sparklog.spark.{module}.shared", lambda *_: made.connection)
        yield made


def send(cluster: Cluster, topic: str, partition: int, count: int) -> None:
    """Append `count` records to a partition; their values are their offsets."""
    begin = cluster.describe(topic).partitions[partition].high_watermark
    cluster.append(topic, rows([f"{begin + index}" for index in range(count)], partition))


def never() -> None:
    raise AssertionError("a stream reader waits for nothing")


@dataclass
class DrivenStream:
    """Runs of one query. `offsets` is its checkpoint: the position after each micro-batch, as text."""

    options: dict[str, object]
    clock: HandClock = field(default_factory=lambda: HandClock(0, [never]))
    offsets: list[str] = field(default_factory=list)
    available_now: bool = False
    reader: StreamReader | None = None
    start: str = ""

    def begin(self) -> StreamReader:
        """Start a run: Spark asks for the initial offsets only if the checkpoint has none."""
        given = {"cluster": "/elsewhere", **{name: str(value) for name, value in self.options.items()}}
        reader = self.reader = StreamReader(
            parse_stream_read_options(given), records_schema(["topic", "partition", "offset"]), self.clock
        )
        if self.available_now:
            reader.prepareForTriggerAvailableNow()
        if self.offsets:
            seen = json.loads(self.offsets[-1])
            assert reader.partitions(seen, seen) == []  # Spark: setLatestSeenOffset
        self.start = self.offsets[-1] if self.offsets else json.dumps(reader.initialOffset())
        return reader

    def stop(self) -> None:
        self.reader = None

    def trigger(self, *, once: bool = False) -> list[tuple[str, int, int]] | None:
        """(topic, partition, offset) of the records of the next micro-batch; None if Spark would not make one.

        An error ends the run, as in Spark.
        """
        try:
            return self._trigger(once=once)
        except SparklogError:
            self.stop()
            raise

    def _trigger(self, *, once: bool) -> list[tuple[str, int, int]] | None:
        reader = self.reader or self.begin()
        from pyspark.sql.streaming.datasource import ReadAllAvailable  # since Spark 4.2

        limit = ReadAllAvailable() if once else reader.getDefaultReadLimit()
        end = json.dumps(reader.latestOffset(json.loads(self.start), limit))
        if self.offsets and end == self.start:
            return None
        rows = self.read(self.start, end)
        self.offsets.append(end)
        self.start = end
        return rows

    def read(self, start: str, end: str) -> list[tuple[str, int, int]]:
        """The records between two positions, each task read by a copy of the reader, as Spark does it."""
        assert self.reader is not None
        rows = []
        maker, given = self.reader.__reduce__()
        in_task = maker(*given)
        for task in self.reader.partitions(json.loads(start), json.loads(end)):
            for batch in in_task.read(task):
                rows += [(row["topic"], row["partition"], row["offset"]) for row in batch.to_pylist()]
        return rows

    def rest(self) -> list[int]:
        """How many records each of the next micro-batches has, until there is none."""
        counts = []
        while (rows := self.trigger()) is not None:
            counts.append(len(rows))
        return counts
