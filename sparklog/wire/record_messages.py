"""Records over HTTP, for programs that have no client: appended and read through a coordinator.

POST /v1/producers              ProducerRequest -> ProducerReply
POST /v1/topics/{name}/records  AppendRequest -> AppendReply
GET  /v1/topics/{name}/records  -> RecordsReply

The leading coordinator appends, any coordinator reads. Fields have the names of `sparklog produce --json` and
`sparklog consume --format json`. With `base64`, keys, values and header values are base64, otherwise text.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from sparklog.core.types import EntryNumber, Int32, Offset, PartitionIndex, TopicId

PRODUCERS = "/v1/producers"
RECORDS = "/v1/topics/{name}/records"

MOST_APPENDED = 10_000  # records in a request
MOST_READ = 10_000  # records in a reply
MOST_HEADERS = 10_000  # of a record
MOST_READ_BYTES = 8 * 2**20  # of the records in a reply, as JSON
_Milliseconds = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
_ProducerId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ProducerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for a new producer id, or for the next epoch of `producer_id`, which fences its older epochs."""

    producer_id: _ProducerId | None = None


class ProducerReply(msgspec.Struct, frozen=True):
    """A producer id and its epoch. In each partition, its sequences begin at 0."""

    chain_id: str
    position: EntryNumber
    producer_id: int
    producer_epoch: int


class RecordHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A header of a record. Its value may be null."""

    key: str
    value: str | None = None


class RecordToAppend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A record. A null `value` is a tombstone. `timestamp`: in milliseconds since 1970, UTC; null: the present time.

    Without `partition`, the hash of the key chooses the partition, as in Kafka's producer. All records of a request
    that have neither go to one partition.
    """

    value: str | None
    key: str | None = None
    headers: Annotated[tuple[RecordHeader, ...], msgspec.Meta(max_length=MOST_HEADERS)] = ()
    timestamp: _Milliseconds | None = None
    partition: Int32 | None = None


class ProducerSequence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sequence of a request's first record. The next request to the same partition continues after the last one.

    The sequence after 2147483647 is 0.
    """

    producer_id: _ProducerId
    producer_epoch: Int32
    sequence: Int32


class AppendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records to append to a topic, all of them or none.

    With `producer`, all records name the same partition. A repeated request then appends nothing, and gets the offsets
    of the first one.
    """

    records: Annotated[tuple[RecordToAppend, ...], msgspec.Meta(min_length=1, max_length=MOST_APPENDED)]
    base64: bool = False
    producer: ProducerSequence | None = None


class AppendedRecord(msgspec.Struct, frozen=True):
    """The partition and the offset of a record."""

    partition: PartitionIndex
    offset: Offset


class AppendReply(msgspec.Struct, frozen=True):
    """An AppendedRecord for each record, in the order of the request. Every in-sync replica has them."""

    chain_id: str
    position: EntryNumber
    topic: str
    topic_id: TopicId
    records: tuple[AppendedRecord, ...]


class RecordReply(msgspec.Struct, frozen=True):
    """A record. `timestamp` is in milliseconds since 1970, UTC, and `timestamp_us` in microseconds."""

    topic: str
    partition: PartitionIndex
    offset: Offset
    timestamp: int
    timestamp_us: int
    key: str | None
    value: str | None
    headers: tuple[RecordHeader, ...]


class RecordsReply(msgspec.Struct, frozen=True):
    """Records of a partition, by offset. Offsets [log_start, high_watermark) can be read; after compaction some have no
    record. Continue at `next`: it may be less than `high_watermark` even if there are no records in the reply.

    `replaced` is true if some text is not UTF-8: it has U+FFFD there, and `base64=true` gives the bytes. `masked` is
    true if the coordinator hides parts of this topic's records.
    """

    chain_id: str
    position: EntryNumber
    topic: str
    topic_id: TopicId
    partition: PartitionIndex
    log_start: Offset
    high_watermark: Offset
    next: Offset
    records: tuple[RecordReply, ...]
    replaced: bool
    masked: bool
