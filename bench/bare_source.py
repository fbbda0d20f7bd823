"""The bare peer: the least that a Python Arrow data source can do. No index, checksum, hash, chain or commit.

`bare` writes the rows of each task into one Arrow IPC file with the same codec, batch rows and fsync; it reads
such files, with the seven columns of a read, by memory map. What sparklog adds to that is its own cost.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

READ_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)


class BareSource(DataSource):
    """Options: path, codec (zstd, lz4, none), columns."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return READ_SCHEMA

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BareWriter(self.options["path"], self.options.get("codec", "zstd"))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BareReader(self.options["path"])


class BareWriter(DataSourceArrowWriter):
    """One file per task, with fsync."""

    def __init__(self, path: str, codec: str) -> None:
        self.path, self.codec = path, codec

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        Path(self.path).mkdir(parents=True, exist_ok=True)
        writer = None
        options = pa.ipc.IpcWriteOptions(compression=None if self.codec == "none" else self.codec)
        with open(f"{self.path}/{uuid.uuid4().hex}.arrow", "wb") as file:
            for batch in iterator:
                writer = writer or pa.ipc.new_file(file, batch.schema, options=options)
                writer.write_batch(batch)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        return WriterCommitMessage()


class BareReader(DataSourceReader):
    """One task per file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(each)) for each in sorted(Path(self.path).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as file:
            reader = pa.ipc.open_file(file)
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index)
