"""Takes rows from a task in Java: to write them to stores that Java can't write to, or with the offsets that Kafka gave
them, or to compare them with those that were copied before.

    begin_rows or begin_comparison -> [rows] -> end_rows or drop_rows

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
from sparklog.core.types import Offset, TopicId
from sparklog.log.records_schema import COMPACTED_SCHEMA, RAW_SCHEMA
from sparklog.log.write.kept_offsets import RangeRuns
from sparklog.spark.mirror.comparison import COLUMNS, Compared, Comparison
from sparklog.spark.read.task_to_read import TaskToRead, read_range

WRITER_REQUESTS: Final = frozenset({"begin_rows", "begin_comparison", "rows", "end_rows", "drop_rows"})
_BATCHES_AHEAD: Final = 2  # that wait for the upload, so that memory stays bounded
_TICK_S: Final = 1.0


class _Keeps(msgspec.Struct):
    partition: int
    next: Offset


class _Begin(msgspec.Struct):
    """The plan of a write. `keeps`: the rows keep their offsets, in this partition, which has this next offset."""

    plan: bytes
    keeps: _Keeps | None = None


class _BeginComparison(msgspec.Struct):
    """The plan of the records to compare with: a TaskToRead of one range."""

    plan: bytes


class _Rows(msgspec.Struct):
    """Rows of one partition, with the columns of RAW_SCHEMA.

    `topic`: None for that of the plan. `timestamp_type`: Kafka's, for rows with offsets; they have the columns of
    COMPACTED_SCHEMA.
    """

    writer: int
    partition: int
    topic: TopicId | None = None
    timestamp_type: int = 0


class _OfWriter(msgspec.Struct):
    """Ends a write. `end`: the offset up to which rows that keep their offsets cover the partition."""

    writer: int
    end: Offset = Offset(0)


class _Dropped(Exception):
    """The task has dropped its rows."""


class _Writer:
    """The upload of one task attempt. `keeps`: see `_Begin`."""

    def __init__(self, plan: WritePlan, keeps: _Keeps | None) -> None:
        # Java has checked timestamps, and filled in its clock where there were none: this one is not checked.
        topics = {name: replace(topic, oldest_us=None, newest_us=None) for name, topic in plan.topics.items()}
        plan = replace(plan, topics=topics)
        self._names = {topic.topic_id: topic.name for topic in plan.topics.values()}
        self._runs = None if keeps is None else RangeRuns(keeps.partition, keeps.next)
        self._waiting: Queue[tuple[pa.RecordBatch, int] | None] = Queue(_BATCHES_AHEAD)
        self._dropped = False
        self._written: Future[TaskWritten] = Future()
        threading.Thread(target=self._upload, args=(plan,), daemon=True).start()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return RAW_SCHEMA if self._runs is None else COMPACTED_SCHEMA

    def add(self, rows: _Rows, batch: pa.RecordBatch) -> None:
        """Give rows to the upload. Raises its error."""
        columns = {field.name: batch.column(field.name) for field in self.schema}
        columns["partition"] = pa.repeat(pa.scalar(rows.partition, pa.int32()), batch.num_rows)
        if rows.topic is not None:
            columns["topic"] = pa.repeat(self._names[rows.topic], batch.num_rows)
        self._give((pa.RecordBatch.from_pydict(columns), rows.timestamp_type))

    def end(self, end: Offset) -> TaskWritten:
        """Return what was written, once all of it is. Raises the error of the upload."""
        if self._runs is not None:
            self._runs.end = end
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

    def _give(self, rows: tuple[pa.RecordBatch, int] | None) -> None:
        while not self._written.done():
            try:
                self._waiting.put(rows, timeout=_TICK_S)
            except Full:
                continue
            return
        self._written.result()

    def _upload(self, plan: WritePlan) -> None:
        try:
            self._written.set_result(upload_task_rows(plan, self._batches(), runs=self._runs))
        except BaseException as error:  # the task asks for it
            self._written.set_exception(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (given := self._waiting.get()) is not None and not self._dropped:
            batch, timestamp_type = given
            if self._runs is not None:
                self._runs.expect(batch.column("offset").to_numpy(), timestamp_type)
            yield batch
        if self._dropped:
            raise _Dropped


class _Comparer:
    """The comparison of one task attempt."""

    schema = COMPACTED_SCHEMA

    def __init__(self, plan: TaskToRead) -> None:
        (range_,) = plan.ranges
        self._comparison = Comparison(read_range(range_, plan.addresses, COLUMNS, fail_on_data_loss=True))

    def add(self, rows: _Rows, batch: pa.RecordBatch) -> None:
        """Compare rows. Raises the errors of a read."""
        self._comparison.add(batch, rows.timestamp_type)

    def end(self, end: Offset) -> Compared:
        """Return what was found. Raises the errors of a read."""
        return self._comparison.end(end)

    def drop(self) -> None:
        """End the comparison."""


@dataclass
class OpenWriters:
    """The open writers and comparisons, by number."""

    _writers: dict[int, _Writer | _Comparer] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, name: str, payload: bytes, message: memoryview | None) -> bytes:
        """Return the reply to a request of WRITER_REQUESTS. Raises the errors of `upload_task_rows`.

        `message`: the rows, if the request is "rows".
        """
        if name == "begin_rows":
            begin = msgspec.json.decode(payload, type=_Begin)
            return self._begun(_Writer(msgspec.msgpack.decode(begin.plan, type=WritePlan), begin.keeps))
        if name == "begin_comparison":
            plan = msgspec.json.decode(payload, type=_BeginComparison).plan
            return self._begun(_Comparer(msgspec.msgpack.decode(plan, type=TaskToRead)))
        if name == "rows":
            assert message is not None
            rows = msgspec.json.decode(payload, type=_Rows)
            writer = self._writers[rows.writer]
            writer.add(rows, pa.ipc.read_record_batch(pa.py_buffer(message), writer.schema))
            return b"null"
        ended = msgspec.json.decode(payload, type=_OfWriter)
        if name == "end_rows":
            result = self._writers[ended.writer].end(ended.end)
            del self._writers[ended.writer]
            return msgspec.json.encode(result)
        dropped = self._writers.pop(ended.writer, None)
        if dropped is not None:
            dropped.drop()
        return b"null"

    def _begun(self, writer: _Writer | _Comparer) -> bytes:
        number = next(self._numbers)
        self._writers[number] = writer
        return msgspec.json.encode(number)
