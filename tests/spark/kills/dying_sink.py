"""The source with a sink that kills the job before or after the commit of one version. Spark commits in a process of
its own, a worker of the driver's JVM."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sparklog.spark.source import SparklogDataSource
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage
from tests.spark.kills.deaths import parent_of

DEATH: Final = "SPARKLOG_TEST_SINK"  # in the environment of the driver: "before 2", "after 2"


class DyingSource(SparklogDataSource):
    """In the place of the real one."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, BatchWriter)
        when, _, version = os.environ[DEATH].partition(" ")
        transaction = writer.options.transaction
        dies = transaction is not None and transaction.version == int(version)
        return DyingWriter(writer, when) if dies else writer


class DyingWriter(DataSourceArrowWriter):
    """Dies `when` it commits."""

    def __init__(self, writer: BatchWriter, when: str) -> None:
        self.writer = writer
        self.when = when

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        return self.writer.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.when == "after":
            self.writer.commit(messages)
        driver = parent_of(os.getppid())  # the parent of this worker is Spark's daemon
        os.killpg(os.getpgid(driver), signal.SIGKILL)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.writer.abort(messages)
