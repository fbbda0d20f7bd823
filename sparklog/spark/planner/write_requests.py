"""Performs a batch write for the JVM: plans and commits it in the driver, and raises the errors of its tasks.

    plan_write (driver) -> tasks in Java, whose messages have a TaskWritten -> commit_write or abort_write (driver)

The plan, the command, the errors and the log lines are those of `write/batch_writer.py`.
"""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from sparklog.client.plans.task_upload import without_failed
from sparklog.client.plans.write_plan import PlannedTopic, TaskWritten, WritePlan
from sparklog.core.errors import InvalidInput, SparklogError, StoreUnavailable
from sparklog.core.names.store_addresses import is_relative
from sparklog.core.types import Holder, StoreId
from sparklog.host.extras import install_line
from sparklog.log.batch import SMALL_BATCH_BYTES
from sparklog.log.incarnation import another_incarnation
from sparklog.log.index import INDEX_SCHEMA
from sparklog.log.ipc_file import file_head, footer_template
from sparklog.log.stored_schema import HEADERS, RAW, STORED_HEADERS, TIMESTAMP
from sparklog.log.write.open_object import UPLOAD_ATTEMPTS
from sparklog.log.write.store_lanes import most_hopeful, too_slow
from sparklog.log.write.task_memory import LIMITS
from sparklog.spark.lazy_connection import default_cluster
from sparklog.spark.planner.plan_requests import WITHOUT_PYTHON_SOURCES
from sparklog.storage.local.local_errors import write_error
from sparklog.storage.open_store import registered_url

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

    from sparklog.options.typed import WriteOptions
    from sparklog.spark.write.batch_writer import TaskMessage

_LOCAL: Final = "file://"
_HDFS: Final = "hdfs://"
_TYPES: Final = {  # what Java takes of each column, in the words of `DataType.simpleString`; Python takes more
    "topic": {"string"},
    "partition": {"tinyint", "smallint", "int"},
    "key": {"string", "binary"},
    "value": {"string", "binary"},
    "headers": {"array<struct<key:string,value:binary>>"},
    "timestamp": {"timestamp"},
}
_ERRNOS: Final = {os.strerror(number): number for number in errno.errorcode}


class _WriteToPlan(msgspec.Struct):
    """A write of a batch. `alone`: this Spark has no data sources in Python, so what Java can't do is refused.

    `overwrite`: the rows would replace those of the log.
    """

    options: dict[str, str]
    schema: str
    alone: bool = False
    overwrite: bool = False


class _WrittenStore(msgspec.Struct):
    id: StoreId
    registration: int
    url: str
    incarnation: str


class _Topic(msgspec.Struct):
    """A topic for Java: a PlannedTopic without its name and leader epochs, and with the addresses of its stores.

    `rows_to_gather`: the number of rows after which those without a key go to the next partition.
    """

    id: int
    partitions: int
    store_sets: list[list[_WrittenStore]]
    set_of: tuple[int, ...]
    max_message_bytes: int
    compression: str
    needs_key: bool
    oldest_us: int | None
    newest_us: int | None
    rows_to_gather: int


class _WriteLimits(msgspec.Struct):
    """The amounts that a task of Java may hold or try: WriterLimits has more, and describes them.

    `small_batch_bytes`: batches with fewer are not compressed.
    """

    full_batch_bytes: int = LIMITS.full_batch_bytes
    largest_batch_bytes: int = LIMITS.largest_batch_bytes
    smallest_full_batch_bytes: int = LIMITS.smallest_full_batch_bytes
    small_batch_bytes: int = SMALL_BATCH_BYTES
    object_bytes: int = LIMITS.object_bytes
    streamed_from_bytes: int = LIMITS.streamed_from_bytes
    upload_attempts: int = UPLOAD_ATTEMPTS


