"""Plans the micro-batches of a stream for the JVM, and plans and commits their writes.

    stream_start (first run) -> stream_target (AvailableNow) -> [stream_end -> stream_tasks] for each micro-batch
    plan_micro_batch -> tasks in Java, whose messages have a TaskWritten -> commit_micro_batch or abort_micro_batch

The planner keeps nothing between two requests. The JVM sends the state of a run with each request, and gets the new
state with the answer, so a run continues with another planner if one ends. The rules, the errors and the log lines are
those of `read/stream_run.py` and `write/stream_writer.py`, which Spark calls without the JAR.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import msgspec

from sparklog.core.reading.stream_positions import StreamPositions, to_json
from sparklog.host.clock import SystemClock
from sparklog.options.streams import parse_stream_read_options, parse_stream_write_options
from sparklog.spark.lazy_connection import default_cluster
from sparklog.spark.planner.plan_requests import PlannedTasks, tasks_for_java
from sparklog.spark.planner.write_requests import (
    WritePlanForJava,
    WrittenByTask,
    options_for_java,
    plan_for_java,
    task_messages,
)
from sparklog.spark.read.stream_run import StreamRun
from sparklog.spark.read.task_to_read import TaskToRead


class _RunState(msgspec.Struct):
    """The state of a StreamRun, with positions as Spark stores them. The JVM keeps it, and looks only at `newest`.

    `last_go_ms` is a time of the host's monotonic clock, so it also holds for the next planner of the JVM.
    """

    target: str | None = None
    newest: str | None = None
    last_go_ms: int | None = None


class _StreamRequest(msgspec.Struct):
    options: dict[str, str]


class _EndRequest(msgspec.Struct):
    options: dict[str, str]
    run: _RunState
    start: str
    takes_all: bool


class _TasksRequest(msgspec.Struct):
    options: dict[str, str]
    start: str
    end: str


class _RunReply(msgspec.Struct):
    """The answer to a request about a run: `offset` is the start of a first run, or the end of a micro-batch."""

    offset: str | None
    run: _RunState
    warnings: list[str]


class _PlanRequest(msgspec.Struct):
    """A micro-batch to write. `properties`: Spark's local properties that name it. `alone`: as in `_WriteToPlan`."""

    options: dict[str, str]
    schema: str
    properties: dict[str, str | None]
    alone: bool = False


class _CommitRequest(msgspec.Struct):
    """A micro-batch that its tasks have written. `plan`, `skipped`: from `_PlanReply`."""

    options: dict[str, str]
    properties: dict[str, str | None]
    plan: bytes
    skipped: bool
    messages: list[WrittenByTask | None]


class _PlanReply(msgspec.Struct):
    """The plan of a micro-batch that Java may write. `plan`: the WritePlan in MessagePack, for the commit.

    `skipped`: the query has written the micro-batch already, so its tasks upload nothing. `if_unknown`: what to do if
    no planner answers the commit.
    """

    plan: bytes
    skipped: bool
    if_unknown: str
    task: WritePlanForJava


class _AbortRequest(msgspec.Struct):
    batch_id: int


def _stream_start(payload: bytes) -> bytes:
    """Return the positions at which the first run of a stream starts. Raises the errors of `StreamRun.start`."""
    warnings: list[str] = []
    run = _run(msgspec.json.decode(payload, type=_StreamRequest).options, _RunState(), warnings)
    return _answer(run.start(), run, warnings)


def _stream_target(payload: bytes) -> bytes:
    """Return the state of a run that ends at the present high watermarks."""
    warnings: list[str] = []
    run = _run(msgspec.json.decode(payload, type=_StreamRequest).options, _RunState(), warnings)
    run.end_at_present()
    return _answer(None, run, warnings)


def _stream_end(payload: bytes) -> bytes:
    """Return the end of the micro-batch that begins at `start`. Raises the errors of `StreamRun.end_after`."""
    request = msgspec.json.decode(payload, type=_EndRequest)
    warnings: list[str] = []
    run = _run(request.options, request.run, warnings)
    end = run.end_after(_positions(run, request.start), takes_all=request.takes_all)
    return _answer(end, run, warnings)


