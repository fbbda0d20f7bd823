"""Writes, for a task in Java, rows to stores that Java can't write to, if Spark has no data source in Python to do it.

    begin_rows -> [rows] -> end_rows or drop_rows

The write is that of the Python data source: `upload_task_rows`. It takes an iterator, so it has a thread of its own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.types import TopicId
from sparklog.log.records_schema import RAW_SCHEMA

WRITER_REQUESTS: Final = frozenset({"begin_rows", "rows", "end_rows", "drop_rows"})
_BATCHES_AHEAD: Final = 2  # that wait for the upload, so that memory stays bounded
_TICK_S: Final = 1.0


class _Begin(msgspec.Struct):
    plan: bytes


class _Rows(msgspec.Struct):
    """Rows of one partition. `batch`: an Arrow message with the columns of RAW_SCHEMA."""

    writer: int
    topic: TopicId
    partition: int
    batch: bytes


class _OfWriter(msgspec.Struct):
    writer: int


class _Dropped(Exception):
    """The task has dropped its rows."""


class _Writer:
    """The upload of one task attempt."""

    def __init__(self, plan: WritePlan) -> None:
        # Java has checked timestamps, and filled in its clock where there were none: this one is not checked.
        topics = {name: replace(topic, oldest_us=None, newest_us=None) for name, topic in plan.topics.items()}
        plan = replace(plan, topics=topics)
        self._names = {topic.topic_id: topic.name for topic in plan.topics.values()}
        self._names_topics = plan.topic is None
        self._waiting: Queue[pa.RecordBatch | None] = Queue(_BATCHES_AHEAD)
        self._dropped = False
        self._written: Future[TaskWritten] = Future()
        threading.Thread(target=self._upload, args=(plan,), daemon=True).start()

    def add(self, topic: TopicId, partition: int, message: bytes) -> None:
        """Give rows to the upload. Raises its error."""
        batch = pa.ipc.read_record_batch(pa.py_buffer(message), RAW_SCHEMA)
        columns = {field.name: batch.column(field.name) for field in RAW_SCHEMA}
        columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
        if self._names_topics:
            columns["topic"] = pa.repeat(self._names[topic], batch.num_rows)
        self._give(pa.RecordBatch.from_pydict(columns))

    def end(self) -> TaskWritten:
        """Return what was written, once all of it is. Raises the error of the upload."""
        self._give(None)
        return self._written.result()

    def drop(self) -> None:
        """End the upload without the rest of the rows. Does not wait for it."""
        self._dropped = True
        while True:
            try:
                self._waiting.get_nowait()
            except Empty:
                break
        self._waiting.put_nowait(None)

    def _give(self, batch: pa.RecordBatch | None) -> None:
        while not self._written.done():
            try:
                self._waiting.put(batch, timeout=_TICK_S)
            except Full:
                continue
            return
        self._written.result()

    def _upload(self, plan: WritePlan) -> None:
        try:
            self._written.set_result(upload_task_rows(plan, self._batches()))
        except BaseException as error:  # the task asks for it
            self._written.set_exception(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._waiting.get()) is not None and not self._dropped:
            yield batch
        if self._dropped:
            raise _Dropped


@dataclass
class OpenWriters:
    """The open writers, by number."""

    _writers: dict[int, _Writer] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, name: str, payload: bytes) -> bytes:
        """Return the reply to a request of WRITER_REQUESTS. Raises the errors of `upload_task_rows`."""
        if name == "begin_rows":
            number = next(self._numbers)
            plan = msgspec.msgpack.decode(msgspec.json.decode(payload, type=_Begin).plan, type=WritePlan)
            self._writers[number] = _Writer(plan)
            return msgspec.json.encode(number)
        if name == "rows":
            rows = msgspec.json.decode(payload, type=_Rows)
            self._writers[rows.writer].add(rows.topic, rows.partition, rows.batch)
            return b"null"
        number = msgspec.json.decode(payload, type=_OfWriter).writer
        if name == "end_rows":
            written = self._writers[number].end()
            del self._writers[number]
            return msgspec.json.encode(written)
        writer = self._writers.pop(number, None)
        if writer is not None:
            writer.drop()
        return b"null"
