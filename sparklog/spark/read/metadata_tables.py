"""The log's own state as tables: the columns and rows of `metadata=topics|partitions|replicas|segments|groups|…`.

Most rows are those of `core/describe`, which other surfaces show too. Offsets are ranges [start, end). Sizes are stored
batch bytes unless the column's name contains "object".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import astuple
from pyspark.sql.types import StructType

from sparklog.chain.entry import Entry
from sparklog.core.describe.group_rows import GroupName, GroupPartitionRow, group_name, group_partition_rows
from sparklog.core.describe.log_contents import log_contents
from sparklog.core.describe.replica_lags import replica_lags
from sparklog.core.describe.segment_rows import SegmentRow, segment_rows
from sparklog.core.describe.topic_rows import (
    EffectiveValue,
    PartitionName,
    PartitionRow,
    ReplicaRow,
    TopicRow,
    partition_rows,
    replica_rows,
    topic_config,
    topic_row,
)
from sparklog.core.placement.held_slices import whole_log
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import CommandId, EntryNumber, Offset, PartitionIndex, TopicId, TopicPartition
from sparklog.spark.read.row_columns import Row, Rows, row_batch, row_schema
from sparklog.storage.keys import data_key


class ConfigRow(msgspec.Struct, frozen=True):
    """The effective config of a topic."""

    config: dict[str, EffectiveValue]


class WriteRow(msgspec.Struct, frozen=True):
    """Records [start, end) of a partition, which a write appended. `entry`: the entry of the chain with the write."""

    write_id: str | None
    command_id: CommandId | None
    app_id: str | None
    app_version: int | None
    topic: str | None
    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    records: int
    size_bytes: int
    time_ms: int
    entry: EntryNumber


class EntryRow(msgspec.Struct, frozen=True):
    """A command of an entry of the chain, or an entry without commands.

    `ignored`: a fenced coordinator wrote the entry, so it has no effect.
    """

    entry: EntryNumber
    time_ms: int
    author_kind: str
    author: str
    command_id: CommandId | None
    begun_at: EntryNumber | None
    records: tuple[str, ...]
    entry_size_bytes: int
    ignored: bool


_TABLES: Final[Mapping[str, Rows]] = {
    "topics": (TopicRow, ConfigRow),
    "partitions": (PartitionRow,),
    "replicas": (PartitionName, ReplicaRow),
    "segments": (SegmentRow,),
    "groups": (GroupName, GroupPartitionRow),
    "writes": (WriteRow,),
    "chain": (EntryRow,),
}


def metadata_schema(table: str) -> StructType:
    """The columns of the metadata table `table`, all nullable."""
    return row_schema(_TABLES[table])


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
    for command in entry.commands or (None,):
        row = EntryRow(
            entry=entry.n,
            time_ms=entry.time_ms,
            author_kind=author.kind,
            author=name,
            command_id=None if command is None else command.command_id,
            begun_at=None if command is None else command.n0,
            records=() if command is None else tuple(str(of.__struct_config__.tag) for of in command.records),
            entry_size_bytes=size_bytes,
            ignored=ignored,
        )
        yield astuple(row)


def batch_of(table: str, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return `rows` of the metadata table `table` as one batch."""
    return row_batch(_TABLES[table], rows)


def _topics(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        yield (*astuple(topic_row(state, topic)), topic_config(state, topic))


def _partitions(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        yield from map(astuple, partition_rows(state, topic, state.partitions_of(topic), log_contents(state, topic)))


def _replicas(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        for partition, lags in zip(state.partitions_of(topic), replica_lags(state, topic), strict=True):
            head = (topic.name, partition.partition)
            yield from ((*head, *astuple(row)) for row in replica_rows(state, partition, lags))


def _segments(state: ClusterState) -> Iterator[Row]:
    for topic in _by_name(state):
        for partition in state.partitions_of(topic):
            slices = state.slices.find(TopicPartition(topic.topic_id, partition.partition), whole_log(partition))
            yield from map(astuple, segment_rows(state, partition, slices, data_key))


def _groups(state: ClusterState) -> Iterator[Row]:
    for name in sorted(state.groups):
        group = state.groups[name]
        head = astuple(group_name(group))
        yield from ((*head, *astuple(row)) for row in group_partition_rows(state, group))


_ROWS: Final[Mapping[str, Callable[[ClusterState], Iterator[Row]]]] = {
    "topics": _topics,
    "partitions": _partitions,
    "replicas": _replicas,
    "segments": _segments,
    "groups": _groups,
}


def _by_name(state: ClusterState) -> list[Topic]:
    return [state.topics[topic_id] for _, topic_id in sorted(state.topic_ids.items())]
