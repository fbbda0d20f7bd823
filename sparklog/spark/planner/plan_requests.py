"""Answers the driver's requests about a read: its columns, its stores, and the tasks of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sparklog.core.errors import InvalidOption, SparklogError
from sparklog.core.reading.plan import RangeToRead, SliceToRead
from sparklog.core.types import StoreId, TimestampSource
from sparklog.host.recent_failures import FAILED_FOR_MS
from sparklog.log.cluster_stores import Stores
from sparklog.log.read.object_reader import ROWS_WITHOUT_BODY
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.log.read.read_errors import may_be_replaced
from sparklog.options.given import warning_of
from sparklog.options.streams import read_options_of_any
from sparklog.options.typed import ReadOptions, parse_read_options
from sparklog.spark.lazy_connection import default_cluster, shared
from sparklog.spark.read.task_to_read import TaskToRead, addresses_for
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.open_store import registered_url

_PROPERTIES: Final = ("provider", "owner")  # Spark passes them only while it creates a table

WITHOUT_PYTHON_SOURCES: Final = "this Spark has no data sources in Python (4.0 and newer have)"
_CREATE_TIME, _APPEND_TIME = 0, 1  # Kafka's numbers in the column timestampType


class _Request(msgspec.Struct):
    """`alone`: this Spark has no data sources in Python, so what Java can't do is refused."""

    options: dict[str, str]
    alone: bool = False


class _OfSchema(msgspec.Struct):
    schema: str


class _Slice(msgspec.Struct, omit_defaults=True):
    """A slice for Java to read. `append_time_us`: the timestamp of all records; absent if each has its own."""

    topic_id: int
    partition: int
    start: int
    end: int
    records: int
    position: int
    length: int
    first_batch: int
    batches: int
    key: str
    index_key: str
    index_size_bytes: int
    index_crc32c: int
    holders: tuple[StoreId, ...]
    min_timestamp_us: int
    max_timestamp_us: int
    timestamp_type: int
    append_time_us: int | None = None


class _Range(msgspec.Struct):
    """Offsets [start, end) of a partition. `lost`: an election gave up some records, so Python must read the range."""

    topic: str
    partition: int
    start: int
    end: int
    lost: bool
    slices: list[_Slice]


class _Store(msgspec.Struct):
    url: str
    zone: str


class _ReadLimits(msgspec.Struct):
    """The amounts of a read, as in Python. `failed_for_ms`: the time for which a failed store is asked last."""

    ranged_read_bytes: int = RANGED_READ_BYTES
    rows_without_body: int = ROWS_WITHOUT_BODY
    failed_for_ms: int = FAILED_FOR_MS


class ReadTaskForJava(msgspec.Struct):
    """One task's work, for Java. `task`: the TaskToRead as MessagePack, with which Python can continue the read."""

    ranges: list[_Range]
    stores: dict[StoreId, _Store]
    limits: _ReadLimits
    fail_on_data_loss: bool
    task: bytes


class PlannedTasks(msgspec.Struct):
    """The tasks of a batch or a micro-batch, and warnings for the user."""

    tasks: list[ReadTaskForJava]
    warnings: list[str]


def _columns(payload: bytes) -> bytes:
    """Return the columns of the read that the options in `payload` describe, as JSON.

    Returns null if Spark must use the Python data source instead: for a metadata table, for a new table of the catalog,
    and for wrong options. Raises InvalidOption if there is none.
    """
    request = msgspec.json.decode(payload, type=_Request)
    given = request.options
    if not request.alone and all(name in given for name in _PROPERTIES):
        return b"null"
    try:
        options = read_options_of_any(given, default_cluster())
    except SparklogError:
        if request.alone:
            raise
        return b"null"  # the Python data source raises it, or accepts what only a stream or a write may have
    if request.alone:
        _check_alone(options)
    return msgspec.json.encode(options.columns if options.metadata is None else None)


def _check_alone(options: ReadOptions) -> None:
    """Raise InvalidOption for a read that needs a data source in Python, if this Spark has none."""
    if options.metadata is not None:
        raise InvalidOption(
            f"metadata: {options.metadata}: {WITHOUT_PYTHON_SOURCES}; use the command line (sparklog topic describe, "
            "sparklog store list, …) or Cluster.describe in Python"
        )
    if options.reader == "rows":
        raise InvalidOption(f"reader: wanted auto or columns, found rows: {WITHOUT_PYTHON_SOURCES}")


