"""The log's own state as tables: the columns and rows of `metadata=topics|partitions|replicas|segments|groups|…`.

Offsets are ranges [start, end). Sizes are stored batch bytes unless the column's name contains "object".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparklog.chain.entry import Entry
from sparklog.core.config.cluster_config import topic_defaults
from sparklog.core.config.key import text_of
from sparklog.core.config.topic_config import topic_values
from sparklog.core.groups.group_progress import group_partitions
from sparklog.core.placement.held_slices import Holding
from sparklog.core.placement.replica_status import replica_statuses
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.tables.object_table import ObjectTable
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import Holder, ObjectNumber, OffsetRange, TopicPartition
from sparklog.spark.installed import arrow_schema
from sparklog.storage.keys import data_key

_BOOL, _INT, _LONG, _STRING, _TIME = BooleanType(), IntegerType(), LongType(), StringType(), TimestampType()
_STRINGS: Final = ArrayType(StringType())

_COLUMNS: Final[Mapping[str, Mapping[str, DataType]]] = {
    "topics": {
        "topic": _STRING,
        "topic_id": _LONG,
        "partitions": _INT,
        "replication_factor": _INT,
        "records": _LONG,
        "size_bytes": _LONG,
        "segments": _LONG,
        "created": _TIME,
        "config": MapType(StringType(), StringType()),
    },
    "partitions": {
        "topic": _STRING,
        "partition": _INT,
        "leader": _STRING,
        "leader_epoch": _INT,
        "replicas": _STRINGS,
        "isr": _STRINGS,
        "elr": _STRINGS,
        "log_start": _LONG,
        "high_watermark": _LONG,
        "log_end": _LONG,
        "records": _LONG,
        "size_bytes": _LONG,
        "segments": _LONG,
        "oldest": _TIME,
        "newest": _TIME,
        "version": _LONG,
    },
    "replicas": {
        "topic": _STRING,
        "partition": _INT,
        "store": _STRING,
        "zone": _STRING,
        "is_leader": _BOOL,
        "in_isr": _BOOL,
        "in_elr": _BOOL,
        "leo": _LONG,
        "lag_records": _LONG,
        "lag_bytes": _LONG,
        "size_bytes": _LONG,
        "registration": _LONG,
        "reachable": _BOOL,
        "adding": _BOOL,
        "removing": _BOOL,
    },
    "segments": {
        "topic": _STRING,
        "partition": _INT,
        "start": _LONG,
        "end": _LONG,
        "records": _LONG,
        "size_bytes": _LONG,
        "batches": _INT,
        "kind": _STRING,
        "oldest": _TIME,
        "newest": _TIME,
        "appended": _TIME,
        "leader_epoch": _INT,
        "object": _STRING,
        "object_size_bytes": _LONG,
        "position": _LONG,
        "stores": _STRINGS,
    },
    "groups": {
        "group": _STRING,
        "state": _STRING,
        "generation": _LONG,
        "topic": _STRING,
        "partition": _INT,
        "committed": _LONG,
        "leader_epoch": _INT,
        "metadata": _STRING,
        "committed_at": _TIME,
        "log_start": _LONG,
        "end": _LONG,
        "lag": _LONG,
        "member": _STRING,
    },
    "writes": {
        "write_id": _STRING,
        "command_id": _STRING,
        "app_id": _STRING,
        "app_version": _LONG,
        "topic": _STRING,
        "topic_id": _LONG,
        "partition": _INT,
        "start": _LONG,
        "end": _LONG,
        "records": _LONG,
        "size_bytes": _LONG,
        "time": _TIME,
        "entry": _LONG,
    },
    "chain": {
        "entry": _LONG,
        "time": _TIME,
        "author_kind": _STRING,
        "author": _STRING,
        "command_id": _STRING,
        "begun_at": _LONG,
        "records": _STRINGS,
        "entry_size_bytes": _LONG,
        "ignored": _BOOL,
    },
}

Row = tuple[Any, ...]


def metadata_schema(table: str) -> StructType:
    """The columns of the metadata table `table`, all nullable."""
    return StructType([StructField(name, kind) for name, kind in _COLUMNS[table].items()])


def table_schema(table: str) -> pa.Schema:
    """The columns of the metadata table `table` as Arrow types, exactly as Spark expects its batches."""
    return arrow_schema(metadata_schema(table))


def state_rows(table: str, state: ClusterState) -> Iterator[Row]:
    """Return the rows of a metadata table other than `chain` and `writes`, ordered by topic and partition.

    Within a partition, segments are ordered by offset, and replicas by preference. The rows of `groups` are ordered by
    group first: one for each partition in which the group has committed, or which one of its members reads.
    """
    return _ROWS[table](state)


def entry_rows(entry: Entry, size_bytes: int, ignored: bool) -> Iterator[Row]:
    """The rows of the metadata table `chain` for one entry: one per command, or one row if there are no commands.

    `ignored`: a fenced coordinator wrote the entry, so it has no effect.
    """
    author = entry.author
    name = f"{author.name} (epoch {author.epoch})" if author.epoch else author.name
    head = (entry.n, entry.time_ms * 1000, author.kind, name)
    for command in entry.commands:
        tags = [str(record.__struct_config__.tag) for record in command.records]
        yield (*head, command.command_id, command.n0, tags, size_bytes, ignored)
    if not entry.commands:
        yield (*head, None, None, [], size_bytes, ignored)


def batch_of(table: str, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return `rows` as one batch. Times in `rows` are microseconds since the epoch; maps are (key, value) pairs."""
    schema = table_schema(table)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _topics(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        parts = state.partitions_of(topic)
        values = topic_values(topic.config, topic_defaults(state.config))
        yield (
            topic.name,
            topic.topic_id,
            topic.partitions,
            len(parts[0].replication.replicas) if parts else 0,
            state.readable_records(parts),
            sum(part.size_bytes for part in parts),
            sum(len(_slices(state, part)) for part in parts),
            topic.created_ms * 1000,
            [(key, text_of(value)) for key, (value, _) in sorted(values.items())],
        )


def _partitions(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        for partition in state.partitions_of(topic):
            slices = _slices(state, partition)
            yield (
                topic.name,
                partition.partition,
                partition.replication.leader,
                partition.replication.leader_epoch,
                list(partition.replication.replicas),
                list(partition.replication.isr),
                list(partition.replication.elr),
                partition.log_start,
                partition.high_watermark,
                partition.next_offset,
                state.readable_records([partition]),
                partition.size_bytes,
                len(slices),
                int(slices.columns["min_timestamp_us"].min()) if len(slices) else None,
                int(slices.columns["max_timestamp_us"].max()) if len(slices) else None,
                partition.replication.version,
            )


def _replicas(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        for partition in state.partitions_of(topic):
            for replica in replica_statuses(state, partition):
                yield (
                    topic.name,
                    partition.partition,
                    replica.store,
                    replica.zone or None,
                    replica.is_leader,
                    replica.in_isr,
                    replica.in_elr,
                    replica.log_end,
                    replica.lag_records,
                    replica.lag_bytes,
                    replica.size_bytes,
                    replica.registration,
                    replica.reachable,
                    replica.adding,
                    replica.removing,
                )


def _segments(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        for partition in state.partitions_of(topic):
            slices = _slices(state, partition)
            objects = {
                number: _object_fields(state.objects, ObjectNumber(number), topic.name)
                for number in np.unique(slices.columns["object_number"]).tolist()
            }
            holding = Holding(state, partition)
            for slice_ in slices:
                kind, key, object_size_bytes, holders = objects[slice_.object_number]
                yield (
                    topic.name,
                    slice_.partition,
                    slice_.start,
                    slice_.end,
                    slice_.records,
                    slice_.length,
                    slice_.batches,
                    kind,
                    slice_.min_timestamp_us,
                    slice_.max_timestamp_us,
                    slice_.append_time_ms * 1000,
                    slice_.leader_epoch,
                    key,
                    object_size_bytes,
                    slice_.position,
                    list(holding.of(slice_.end, holders)),
                )


def _groups(state: ClusterState) -> Iterator[Row]:
    for name in sorted(state.groups):
        group = state.groups[name]
        for partition in group_partitions(state, group):
            committed = partition.committed
            yield (
                name,
                group.condition,
                group.generation,
                partition.topic,
                partition.topic_partition.partition,
                committed and committed.offset,
                committed and committed.leader_epoch,
                committed and committed.metadata,
                committed and committed.committed_ms * 1000,
                partition.log_start,
                partition.end,
                partition.lag,
                partition.member_id,
            )


_ROWS: Final[Mapping[str, Callable[[ClusterState], Iterator[Row]]]] = {
    "topics": _topics,
    "partitions": _partitions,
    "replicas": _replicas,
    "segments": _segments,
    "groups": _groups,
}


def _by_name(state: ClusterState) -> list[Topic]:
    return [state.topics[topic_id] for _, topic_id in sorted(state.topic_ids.items())]


def _slices(state: ClusterState, partition: Partition) -> SliceColumns:
    key = TopicPartition(partition.topic_id, partition.partition)
    return state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset))


def _object_fields(objects: ObjectTable, number: ObjectNumber, topic: str) -> tuple[str, str, int, tuple[Holder, ...]]:
    named = objects.get(number)
    if named is None:
        raise AssertionError(f"a slice names object {number}, which the state does not have")
    return (
        named.kind.name.lower(),
        data_key(named, topic),
        named.size_bytes,
        named.holders,
    )
