"""A query without Spark, from topics to topic "out": the steps of Spark's MicroBatchExecution, each by itself.

    query = DrivenQuery(cluster, monkeypatch, subscribe="t")
    run = query.begin()                  a driver; an older one may still be at work
    while run.plan():                    log the offsets of the next micro-batch, or take the one that is not done
        run.work()                       its tasks
        run.commit()                     the sink
        run.end_batch()                  log that it is done

The checkpoint is a store, to which each file is put once, as Spark does it. A driver dies by being left alone.
"""

from __future__ import annotations

import json
import pickle
import uuid
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from sparklog.client.cluster import Cluster
from sparklog.options.streams import parse_stream_read_options, parse_stream_write_options
from sparklog.spark.read.stream_reader import StreamReader
from sparklog.spark.schema import records_schema
from sparklog.spark.write import stream_writer
from sparklog.spark.write.stream_writer import (
    BATCH_ID,
    QUERY_ID,
    RUN_ID,
    StreamTaskMessage,
    StreamWriter,
    begin_stream_write,
)
from sparklog.storage.memory import MemoryStore

GROUP = "billing"
_WRITTEN = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
_TASKS = 2


@dataclass
class Context:
    """What Spark tells the tasks of a micro-batch."""

    properties: dict[str, str | None]
    task: int = 0

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.properties.get(name)

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return self.task


class DrivenQuery:
    """`options` are those of the source. The sink commits what it consumed to GROUP."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
        self.cluster = cluster
        self.monkeypatch = monkeypatch
        self.options = {"startingOffsets": "earliest", **options}
        self.query_id = str(uuid.uuid4())
        self.checkpoint = MemoryStore(f"memory://{uuid.uuid4().hex}")
        self.checkpoint.put_if_absent("metadata", json.dumps({"id": self.query_id}).encode())

    def begin(self) -> Run:
        """Start a run."""
        return Run(self)

    def writer(self) -> StreamWriter:
        """A writer, as Spark makes one to plan a micro-batch and another to commit it."""
        given = {"cluster": "/elsewhere", "topic": "out", "groupId": GROUP, "checkpointLocation": self.checkpoint.url}
        return begin_stream_write(parse_stream_write_options(given), _WRITTEN)

    def logged(self, folder: str) -> int:
        """The last micro-batch in a folder of the checkpoint; -1 if there is none."""
        return max((int(each.key.rpartition("/")[2]) for each in self.checkpoint.list_keys(f"{folder}/")), default=-1)

    def log(self, folder: str, batch_id: int, *lines: str) -> None:
        """Write a file of the checkpoint. Raises KeyExists if another driver has."""
        self.checkpoint.put_if_absent(f"{folder}/{batch_id}", "\n".join(["v1", "{}", *lines]).encode())

    def position(self, batch_id: int) -> Any:
        """Where a micro-batch ends, as logged."""
        return json.loads(bytes(self.checkpoint.get(f"offsets/{batch_id}")).decode().splitlines()[2])


@dataclass
class Run:
    """A driver, and what it has under way: `batch_id`, from `start` to `end`."""

    query: DrivenQuery
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    batch_id: int = -1
    start: Any = None
    end: Any = None
    rows: int = 0
    sent: list[StreamTaskMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        given = {"cluster": "/elsewhere", "groupId": GROUP, **self.query.options}
        self.reader = StreamReader(
            parse_stream_read_options({name: str(value) for name, value in given.items()}),
            records_schema(["topic", "partition", "offset"]),
        )

    def plan(self) -> bool:
        """Log the next micro-batch; False if there is nothing to read. Raises KeyExists if another driver has."""
        query, logged = self.query, self.query.logged("offsets")
        if logged > query.logged("commits"):
            self.batch_id, self.end = logged, query.position(logged)
            self.start = query.position(logged - 1) if logged else self.reader.initialOffset()
            return True
        self.start = query.position(logged) if logged >= 0 else self.reader.initialOffset()
        self.end = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        if logged >= 0 and self.end == self.start:
            return False
        self.batch_id = logged + 1
        query.log("offsets", self.batch_id, json.dumps(self.end))
        return True

    def work(self) -> None:
        """Read the micro-batch in tasks, and upload the place of each record as its value, to a partition by its own.

        `rows` are what Spark would show as numInputRows.
        """
        maker, given = self.reader.__reduce__()
        in_task = maker(*given)
        shares: list[list[dict[str, Any]]] = [[] for _ in range(_TASKS)]
        for number, task in enumerate(self.reader.partitions(self.start, self.end)):
            for batch in in_task.read(task):
                shares[number % _TASKS] += batch.to_pylist()
        self.rows = sum(map(len, shares))
        writer = pickle.dumps(self.query.writer())
        self.sent = [self._uploaded(pickle.loads(writer), task, share) for task, share in enumerate(shares)]

    def commit(self) -> None:
        """The sink's commit. Calling it again is what Spark does if it does not know how the first one ended."""
        self.query.writer().commit(self.sent, self.batch_id)

    def end_batch(self) -> None:
        """Log that the micro-batch is done."""
        self.query.log("commits", self.batch_id)

    def _uploaded(self, writer: StreamWriter, task: int, share: list[dict[str, Any]]) -> StreamTaskMessage:
        known = {QUERY_ID: self.query.query_id, BATCH_ID: str(self.batch_id), RUN_ID: self.run_id}
        context = Context(known, task)  # type: ignore[arg-type]
        self.query.monkeypatch.setattr(stream_writer.TaskContext, "get", lambda: context)
        values = [f"{row['topic']} {row['partition']} {row['offset']}".encode() for row in share]
        partitions = [row["partition"] for row in share]
        batch = pa.record_batch({"value": pa.array(values, pa.binary()), "partition": pa.array(partitions, pa.int32())})
        return writer.write(iter([batch] if share else []))
