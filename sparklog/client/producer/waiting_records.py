"""Holds records, as Python objects, until they are sent, and converts them to Arrow columns with their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sparklog.client.producer.record_future import Partitions, SentRecords
from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.core.state import ClusterState
from sparklog.core.texts.user_text import utf8_of
from sparklog.core.types import PartitionIndex, TopicId, TopicPartition
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.stored_schema import HEADERS, RAW, TIMESTAMP
from sparklog.log.write.routing import partition_of_rows

Header = tuple[str, bytes | None]
Cells = tuple[bytes | None, bytes | None, list[Header] | None, int, int | None]  # in the order given at CELLS
_SENT_SCHEMA: Final = pa.schema([*RAW.arrow, READ_SCHEMA.field("partition")])
_KINDS: Final = (pa.binary(), pa.binary(), HEADERS, TIMESTAMP, pa.int32())
CELLS: Final = len(_KINDS)  # cells of a record: key, value, headers, timestamp in microseconds, partition


class WaitingRecords:
    """The records of one topic that wait to be sent, in the order of `send`, and their outcomes (`sent`).

    The list `cells` has key, value, headers, timestamp and partition of the first record, then those of the next one,
    and so on. A record is added by one call of `cells.extend`, so that an interrupt can't leave a part of it there.
    `since_ms`: when `send` added the first record, in ms of a monotonic clock; 0 in a transaction.
    """

    __slots__ = ("cells", "sent", "since_ms")

    def __init__(self, sent: SentRecords, since_ms: int) -> None:
        self.sent = sent
        self.since_ms = since_ms
        self.cells: list[Any] = []


class RoutedRecords:
    """The records of one topic in one flush, as Arrow rows. A retry keeps the partition of each record."""

    __slots__ = ("partitions", "rows", "sent", "topic_id")

    def __init__(self, topic_id: TopicId, rows: pa.RecordBatch, partitions: Partitions, sent: SentRecords) -> None:
        self.topic_id = topic_id
        self.rows = rows
        self.partitions = partitions
        self.sent = sent

    def parts(self) -> dict[TopicPartition, int]:
        """The number of records for each partition that gets any."""
        if isinstance(self.partitions, int):
            return {TopicPartition(self.topic_id, PartitionIndex(self.partitions)): self.rows.num_rows}
        counts = np.bincount(self.partitions)
        owners = np.flatnonzero(counts)
        return {
            TopicPartition(self.topic_id, PartitionIndex(owner)): count
            for owner, count in zip(owners.tolist(), counts[owners].tolist(), strict=True)
        }

    def only(self, wanted: Sequence[int]) -> RoutedRecords:
        """Only the records of the partitions `wanted`, in the order that they have here."""
        if isinstance(self.partitions, int):
            return self
        mask = np.isin(self.partitions, wanted)
        if mask.all():
            return self
        return RoutedRecords(self.topic_id, self.rows.filter(pa.array(mask)), self.partitions[mask], self.sent)


def as_bytes(what: str, given: object) -> bytes | None:
    """Convert a key, or the value of a record or header, to bytes: text as UTF-8; None stays None.

    Raises InvalidInput unless it is bytes, bytearray, memoryview, text or None, and InvalidRecord for text that UTF-8
    can't encode. `what`: its name in the error.
    """
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return utf8_of(given, what)
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise InvalidInput(f"{what}: wanted bytes, text or None, found {type(given).__name__}")


def as_headers(given: object) -> tuple[list[Header], int]:
    """Convert a list or tuple of pairs (name, value) to headers. Returns the headers, and their size in bytes.

    Raises InvalidInput if it is not made of such pairs, and InvalidRecord for text that UTF-8 can't encode.
    """
    headers: list[Header] = []
    size = 0
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"headers: wanted a list of (name, value), found {type(given).__name__}")
    for pair in given:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidInput(f"headers: wanted pairs of a name and a value, found {pair!r}")
        value = as_bytes("a header's value", pair[1])
        size += len(utf8_of(pair[0], "a header's name")) + len(value or b"")
        headers.append((pair[0], value))
    return headers, size


def routed(waiting: WaitingRecords, state: ClusterState, sticky: int) -> RoutedRecords:
    """Convert the records of a topic to Arrow columns, and find the partition of each in `state`.

    Records with neither a partition nor a key all go to one partition: of the n partitions that have a leader, the one
    at index `sticky` modulo n (of all partitions if none has a leader). Raises UnknownTopicOrPartition if the topic was
    deleted.
    """
    name = waiting.sent.topic
    topic = state.topic_named(name)
    if topic is None:
        raise UnknownTopicOrPartition(f"topic {name} was deleted before its records were sent")
    columns = [pa.array(waiting.cells[at::CELLS], kind) for at, kind in enumerate(_KINDS)]
    rows = pa.RecordBatch.from_arrays(columns, schema=_SENT_SCHEMA)
    led = [partition.partition for partition in state.partitions_of(topic) if partition.replication.leader is not None]
    kept = PartitionIndex(led[sticky % len(led)] if led else sticky % topic.partitions)
    partitions = partition_of_rows(rows.column("key"), rows.column("partition"), name, topic.partitions, kept)
    filled = np.full(rows.num_rows, partitions) if isinstance(partitions, int) else partitions
    at = rows.schema.get_field_index("partition")
    rows = rows.set_column(at, rows.schema.field(at), pa.array(filled, pa.int32()))
    return RoutedRecords(topic.topic_id, rows, partitions, waiting.sent)


def naming_topic(rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    """Add the column `topic` to the rows, with the name `topic` in every row."""
    return rows.append_column(READ_SCHEMA.field("topic"), pa.repeat(topic, rows.num_rows))
