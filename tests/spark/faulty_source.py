"""The source with one fault, for jobs of real executors: `format("sparklog_faulty")` with the option `fault`.

Faults of a task strike after its rows were uploaded. Two of them take a guard of the writer away instead.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.plans.write_plan import WritePlan
from sparklog.spark.source import SparklogDataSource
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage

MEETING: Final = "both have uploaded"  # a named pipe in `fault_dir`


class FaultySource(SparklogDataSource):
    """Takes the options `fault` and `fault_dir` (where its tasks meet) beside those of the real one."""

    @classmethod
    def name(cls) -> str:
        return "sparklog_faulty"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        fault, place = self.options.pop("fault"), self.options.pop("fault_dir", "")
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, BatchWriter)
        return FaultyWriter(writer, fault, place)


class FaultyWriter(DataSourceArrowWriter):
    def __init__(self, writer: BatchWriter, fault: str, place: str) -> None:
        self.writer = writer
        self.fault = fault
        self.place = place

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        message = self.writer.write(iterator)
        context = TaskContext.get()
        assert context is not None
        _AFTER_UPLOAD.get(self.fault, _nothing)(self, message, context)
        return message

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.fault == "commits in its tasks":
            return
        if self.fault == "draws the command id in commit":
            self._draw_another_id()
        self.writer.commit(messages)
        if self.fault in ("submits again", "draws the command id in commit"):
            if self.fault == "draws the command id in commit":
                self._draw_another_id()
            self.writer.commit(messages)
        if self.fault == "fails after the commit":
            raise ConnectionError("the reply of the commit was lost")

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self.writer.abort(messages)

    def _draw_another_id(self) -> None:
        plan = msgspec.msgpack.decode(self.writer.plan, type=WritePlan)
        self.writer.plan = msgspec.msgpack.encode(msgspec.structs.replace(plan, command_id=new_command_id()))


def _nothing(writer: FaultyWriter, message: TaskMessage, context: TaskContext) -> None:
    return


def _fail_at_first(writer: FaultyWriter, message: TaskMessage, context: TaskContext) -> None:
    if context.attemptNumber() == 0:
        raise ConnectionError("the executor was lost after its upload")


def _fail_for_good(writer: FaultyWriter, message: TaskMessage, context: TaskContext) -> None:
    if context.partitionId() == 0:
        raise ConnectionError("this task never succeeds")


def _stall_at_first(writer: FaultyWriter, message: TaskMessage, context: TaskContext) -> None:
    """Task 0's first two attempts wait here, after their uploads, for each other: on the two ends of a named pipe."""
    if context.partitionId() != 0:
        return
    place = Path(writer.place) / MEETING
    if context.attemptNumber() > 0:
        place.write_bytes(b"!")
        return
    pipe = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not select.select([pipe], [], [], 60)[0]:
            raise TimeoutError("Spark started no speculative attempt")
    finally:
        os.close(pipe)


def _commit_alone(writer: FaultyWriter, message: TaskMessage, context: TaskContext) -> None:
    writer._draw_another_id()
    writer.writer.commit([message])
    _stall_at_first(writer, message, context)


_AFTER_UPLOAD: dict[str, Callable[[FaultyWriter, TaskMessage, TaskContext], None]] = {
    "fails at first": _fail_at_first,
    "fails for good": _fail_for_good,
    "stalls at first": _stall_at_first,
    "commits in its tasks": _commit_alone,
}
