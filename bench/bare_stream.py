"""The bare peer of a stream: Arrow files in, one Arrow file per task out, and no log of anything.

The files of the source are numbered from 0 and have equally many rows. An offset is a number of files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bench.bare_source import READ_SCHEMA

FILES = "bare-in"


def file_of(path: str, number: int) -> Path:
    """A file of the source."""
    return Path(path) / FILES / f"{number}.arrow"


class BareStream(DataSource):
    """Options: path, files (how many there are), tasks (of a micro-batch, a file each)."""

    @classmethod
    def name(cls) -> str:
        return "bare_stream"

    def schema(self) -> str:
        return READ_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return BareStreamReader(self.options["path"], int(self.options["files"]), int(self.options["tasks"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return BareStreamWriter(self.options["path"])


class BareStreamReader(DataSourceStreamReader):
    """The next files in each micro-batch, until there are no more."""

    def __init__(self, path: str, files: int, tasks: int) -> None:
        self.path, self.files, self.tasks = path, files, tasks
        self.seen = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"files": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        self.seen = min(self.seen + self.tasks, self.files)
        return {"files": self.seen}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(str(file_of(self.path, number))) for number in range(start["files"], end["files"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)


class BareStreamWriter(DataSourceStreamArrowWriter):
    """One file per task, with fsync."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        writer = None
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with open(f"{self.path}/{uuid.uuid4().hex}.arrow", "wb") as file:
            for batch in iterator:
                writer = writer or pa.ipc.new_file(file, batch.schema, options=options)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        return WriterCommitMessage()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing: the files are there."""
