"""Requests about topics, and the replies: for people, for programs in other languages, and for the coordinator's page.

GET  /v1/topics           -> TopicsReply
GET  /v1/topics/{name}    -> TopicReply
POST /v1/plan             PlanRequest -> PlanReply
POST /v1/offsets          OffsetsRequest -> OffsetsReply

Any coordinator answers these requests. A reply names the chain position that it describes. Rows of
topics are in `core/describe/topic_rows.py`. The headers of a request are
in `metadata_messages.py`. The size of a reply is limited: ask for the rest with another request.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from sparklog.core.describe.topic_rows import TopicDescription, TopicRow
from sparklog.core.types import (
    EntryNumber,
    Int32,
    LeaderEpoch,
    Name,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TopicId,
)

TOPICS = "/v1/topics"
TOPIC = "/v1/topics/{name}"
PLAN = "/v1/plan"
OFFSETS = "/v1/offsets"

MOST_TOPICS = 1_000
MOST_PARTITIONS = 1_000  # in a reply, and in a request
MOST_SLICES = 5_000
MOST_LOOKUPS = 100  # look-ups by time in a request: each reads objects of the log

_LARGEST = 2**63 - 1
_Number = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


class TopicsReply(msgspec.Struct, frozen=True):
    """Topics, sorted by name. `more` is true if further topics follow the last one."""

    chain_id: str
    position: EntryNumber
    topics: tuple[TopicRow, ...]
    more: bool


class TopicReply(TopicDescription, frozen=True, kw_only=True):
    """A topic with some of its partitions. `partitions_total` is the number of all.

    `more` is true if further partitions follow the last one.
    """

    chain_id: str
    position: EntryNumber
    partitions_total: int
    more: bool


class WantedRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Offsets [start, end) of a partition. A null `start` is the log start, a null `end` the high watermark."""

    partition: Int32
    start: _Number | None = None
    end: _Number | None = None


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks where the records of `ranges` are; without ranges, those of the topic's first MOST_PARTITIONS partitions.

    The reply has at most `limit` slices.
    """

    topic: Name
    ranges: Annotated[tuple[WantedRange, ...], msgspec.Meta(max_length=MOST_PARTITIONS)] = ()
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_SLICES)] = 1_000


class SliceReply(msgspec.Struct, frozen=True):
    """Records [start, end) of a partition: bytes [position, position + length) of the object under the key `object`.

    The object is on the stores in `stores`: try them in this order. `records` is end - start, or less after compaction
    and in a topic that is or was mirrored.
    """

    object: str
    stores: tuple[StoreId, ...]
    position: int
    length: int
    start: Offset
    end: Offset
    records: int


class RangeReply(msgspec.Struct, frozen=True):
    """The slices of offsets [start, end), ascending. The first slice may begin earlier, and the last may end later.

    If the limit was reached, `next` is the offset at which the rest of the wanted range begins; otherwise it is null.
    `lost`: ranges that overlap these offsets, and that an unclean election or an operator gave up.
    """

    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    start: Offset
    end: Offset
    slices: tuple[SliceReply, ...]
    next: Offset | None
    lost: tuple[OffsetRange, ...]


class PlanReply(msgspec.Struct, frozen=True):
    """Ranges of several partitions, all planned at the chain position `position`. `stores`: the stores' addresses.

    `more` is true if this is not the whole plan. Ask again from each `next`, and for the partitions without a range
    here.
    """

    chain_id: str
    position: EntryNumber
    topic: str
    topic_id: TopicId
    ranges: tuple[RangeReply, ...]
    stores: dict[StoreId, str]
    more: bool


class EarliestOffset(msgspec.Struct, frozen=True, tag="earliest", forbid_unknown_fields=True):
    """The log start."""


class LatestOffset(msgspec.Struct, frozen=True, tag="latest", forbid_unknown_fields=True):
    """The high watermark: the end of the records that can be read."""


class AtTime(msgspec.Struct, frozen=True, tag="time", forbid_unknown_fields=True):
    """The first record whose timestamp is `timestamp_ms` or later, in milliseconds since 1970, UTC."""

    timestamp_ms: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]


class EndOfEpoch(msgspec.Struct, frozen=True, tag="epoch", forbid_unknown_fields=True):
    """The end of the records of a leader epoch: Kafka's OffsetsForLeaderEpoch (KIP-101, KIP-279, KIP-320)."""

    leader_epoch: _Number


class WantedOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for one offset of a partition: `at` log start, high watermark, a time, or the end of an epoch."""

    partition: Int32
    at: EarliestOffset | LatestOffset | AtTime | EndOfEpoch


class OffsetsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for offsets of a topic's partitions."""

    topic: Name
    offsets: Annotated[tuple[WantedOffset, ...], msgspec.Meta(min_length=1, max_length=MOST_PARTITIONS)]


class OffsetReply(msgspec.Struct, frozen=True):
    """The wanted offset; null if all records are older than the wanted time, or the leader epoch has not begun yet.

    `leader_epoch` is null if the offset is. For EndOfEpoch, it is the greatest epoch not above the wanted one; an epoch
    that ended without a record does not count. Otherwise it is the partition's present epoch.
    """

    partition: PartitionIndex
    offset: Offset | None
    leader_epoch: LeaderEpoch | None


class OffsetsReply(msgspec.Struct, frozen=True):
    """An OffsetReply for each WantedOffset, in the same order."""

    chain_id: str
    position: EntryNumber
    topic_id: TopicId
    offsets: tuple[OffsetReply, ...]
