"""Reads, for a task in Java, the rest of a range when Java can't continue.

Python can read from every kind of store, and makes a new plan if an object was replaced since the plan was made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from sparklog.core.types import Offset
from sparklog.spark.read.task_to_read import TaskToRead, read_range


class _Read(msgspec.Struct):
    task: bytes
    range: int
    at: int
    columns: tuple[str, ...]
    fail_on_data_loss: bool


class _OfReader(msgspec.Struct):
    reader: int


@dataclass
class OpenReaders:
    """The open reads, by number. The JVM asks for one batch of a read at a time, so that memory stays bounded."""

    _batches: dict[int, Iterator[pa.RecordBatch]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def answer(self, name: str, payload: bytes) -> tuple[bytes, bytes | memoryview]:
        """Return kind and payload of the reply to request `name` (read, next or close). Raises the errors of a read."""
        if name == "read":
            number = next(self._numbers)
            self._batches[number] = _read(msgspec.json.decode(payload, type=_Read))
            return b"J", msgspec.json.encode(number)
        number = msgspec.json.decode(payload, type=_OfReader).reader
        if name == "close":
            self._batches.pop(number, None)
            return b"J", b"null"
        assert name == "next", name
        batch = next(self._batches[number], None)
        if batch is None:
            del self._batches[number]
            return b"N", b""
        return b"A", memoryview(batch.serialize())


def _read(request: _Read) -> Iterator[pa.RecordBatch]:
    task = msgspec.msgpack.decode(request.task, type=TaskToRead)
    rest = replace(task.ranges[request.range], start=Offset(request.at))
    return read_range(rest, task.addresses, request.columns, fail_on_data_loss=request.fail_on_data_loss)
