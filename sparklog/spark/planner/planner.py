"""Receives requests of the JVM and answers each in a thread of its own.

The planner writes START before its first message: anything earlier was printed by Python, a sitecustomize or a wrapper.
A message in either direction: length of the rest (int32), id of the request (int64), kind (1 byte), payload;
big-endian. Kinds: J is JSON, A an Arrow record batch message, N no more batches, E an error, with its text as JSON.
P is a ping, answered by P at once: a request may take any time, but the JVM kills a planner that answers no ping.
A request of kind A is the length of its JSON (int32), the JSON, and an Arrow message.

    request                                from Java       in      answered by
    -------------------------------------  --------------  ------  -----------------
    columns, stores, check_schema          SparklogSource  driver  plan_requests.py
    plan_read                              PlannedRead     driver  plan_requests.py
    stream_start, stream_target            LogStream       driver  stream_requests.py
    stream_end, stream_tasks               LogStream       driver  stream_requests.py
    read, next, close                      PythonReader    task    read_requests.py
    plan_write                             LogWrite        driver  write_requests.py
    commit_write, abort_write              LogBatchWrite   driver  write_requests.py
    plan_micro_batch                       LogStreamWrite  driver  stream_requests.py
    commit_micro_batch, abort_micro_batch  LogStreamWrite  driver  stream_requests.py
    refuse_row (also RangeCopy)            TaskObjects     task    write_requests.py
    blame_stores                           TaskObjects     task    write_requests.py
    without_failed                         TaskObjects     task    write_requests.py
    begin_rows, rows, end_rows, drop_rows  PythonWriter    task    row_requests.py
    begin_range, begin_comparison          RangeCopy       task    row_requests.py; then as PythonWriter
    topics, topic, and create_topic, …     LogCatalog      driver  topic_requests.py

With each change of a request or of an answer, increase the number PROTOCOL here and in Planner.java.
"""

from __future__ import annotations

import struct
import sys
import threading
import traceback
from typing import BinaryIO, Final

import msgspec

import sparklog
from sparklog.core.errors import UnsupportedVersion
from sparklog.spark.planner.plan_requests import PLAN_REQUESTS
from sparklog.spark.planner.read_requests import OpenReaders
from sparklog.spark.planner.row_requests import WRITER_REQUESTS, OpenWriters
from sparklog.spark.planner.stream_requests import STREAM_REQUESTS
from sparklog.spark.planner.topic_requests import TOPIC_REQUESTS
from sparklog.spark.planner.write_requests import WRITE_REQUESTS

PROTOCOL: Final = "10"  # of these messages; the JAR names the one that it speaks
START: Final = b"\0sparklog planner\0"
_PING: Final = b"P"
_WITH_ROWS: Final = b"A"
_HEAD: Final = struct.Struct(">iqc")
_LENGTH_BYTES: Final = 4
_REQUESTS: Final = PLAN_REQUESTS | STREAM_REQUESTS | TOPIC_REQUESTS | WRITE_REQUESTS

Reply = tuple[bytes, bytes | memoryview]  # kind, payload


class _Name(msgspec.Struct):
    name: str


def serve(requests: BinaryIO, replies: BinaryIO, protocol: str) -> None:
    """Answer all requests until `requests` ends. If the JAR's `protocol` is not PROTOCOL, answer UnsupportedVersion."""
    readers, writers = OpenReaders(), OpenWriters()
    sending = threading.Lock()
    replies.write(START)
    replies.flush()

    def send(request_id: int, kind: bytes, reply: bytes | memoryview) -> None:
        with sending:
            replies.write(_HEAD.pack(_HEAD.size - _LENGTH_BYTES + len(reply), request_id, kind))
            replies.write(reply)
            replies.flush()

    def answer(request_id: int, request: bytes, rows: memoryview | None) -> None:
        send(request_id, *_answer(readers, writers, request, rows, protocol))

    while len(head := requests.read(_HEAD.size)) == _HEAD.size:
        length, request_id, kind = _HEAD.unpack(head)
        payload = requests.read(length + _LENGTH_BYTES - _HEAD.size)
        if kind == _PING:
            send(request_id, _PING, b"")
            continue
        rows = None
        if kind == _WITH_ROWS:
            end = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES])
            payload, rows = payload[_LENGTH_BYTES:end], memoryview(payload)[end:]
        threading.Thread(target=answer, args=(request_id, payload, rows), daemon=True).start()


def _answer(
    readers: OpenReaders, writers: OpenWriters, payload: bytes, rows: memoryview | None, protocol: str
) -> Reply:
    try:
        if protocol != PROTOCOL:
            raise UnsupportedVersion(
                f"wanted a JAR with protocol {PROTOCOL}, which sparklog {sparklog.__version__} in {sys.executable} "
                f"speaks, found one with protocol {protocol}: use the JAR that `sparklog jar` names"
            )
        name = msgspec.json.decode(payload, type=_Name).name
        if name in _REQUESTS:
            return b"J", _REQUESTS[name](payload)
        if name in WRITER_REQUESTS:
            return b"J", writers.answer(name, payload, rows)
        return readers.answer(name, payload)
    except BaseException as error:  # the JVM waits for an answer, whatever it is
        return b"E", msgspec.json.encode("".join(traceback.format_exception_only(error)).strip())