class _Format(msgspec.Struct):
    """The fixed bytes of Arrow IPC files with one schema: `head` begins a file, `footer` is a template for its end.

    The writer adds the list of batches after the footer. At byte `blocks_at` of the footer, it must set the distance
    from that byte to the list.
    """

    head: bytes
    footer: bytes
    blocks_at: int


class WritePlanForJava(msgspec.Struct):
    """The plan of the tasks, for Java. `plan`: the WritePlan in MessagePack, with which Python raises task errors.

    `by_python`: tasks hand their rows to a planner on their executor (`row_requests`).
    """

    n0: int
    topic: str | None
    topics: dict[str, _Topic]
    lag_time_max_ms: int
    limits: _WriteLimits
    object: _Format
    index: _Format
    by_python: bool
    plan: bytes


class _PlannedWrite(msgspec.Struct):
    """A write that Java may do. `writer`: a pickled BatchWriter, which the JVM sends back for commit or abort.

    `if_unknown`: what to do if no planner answers the commit. `skipped`: the version of the write was written already,
    so its tasks write nothing.
    """

    writer: bytes
    if_unknown: str
    skipped: bool
    task: WritePlanForJava


class WrittenByTask(msgspec.Struct):
    """A TaskMessage of Java: the result of one task attempt."""

    task: int
    host: str
    written: TaskWritten


class _End(msgspec.Struct):
    writer: bytes
    messages: list[WrittenByTask | None]


class _Header(msgspec.Struct):
    key: bytes | None  # may be other bytes than UTF-8
    value: bytes | None


class _Row(msgspec.Struct):
    """A row that Java refused to write, with the columns of `kafka_columns.WRITTEN_COLUMNS`. `plan`: a WritePlan."""

    plan: bytes
    topic: str | None
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: list[_Header | None] | None
    timestamp_us: int | None


class _Incarnation(msgspec.Struct):
    """The INCARNATION that a store has in place of the registered one. `found`: None if there is none."""

    found: str | None


class _Failure(msgspec.Struct):
    """A store that did not take an object. `reason`: in the words of the operating system, or of Java.

    `held_up_ms`: the time for which the task has waited for the store, if it was given up because of that.
    `incarnation`: set if the store was wiped or swapped.
    """

    store: StoreId
    url: str
    reason: str
    held_up_ms: int | None = None
    incarnation: _Incarnation | None = None


class _Failures(msgspec.Struct):
    """The failed uploads of a task. `plan`: a WritePlan. `failures`: the stores that did not take an object.

    `written`: all uploads of the task that succeeded; only `_without_failed` needs it.
    """

    plan: bytes
    failures: list[_Failure]
    written: TaskWritten = TaskWritten()


def _plan_write(payload: bytes) -> bytes:
    """Return the plan of a write, as JSON; null if the Python data source must plan it instead.

    Python plans a write that Java can't do, because of a column's type or of a store, and skips a write that was
    already done. If Spark has no data source in Python, the tasks hand their rows to a planner, or InvalidInput is
    raised. Also raises the errors of a write that is refused.
    """
    from sparklog.options.typed import ONLY_APPENDS, parse_write_options

    request = msgspec.json.decode(payload, type=_WriteToPlan)
    if request.overwrite:
        raise InvalidInput(ONLY_APPENDS)
    parsed = options_for_java(request.options, request.schema, parse_write_options, alone=request.alone)
    if parsed is None:
        return b"null"
    from pyspark.errors import PySparkException

    from sparklog.spark.write.batch_writer import planned_writer, warn_of

    options, schema = parsed
    try:
        writer = planned_writer(options, schema)
    except PySparkException:  # the Python data source raises it in its own way
        if request.alone:
            raise
        return b"null"
    if writer.done is not None and not request.alone:
        return b"null"
    task = plan_for_java(writer.plan, alone=request.alone)
    if task is None:
        return b"null"
    warn_of(writer.options, schema)
    return msgspec.json.encode(_PlannedWrite(pickle.dumps(writer), writer.if_unknown(), writer.done is not None, task))


