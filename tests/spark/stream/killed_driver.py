"""A streaming query that kills its driver and JVM at a step of a micro-batch: python -m … CLUSTER CHECKPOINT

The environment says where: DEADLY="STEP WHEN NUMBER", like "commit after 1". Steps of the sink happen in micro-batch
NUMBER, `latestOffset` and `partitions` at their NUMBER-th call. With FORGETFUL, the sink ignores the identity of a
micro-batch, as one that is at least once does. With BY_JAVA, the JAR reads and writes: `deadly_planner.py` kills.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from sparklog.options.streams import parse_stream_read_options, parse_stream_write_options
from sparklog.spark.read.stream_reader import StreamReader
from sparklog.spark.source import SparklogDataSource
from sparklog.spark.write.batch_writer import BatchWriter
from sparklog.spark.write.stream_writer import BATCH_ID, StreamTaskMessage, StreamWriter, begin_stream_write
from tests.sparks import SPARK

DEADLY = "DEADLY"  # in the environment, as the three below
FORGETFUL = "FORGETFUL"
BY_JAVA = "DEADLY_BY_JAVA"
PROCESSES = "DEADLY_PROCESSES"  # the process group of the driver
GROUP = "billing"
MOST = 5
Through = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def perhaps_die(step: str, when: str, number: int) -> None:
    """Kill the driver's process group, which the JVM is in, if this is the place."""
    if os.environ.get(DEADLY) == f"{step} {when} {number}":
        os.killpg(int(os.environ[PROCESSES]), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyReader(StreamReader):
    """Dies in the planner, which keeps it for the whole run."""

    calls = 0

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self.calls += 1
        perhaps_die("latestOffset", "before", self.calls)
        return super().latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        planned = super().partitions(start, end)
        if planned:
            perhaps_die("partitions", "after", self.calls)
        return planned


class DeadlyWriter(StreamWriter):
    """Dies in a task or in the commit."""

    def __reduce__(self) -> tuple[Any, ...]:
        return DeadlyWriter, super().__reduce__()[1]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamTaskMessage:
        context = TaskContext.get()
        assert context is not None
        sent = super().write(iterator)
        perhaps_die("write", "after", int(context.getLocalProperty(BATCH_ID) or -1))
        return sent

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        perhaps_die("commit", "before", batchId)
        if FORGETFUL in os.environ:
            plan = next(message.plan for message in messages if isinstance(message, StreamTaskMessage))
            BatchWriter(replace(self.options, transaction=None), plan, None).commit(messages)
        else:
            super().commit(messages, batchId)
        perhaps_die("commit", "after", batchId)


class DeadlySource(SparklogDataSource):
    """The data source, whose streams die."""

    @classmethod
    def name(cls) -> str:
        return "deadly"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return DeadlyReader(parse_stream_read_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        made = begin_stream_write(parse_stream_write_options(self.options), schema)
        return DeadlyWriter(made.options, made.plan, {} if FORGETFUL in os.environ else made.written)


def run_query(
    spark: SparkSession, kind: str, cluster: str, checkpoint: str, through: Through | None = None, **options: str
) -> StreamingQuery:
    """Shout topic "in" into topic "out", by key, at most MOST offsets a micro-batch, up to what is there.

    What is shouted goes `through` this function of batches. Before Spark 4.2 a run ends after one such micro-batch, so
    there are as many runs as it takes.
    """
    shared = {"cluster": cluster, "groupId": GROUP, **options}
    source = spark.readStream.format(kind).options(**shared).option("subscribe", "in")
    rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", MOST).load()
    shouted = rows.selectExpr("key", "upper(cast(value as string)) as value")
    if through is not None:
        shouted = shouted.mapInArrow(through, shouted.schema)
    sink = shouted.writeStream.format(kind).options(**shared).option("topic", "out")
    sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    while True:
        query = sink.start()
        query.awaitTermination()
        if SPARK >= (4, 2) or not any(progress["numInputRows"] for progress in query.recentProgress):
            return query


if __name__ == "__main__":
    os.environ[PROCESSES] = str(os.getpgid(0))
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    from tests.spark.stream.killed_driver import DeadlySource as Imported  # as the workers import it

    session.dataSource.register(Imported)
    run_query(session, "sparklog" if BY_JAVA in os.environ else "deadly", *sys.argv[1:])
