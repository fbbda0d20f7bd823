"""One record of every kind, for what must hold for all of them."""

from __future__ import annotations

import typing

from sparklog.core.commands import Application
from sparklog.core.records import (
    Appended,
    AppendedByReference,
    AppendedRange,
    ApplicationsForgotten,
    ClusterCreated,
    FloorRaised,
    JobRan,
    LogStartMoved,
    ObjectsDeleted,
    PartitionsAdded,
    ProducerAllocated,
    Record,
    SlicesSwapped,
    StoreRegistered,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
)
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    Offset,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    Slice,
    StoreId,
    TimestampSource,
    TopicId,
    UploadId,
)

_STORE = StoreId("a")
_TOPIC = TopicId(1)
_PARTITION = PartitionIndex(2)
_SPAN = ProducerSpan(ProducerId(4), 5, 2**31 - 1, 1)
_OBJECT = NamedObject(
    ObjectNumber(9),
    NewObject(
        ObjectKind.SEGMENT,
        EntryNumber(1),
        UploadId("ab" * 16),
        _TOPIC,
        2**40,
        2**32 - 1,
        77,
        0,
        (Holder(_STORE, 0), Holder(StoreId("ö"), 3)),
        _PARTITION,
        Offset(2**60),
        LeaderEpoch(6),
    ),
)
_SLICE = Slice(
    _TOPIC,
    _PARTITION,
    Offset(3),
    Offset(6),
    3,
    ObjectNumber(9),
    8,
    100,
    0,
    1,
    -(2**63),
    2**63 - 1,
    1_700_000_000_000,
    TimestampSource.APPEND_TIME_IN_COLUMN,
    LeaderEpoch(6),
    _SPAN,
)
_RANGES = (AppendedRange(_TOPIC, _PARTITION, Offset(3), Offset(6), 100),)
_APPLICATION = Application("app", 2**53)

EVERY_RECORD: tuple[Record, ...] = (
    ClusterCreated("c" * 32, {"num.partitions": "3"}),
    StoreRegistered(_STORE, 0, ".", "i", "zone"),
    TopicCreated(_TOPIC, "orders", {"retention.ms": "1"}, ((_STORE,), (_STORE,))),
    TopicAltered(_TOPIC, {}),
    PartitionsAdded(_TOPIC, PartitionIndex(1), ((_STORE,),)),
    TopicDeleted(_TOPIC, 17),
    Appended((_OBJECT,), (_SLICE,), _RANGES, _APPLICATION, "label ö"),
    AppendedByReference("f" * 64, 1, 2, 3, _RANGES, None, ""),
    SlicesSwapped(_TOPIC, _PARTITION, Offset(3), Offset(6), (_OBJECT,), (_SLICE,), 18),
    LogStartMoved(_TOPIC, _PARTITION, Offset(4), 19),
    ObjectsDeleted((ObjectNumber(1), ObjectNumber(2))),
    FloorRaised(EntryNumber(5), (ProducerId(4),)),
    ProducerAllocated(ProducerId(4), 5),
    ApplicationsForgotten(("app", "other")),
    JobRan("roll", 1, 2, 0, '{"a": 1}'),
)

if {type(each) for each in EVERY_RECORD} != set(typing.get_args(Record)):
    raise AssertionError("EVERY_RECORD has one of each kind")
