"""The vocabulary of sparklog: ids, offsets, ranges, objects and slices. Nothing here does I/O."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NewType

import msgspec

Offset = NewType("Offset", int)  # position of a record in its partition; from 0, never used twice
LeaderEpoch = NewType("LeaderEpoch", int)  # rises by one at each election
TopicId = NewType("TopicId", int)  # a counter of the chain; a topic created again gets another id
PartitionIndex = NewType("PartitionIndex", int)  # from 0
EntryNumber = NewType("EntryNumber", int)  # position of an entry in the metadata chain; from 0
ObjectNumber = NewType("ObjectNumber", int)  # given to a data object by the chain when it is named
StoreId = NewType("StoreId", str)  # a place of replicas, as a broker is in Kafka
ProducerId = NewType("ProducerId", int)  # given by the chain
CommandId = NewType("CommandId", str)  # 32 hex digits, drawn once by the author of a command
UploadId = NewType("UploadId", str)  # 32 hex digits, drawn once per task attempt and object
# Texts in commands and requests. The decoder enforces these limits, so that no check ever works on millions of
# characters. The checks have much lower limits, and their errors say which text is too long. Records have no limits, so
# a chain that was written can always be read.
Name = Annotated[str, msgspec.Meta(max_length=1_000)]
CommandStoreId = Annotated[StoreId, msgspec.Meta(max_length=1_000)]
Text = Annotated[str, msgspec.Meta(max_length=65_536)]
Int32 = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Place = tuple[str, int]  # a partition as users name it: its topic's name, and its index


class TopicPartition(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A partition of a topic. A topic that is created again has another id."""

    topic_id: TopicId
    partition: PartitionIndex


class OffsetRange(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """Offsets [start, end): `end` is the first offset that is not in the range."""

    start: Offset
    end: Offset

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"an offset range needs 0 <= start <= end, found [{self.start}, {self.end})")


class ObjectKind(IntEnum):
    """The kind of a data object. It determines how the object is named (see `storage/keys.py`)."""

    APPEND = 0  # uploaded by one writer task: batches of one or more partitions of one topic
    SEGMENT = 1  # a sealed segment of one partition, named by its base offset


class TimestampSource(IntEnum):
    """The source of the timestamps of a slice's records (`message.timestamp.type`)."""

    CREATE_TIME = 0  # in the timestamp column, given by the producer
    APPEND_TIME = 1  # in `Slice.append_time_ms`: readers use it instead of the column
    APPEND_TIME_IN_COLUMN = 2  # append time in the column: the roll wrote it, or a mirror, which has it from Kafka


class Holder(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A store that held an object when the object was named, and the store's registration at that time."""

    store: StoreId
    registration: int


class KafkaTopic(msgspec.Struct, frozen=True):
    """A topic of a Kafka cluster: the cluster's id, the topic's name, and the topic's id, a uuid as text (KIP-516)."""

    cluster_id: str
    topic: str
    topic_id: str

    def __str__(self) -> str:
        return f"{self.topic} in Kafka cluster {self.cluster_id} (topic id {self.topic_id})"


class NewObject(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """An uploaded data object that a command names for the first time.

    `n0`: the chain position up to which the uploader had read before the upload. `n0` and `upload_id` are part of the
    object's name. `partition`, `base_offset` and `leader_epoch` are set only for sealed segments. `crc32c` is of the
    whole object, `index_crc32c` of its whole index. In Java, OpenObject writes these fields in this order.
    """

    kind: ObjectKind
    n0: EntryNumber
    upload_id: UploadId
    topic_id: TopicId
    size_bytes: int
    crc32c: int
    index_size_bytes: int
    index_crc32c: int
    holders: tuple[Holder, ...]
    partition: PartitionIndex | None = None
    base_offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None

    @property
    def total_bytes(self) -> int:
        """The bytes of the object and its index together."""
        return self.size_bytes + self.index_size_bytes


class ProducerSpan(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The sequence numbers of a slice's records, from an idempotent producer. Both ends are inclusive, as in Kafka."""

    producer_id: ProducerId
    producer_epoch: int
    first_sequence: int
    last_sequence: int


class NewSlice(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """Records of one partition inside an uploaded object, before the chain has given them offsets.

    `object_index` is the index of the object in `objects` of the same command. Bytes [position, position + length) of
    the object hold `batches` whole batches, whose rows in the object's index file begin at `first_batch`. Timestamps
    are microseconds since the epoch, UTC. In Java, WrittenIndex writes these fields in this order, up to `producer`.

    Only in a mirror topic, a slice names its `offsets` and its `timestamp_source`. Its range begins at the next
    offset of the partition, and the offsets in it that have no record stay empty for ever. If there are such offsets,
    the object stores the offset of each record; without any, the slice is dense, and the object need not.
    """

    object_index: int
    topic_id: TopicId
    partition: PartitionIndex
    records: int
    position: int
    length: int
    first_batch: int
    batches: int
    min_timestamp_us: int
    max_timestamp_us: int
    producer: ProducerSpan | None = None
    offsets: OffsetRange | None = None
    timestamp_source: TimestampSource | None = None

    @property
    def offset_count(self) -> int:
        """The number of offsets that the slice gets: more than its records if it names its offsets, and has gaps."""
        return self.records if self.offsets is None else self.offsets.end - self.offsets.start


class Slice(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """Records [start, end) of a partition, and the place of their bytes.

    After compaction, and in a topic that is or was mirrored, `records` may be less than `end - start`.
    """

    topic_id: TopicId
    partition: PartitionIndex
    start: Offset
    end: Offset
    records: int
    object_number: ObjectNumber
    position: int
    length: int
    first_batch: int
    batches: int
    min_timestamp_us: int
    max_timestamp_us: int
    append_time_ms: int
    timestamp_source: TimestampSource
    leader_epoch: LeaderEpoch
    producer: ProducerSpan | None = None


class NamedObject(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A data object that the chain has named, with the number the chain gave it."""

    number: ObjectNumber
    object: NewObject
