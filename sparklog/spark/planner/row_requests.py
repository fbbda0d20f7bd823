"""Takes rows from a task in Java, batch by batch.

begin_rows, begin_range or begin_comparison -> [rows] -> end_rows or drop_rows

begin_rows        to stores that Java can't write to, if Spark has no data source in Python: `upload_task_rows`
begin_range       of Kafka, encoded, with their offsets: `RangeUpload`
begin_comparison  of Kafka, to be compared with those that were copied: `Comparison`
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import Empty, Full, Queue
from typing import Final, Protocol

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from sparklog.client.plans.range_upload import RangeUpload
from sparklog.client.plans.task_upload import upload_task_rows
from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.types import Offset, PartitionIndex, TimestampSource, TopicId
from sparklog.log.batch import EncodedBatch, crc32c
from sparklog.log.stored_schema import RAW, RAW_WITH_OFFSETS
from sparklog.spark.mirror.comparison import COLUMNS, Compared, Comparison
from sparklog.spark.read.task_to_read import TaskToRead, read_range

WRITER_REQUESTS: Final = frozenset({"begin_rows", "begin_range", "begin_comparison", "rows", "end_rows", "drop_rows"})
_BATCHES_AHEAD: Final = 2  # that wait for the upload, so that memory stays bounded
_TICK_S: Final = 1.0
_SOURCES: Final = (TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN)  # by Kafka's timestampType


class _Begin(msgspec.Struct):
    """`plan`: a WritePlan, or to compare, a TaskToRead of one range. A range begins at the next offset `from_`."""

    plan: bytes
    partition: PartitionIndex = PartitionIndex(0)
    from_: Offset = msgspec.field(default=Offset(0), name="from")


class _BatchRows(msgspec.Struct):
    """A batch of one partition, beside its Arrow message.

    `topic`: only for `begin_rows`, which takes the columns of RAW. All else is for batches of Kafka: the bounds
    are inclusive, and `timestamp_type` is Kafka's. With `stores_offsets` they have those of RAW_WITH_OFFSETS.
    """

    writer: int
    partition: PartitionIndex
    topic: TopicId | None = None
    records: int = 0
    first: Offset = Offset(0)
    last: Offset = Offset(0)
    min_timestamp_us: int = 0
    max_timestamp_us: int = 0
    timestamp_type: int = 0
    stores_offsets: bool = True


class _EndOfRows(msgspec.Struct):
    """`end`: the offset up to which a range is covered. `keyless`: some record of it has no key."""

    writer: int
    end: Offset = Offset(0)
    keyless: bool = False


class _Taker(Protocol):
    """Takes the rows of one task attempt. `end` returns what the task reports. Raises the errors of its work."""

    def add(self, rows: _BatchRows, message: pa.Buffer) -> None: ...
    def end(self, end: Offset, *, keyless: bool) -> object: ...
    def drop(self) -> None: ...


class _Dropped(Exception):
    """The task has dropped its rows."""


class _RowsUpload:
    """Uploads rows in a thread of its own, because `upload_task_rows` takes an iterator."""

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

    def add(self, rows: _BatchRows, message: pa.Buffer) -> None:
        batch = pa.ipc.read_record_batch(message, RAW.arrow)
        columns = {field.name: batch.column(field.name) for field in RAW.arrow}
        columns["partition"] = pa.repeat(pa.scalar(rows.partition, pa.int32()), batch.num_rows)
        if self._names_topics:
            assert rows.topic is not None
            columns["topic"] = pa.repeat(self._names[rows.topic], batch.num_rows)
        self._give(pa.RecordBatch.from_pydict(columns))

    def end(self, end: Offset, *, keyless: bool) -> TaskWritten:
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


class _RangeUpload:
    """Uploads encoded batches of Kafka."""

    def __init__(self, begin: _Begin) -> None:
        plan = msgspec.msgpack.decode(begin.plan, type=WritePlan)
        self._upload = RangeUpload(plan, begin.partition, begin.from_)

    def add(self, rows: _BatchRows, message: pa.Buffer) -> None:
        batch = EncodedBatch(
            rows.partition,
            message,
            rows.records,
            rows.min_timestamp_us,
            rows.max_timestamp_us,
            crc32c(message),
            (rows.first, rows.last) if rows.stores_offsets else None,
        )
        self._upload.add(batch, rows.first, _SOURCES[rows.timestamp_type])

    def end(self, end: Offset, *, keyless: bool) -> TaskWritten:
        return self._upload.finish(end, keyless=keyless)

    def drop(self) -> None:
        self._upload.drop()


class _KafkaComparison:
    """Compares batches of Kafka with those that were copied."""

    def __init__(self, begin: _Begin) -> None:
        task = msgspec.msgpack.decode(begin.plan, type=TaskToRead)
        (range_,) = task.ranges
        self._comparison = Comparison(read_range(range_, task.addresses, COLUMNS, fail_on_data_loss=True))

    def add(self, rows: _BatchRows, message: pa.Buffer) -> None:
        self._comparison.add(pa.ipc.read_record_batch(message, RAW_WITH_OFFSETS.arrow), rows.timestamp_type)

    def end(self, end: Offset, *, keyless: bool) -> Compared:
        return self._comparison.end(end)

    def drop(self) -> None:
        """Nothing is open."""


_BEGINS: Final[dict[str, Callable[[_Begin], _Taker]]] = {
    "begin_rows": lambda begin: _RowsUpload(msgspec.msgpack.decode(begin.plan, type=WritePlan)),
    "begin_range": _RangeUpload,
    "begin_comparison": _KafkaComparison,
}


@dataclass
class OpenWriters:
    """The open takers of rows, by number."""

    _takers: dict[int, _Taker] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, name: str, payload: bytes, message: memoryview | None) -> bytes:
        """Return the reply to a request of WRITER_REQUESTS. `message`: the batch of "rows".

        Raises the errors of `upload_task_rows`, of `RangeUpload`, and of a read.
        """
        if name in _BEGINS:
            number = next(self._numbers)
            self._takers[number] = _BEGINS[name](msgspec.json.decode(payload, type=_Begin))
            return msgspec.json.encode(number)
        if name == "rows":
            rows = msgspec.json.decode(payload, type=_BatchRows)
            self._takers[rows.writer].add(rows, pa.py_buffer(message))
            return b"null"
        ended = msgspec.json.decode(payload, type=_EndOfRows)
        if name == "end_rows":
            result = self._takers[ended.writer].end(ended.end, keyless=ended.keyless)
            del self._takers[ended.writer]
            return msgspec.json.encode(result)
        dropped = self._takers.pop(ended.writer, None)
        if dropped is not None:
            dropped.drop()
        return b"null"