def options_for_java(
    given: dict[str, str],
    schema_json: str,
    parse: Callable[[dict[str, str], str | None], WriteOptions],
    *,
    alone: bool,
) -> tuple[WriteOptions, StructType] | None:
    """Return the options and the schema of a write; None if the Python data source must plan it.

    Python must plan it if Java can't write one of its columns, or if this process lacks pyspark. If Spark has no data
    source in Python (`alone`), these are InvalidInput. `parse`: parses the options, with the default cluster. Raises
    the errors of options and of `check_written`.
    """
    try:
        from pyspark.sql.types import StructType

        from sparklog.spark.schema import check_written
        from sparklog.spark.table_options import check_written_options
    except ImportError as error:  # Spark's workers find pyspark where this process does not
        if not alone:
            return None
        raise InvalidInput(
            f"wanted pyspark in {sys.executable}, which plans this write, found none ({error}): {install_line('spark')}"
        ) from error
    schema = StructType.fromJson(msgspec.json.decode(schema_json))
    check_written_options(given, schema)
    options = parse(given, default_cluster())
    check_written(schema, options.topic)  # also of what Python would write: there Spark shows its traceback
    refused = [field for field in schema if not _java_takes(field)]
    if refused and alone:
        name, type_ = refused[0].name, refused[0].dataType.simpleString()
        raise InvalidInput(
            f"column {name!r}: wanted {' or '.join(sorted(_TYPES[name]))}, found {type_}: {WITHOUT_PYTHON_SOURCES}, "
            "which would take it: cast it"
        )
    return None if refused else (options, schema)


def _java_takes(field: StructField) -> bool:
    """True if Java can write the type of this column."""
    return field.name not in _TYPES or field.dataType.simpleString() in _TYPES[field.name]


def plan_for_java(packed: bytes, *, alone: bool) -> WritePlanForJava | None:
    """Return the plan of a write's tasks, or None if Python must do the write. `packed`: a WritePlan as MessagePack.

    Python must do it if Java can't write to one of the stores, if a partition has no store to write to, or if a store
    is catching up: only Python remembers, from one task of a process to the next, which of such stores are slow. If
    Spark has no data source in Python (`alone`), the plan is one by which tasks hand their rows to a planner.
    """
    plan = msgspec.msgpack.decode(packed, type=WritePlan)
    topics = plan.topics.values() if plan.topic is None else [plan.topics[plan.topic]]
    described = {topic.name: _topic(plan, topic) for topic in topics}
    store_sets = [stores for topic in described.values() for stores in topic.store_sets]
    by_python = (
        bool(plan.catching_up)
        or not all(store_sets)
        or not all(_takes(plan, store) for stores in store_sets for store in stores)
    )
    if by_python and not alone:
        return None
    return WritePlanForJava(
        plan.n0,
        plan.topic,
        described,
        plan.lag_time_max_ms,
        _WriteLimits(),
        _format(RAW.arrow),
        _format(INDEX_SCHEMA),
        by_python,
        packed,
    )


def _format(schema: pa.Schema) -> _Format:
    return _Format(file_head(schema).to_pybytes(), *footer_template(schema))


def _takes(plan: WritePlan, store: _WrittenStore) -> bool:
    """True if Java can write to the store: a local path, or HDFS that needs no settings but those of Spark's Hadoop."""
    settings = plan.addresses.settings.of(store.id, at_root=is_relative(plan.addresses.urls[store.id]))
    return store.url.startswith(_LOCAL) or (store.url.startswith(_HDFS) and not settings)


def _topic(plan: WritePlan, topic: PlannedTopic) -> _Topic:
    return _Topic(
        topic.topic_id,
        topic.partitions,
        [[_store(plan, holder) for holder in holders] for holders in topic.store_sets],
        topic.set_of,
        topic.max_message_bytes,
        topic.compression,
        topic.needs_key,
        topic.oldest_us,
        topic.newest_us,
        LIMITS.rows_to_gather(topic.partitions),
    )