def _stream_tasks(payload: bytes) -> bytes:
    """Return the tasks of a micro-batch. Raises the errors of `StreamRun.tasks`."""
    request = msgspec.json.decode(payload, type=_TasksRequest)
    warnings: list[str] = []
    run = _run(request.options, _RunState(), warnings)
    ranges, addresses = run.tasks(_positions(run, request.start), _positions(run, request.end))
    tasks = tasks_for_java([TaskToRead(addresses, of_task) for of_task in ranges], run.options.read)
    return msgspec.json.encode(PlannedTasks(tasks, warnings))


def _run(options: dict[str, str], state: _RunState, warnings: list[str]) -> StreamRun:
    run = StreamRun(parse_stream_read_options(options, default_cluster()), SystemClock(), warnings.append)
    run.target = None if state.target is None else _positions(run, state.target)
    run.last_go_ms = state.last_go_ms
    return run


def _answer(offset: StreamPositions | None, run: StreamRun, warnings: list[str]) -> bytes:
    target, newest = (None if at is None else _text(at) for at in (run.target, run.newest))
    state = _RunState(target, newest, run.last_go_ms)
    return msgspec.json.encode(_RunReply(None if offset is None else _text(offset), state, warnings))


def _positions(run: StreamRun, text: str) -> StreamPositions:
    """Parse positions of a checkpoint. Raises the errors of `StreamRun.positions`."""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = text  # which is refused
    return run.positions(stored)


def _text(positions: StreamPositions) -> str:
    """Return positions as the text that Spark stores for a reader in Python: Spark compares positions as text."""
    return json.dumps(to_json(positions))


def _plan_micro_batch(payload: bytes) -> bytes:
    """Return the plan of a micro-batch's write, as JSON; null if the Python data source must write it instead.

    Raises the errors of `plan_micro_batch`, and InvalidInput if Spark does not name the micro-batch.
    """
    request = msgspec.json.decode(payload, type=_PlanRequest)
    parsed = options_for_java(request.options, request.schema, parse_stream_write_options, alone=request.alone)
    if parsed is None:
        return b"null"
    from sparklog.spark.write.stream_writer import is_written, micro_batch_of, micro_batch_writer, plan_micro_batch

    options, schema = parsed
    micro_batch = micro_batch_of(request.properties)
    plan, written = plan_micro_batch(options, schema)
    task = plan_for_java(plan, alone=request.alone)
    if task is None:
        return b"null"
    if_unknown = micro_batch_writer(options, plan, micro_batch).if_unknown()
    return msgspec.json.encode(_PlanReply(plan, is_written(micro_batch, written), if_unknown, task))


def _commit_micro_batch(payload: bytes) -> bytes:
    """Commit what the tasks uploaded. Raises the errors of `commit_micro_batch` in stream_writer.py."""
    from sparklog.spark.write.stream_writer import commit_micro_batch, micro_batch_of

    request = msgspec.json.decode(payload, type=_CommitRequest)
    options = parse_stream_write_options(request.options, default_cluster())
    micro_batch = micro_batch_of(request.properties)
    commit_micro_batch(options, request.plan, micro_batch, task_messages(request.messages), skipped=request.skipped)
    return b"null"


def _abort_micro_batch(payload: bytes) -> bytes:
    from sparklog.spark.write.stream_writer import warn_of_abort

    warn_of_abort(msgspec.json.decode(payload, type=_AbortRequest).batch_id)
    return b"null"


STREAM_REQUESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "stream_start": _stream_start,
    "stream_target": _stream_target,
    "stream_end": _stream_end,
    "stream_tasks": _stream_tasks,
    "plan_micro_batch": _plan_micro_batch,
    "commit_micro_batch": _commit_micro_batch,
    "abort_micro_batch": _abort_micro_batch,
}