def _stores(payload: bytes) -> bytes:
    """Return the addresses of the cluster's stores; null on an error, which the Python data source will report."""
    given = msgspec.json.decode(payload, type=_Request).options
    try:
        options = read_options_of_any(given, default_cluster())
        connection = shared(options.cluster, options.storage)
        addresses = connection.addresses(connection.newest_state())
    except SparklogError:
        return b"null"
    return msgspec.json.encode([registered_url(addresses.cluster, url) for url in addresses.urls.values()])


def _plan_read(payload: bytes) -> bytes:
    """Return the plan of a batch read as JSON: the tasks, and warnings.

    Raises InvalidOption, UnknownTopicOrPartition, OffsetOutOfRange, and the cluster's errors.
    """
    request = msgspec.json.decode(payload, type=_Request)
    options = parse_read_options(request.options, default_cluster())
    if request.alone:
        _check_alone(options)
    from sparklog.client.plans.read_plan import plan_read

    connection = shared(options.cluster, options.storage)

    def plan() -> PlannedTasks:
        state = connection.newest_state()
        stores, addresses = addresses_for(connection, state, options.zone)
        made = plan_read(state, options, stores)
        ignored = warning_of(options.ignored)
        tasks = [TaskToRead(addresses, ranges) for ranges in made.tasks]
        warnings = [*made.warnings, *([] if ignored is None else [ignored])]
        return PlannedTasks(tasks_for_java(tasks, options), warnings)

    try:
        return msgspec.json.encode(plan())
    except SparklogError as error:
        if not may_be_replaced(error):
            raise
        return msgspec.json.encode(plan())


def tasks_for_java(tasks: Sequence[TaskToRead], options: ReadOptions) -> list[ReadTaskForJava]:
    """Describe the tasks of a batch or a micro-batch for Java."""
    return [_task(task, options.fail_on_data_loss) for task in tasks]


def _task(task: TaskToRead, fail_on_data_loss: bool) -> ReadTaskForJava:
    addresses, stores = task.addresses, Stores(task.addresses)
    described = {
        store: _Store(registered_url(addresses.cluster, url), addresses.zones.get(store, ""))
        for store, url in addresses.urls.items()
    }
    ranges = [_range(range_, [stores.holding(part) for part in range_.slices]) for range_ in task.ranges]
    return ReadTaskForJava(ranges, described, _ReadLimits(), fail_on_data_loss, msgspec.msgpack.encode(task))


def _range(plan: RangeToRead, holders: list[list[StoreId]]) -> _Range:
    slices = [_slice(plan, part, stores) for part, stores in zip(plan.slices, holders, strict=True)]
    return _Range(plan.topic, plan.partition, plan.start, plan.end, bool(plan.lost), slices)


def _slice(plan: RangeToRead, part: SliceToRead, holders: list[StoreId]) -> _Slice:
    slice_, named = part.slice, part.object.object
    key = data_key(named, plan.topic)
    source = slice_.timestamp_source
    append_time_us = slice_.append_time_ms * 1000 if source is TimestampSource.APPEND_TIME else None
    return _Slice(
        slice_.topic_id,
        slice_.partition,
        slice_.start,
        slice_.end,
        slice_.records,
        slice_.position,
        slice_.length,
        slice_.first_batch,
        slice_.batches,
        key,
        index_key(key),
        named.index_size_bytes,
        named.index_crc32c,
        tuple(holders),
        slice_.min_timestamp_us if append_time_us is None else append_time_us,
        slice_.max_timestamp_us if append_time_us is None else append_time_us,
        _CREATE_TIME if source is TimestampSource.CREATE_TIME else _APPEND_TIME,
        append_time_us,
    )


def _check_schema(payload: bytes) -> bytes:
    """Return null. Raises InvalidInput if this schema, which the user gave, is not that of some columns of a log."""
    from pyspark.sql.types import StructType

    from sparklog.spark.schema import RECORDS_SCHEMA, columns_of

    schema = StructType.fromJson(msgspec.json.decode(msgspec.json.decode(payload, type=_OfSchema).schema))
    columns_of(schema, RECORDS_SCHEMA)
    return b"null"


PLAN_REQUESTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "check_schema": _check_schema,
    "columns": _columns,
    "stores": _stores,
    "plan_read": _plan_read,
}
