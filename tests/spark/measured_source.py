"""Writers that note the peak of their process's memory while a task writes: sparklog's, and the bare peer's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from bench.bare_source import BareWriter
from sparklog.spark.source import SparklogDataSource


class MeasuredSource(DataSource):
    """`format("measured")`: the options of sparklog, or with `path` those of the bare peer, and `report`, a folder."""

    @classmethod
    def name(cls) -> str:
        return "measured"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        report = self.options.pop("report")
        if "path" in self.options:
            return MeasuredWriter(BareWriter(self.options["path"], "none"), report)
        writer = SparklogDataSource(self.options).writer(schema, overwrite)
        assert isinstance(writer, DataSourceArrowWriter)
        return MeasuredWriter(writer, report)


class MeasuredWriter(DataSourceArrowWriter):
    def __init__(self, writer: DataSourceArrowWriter, report: str) -> None:
        self.writer = writer
        self.report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew at what is in use now
        message = self.writer.write(iterator)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peak_bytes = int(status["VmHWM"].split()[0]) * 1024
        (Path(self.report) / uuid.uuid4().hex).write_text(str(peak_bytes))
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.writer.commit(messages)  # type: ignore[arg-type]