def _store(plan: WritePlan, holder: Holder) -> _WrittenStore:
    url = registered_url(plan.addresses.cluster, plan.addresses.urls[holder.store])
    return _WrittenStore(holder.store, holder.registration, url, plan.incarnations[holder.store])


def _commit_write(payload: bytes) -> bytes:
    """Commit what the tasks uploaded. Raises the command's error, or OutcomeUnknown."""
    request = msgspec.json.decode(payload, type=_End)
    pickle.loads(request.writer).commit(task_messages(request.messages))
    return b"null"


def task_messages(sent: list[WrittenByTask | None]) -> list[TaskMessage | None]:
    """Return the messages of tasks in Java as those of a writer in Python. None: a task without a message."""
    from sparklog.spark.write.batch_writer import TaskMessage

    return [None if of is None else TaskMessage(of.task, of.host, msgspec.msgpack.encode(of.written)) for of in sent]


def _abort_write(payload: bytes) -> bytes:
    pickle.loads(msgspec.json.decode(payload, type=_End).writer).abort([])
    return b"null"


def _refuse_row(payload: bytes) -> bytes:
    """Raise the error for a row that Java refused to write."""
    from sparklog.client.plans.task_upload import check_rows

    row = msgspec.json.decode(payload, type=_Row)
    plan = msgspec.msgpack.decode(row.plan, type=WritePlan)
    columns = {
        "key": pa.array([row.key], pa.binary()),
        "value": pa.array([row.value], pa.binary()),
        "headers": pa.array([msgspec.to_builtins(row.headers, builtin_types=(bytes,))], STORED_HEADERS).view(HEADERS),
        "timestamp": pa.array([row.timestamp_us], pa.int64()).view(TIMESTAMP),
        "partition": pa.array([row.partition], pa.int32()),
    }
    if plan.topic is None:
        columns["topic"] = pa.array([row.topic], pa.string())
    check_rows(plan, pa.RecordBatch.from_pydict(columns))
    raise AssertionError(f"a row that Java refused, and Python takes: {row}")


def _blame_stores(payload: bytes) -> bytes:
    """Raise one error for an object that no store took. Its message has the reason of each store."""
    request = msgspec.json.decode(payload, type=_Failures)
    plan = msgspec.msgpack.decode(request.plan, type=WritePlan)
    raise most_hopeful(list(_errors(plan, request).items()))


def _without_failed(payload: bytes) -> bytes:
    """Return the TaskWritten of a task, corrected for the stores that failed, with the reason of each failure.

    A store that was wiped or swapped is no longer a holder of the task's objects. Raises StoreUnavailable if an object
    has no other holder.
    """
    request = msgspec.json.decode(payload, type=_Failures)
    plan = msgspec.msgpack.decode(request.plan, type=WritePlan)
    return msgspec.json.encode(without_failed(plan, request.written, _errors(plan, request)))


def _errors(plan: WritePlan, request: _Failures) -> dict[StoreId, SparklogError]:
    return {failure.store: _error(plan, failure) for failure in request.failures}


def _error(plan: WritePlan, failure: _Failure) -> SparklogError:
    """Return the error of a store that did not take an object. Asks no store: one that hangs would delay the task."""
    if failure.held_up_ms is not None:
        return too_slow(failure.held_up_ms, plan.lag_time_max_ms)
    if failure.incarnation is not None:
        return another_incarnation(plan.incarnations[failure.store], failure.url, failure.incarnation.found)
    wanted = f"write an object to {failure.url}"
    number = _ERRNOS.get(failure.reason)
    if number is not None:
        return write_error(wanted, OSError(number, failure.reason))
    return StoreUnavailable(f"wanted to {wanted}, found: {failure.reason}")


WRITE_REQUESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "plan_write": _plan_write,
    "commit_write": _commit_write,
    "abort_write": _abort_write,
    "refuse_row": _refuse_row,
    "blame_stores": _blame_stores,
    "without_failed": _without_failed,
}
