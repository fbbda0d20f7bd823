"""One record of every kind, for what must hold for all of them."""

from __future__ import annotations

import typing

from sparklog.core.commands import Application
from sparklog.core.groups.membership import ConsumerGroup, Member, OffsetToCommit
from sparklog.core.maintenance.cleaner import Cleaner, Pass
from sparklog.core.records import (
    AgentChanged,
    Appended,
    AppendedByReference,
    AppendedRange,
    ApplicationsForgotten,
    CleanerMoved,
    ClusterAltered,
    ClusterCreated,
    ClusterRestored,
    CoordinationClaimed,
    CoordinationResigned,
    FloorRaised,
    GroupChanged,
    GroupPartitions,
    JobRan,
    LogStartMoved,
    LossReported,
    LostRecords,
    LostVersion,
    ObjectsDeleted,
    OffsetsCommitted,
    OffsetsForgotten,
    PartitionsAdded,
    PartitionsChanged,
    ProducerAllocated,
    Record,
    RecoveryPointMoved,
    SlicesSwapped,
    StoreFenced,
    StoreRegistered,
    StoreRemoved,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    TopicPromoted,
)
from sparklog.core.replication.partition_change import PartitionChange
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    NewObject,
    ObjectKind,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    ProducerSpan,
    Slice,
    StoreId,
    TimestampSource,
    TopicId,
    TopicPartition,
    UploadId,
)

_STORE = StoreId("a")
_TOPIC = TopicId(1)
_PARTITION = PartitionIndex(2)
_SPAN = ProducerSpan(ProducerId(4), 5, 2**31 - 1, 1)
_OBJECT = NamedObject(
    ObjectNumber(9),
    NewObject(
        kind=ObjectKind.SEGMENT,
        n0=EntryNumber(1),
        upload_id=UploadId("ab" * 16),
        topic_id=_TOPIC,
        size_bytes=2**40,
        crc32c=2**32 - 1,
        index_size_bytes=77,
        index_crc32c=0,
        holders=(Holder(_STORE, 0), Holder(StoreId("ö"), 3)),
        partition=_PARTITION,
        base_offset=Offset(2**60),
        leader_epoch=LeaderEpoch(6),
    ),
)
_SLICE = Slice(
    topic_id=_TOPIC,
    partition=_PARTITION,
    start=Offset(3),
    end=Offset(6),
    records=3,
    object_number=ObjectNumber(9),
    position=8,
    length=100,
    first_batch=0,
    batches=1,
    min_timestamp_us=-(2**63),
    max_timestamp_us=2**63 - 1,
    append_time_ms=1_700_000_000_000,
    timestamp_source=TimestampSource.APPEND_TIME_IN_COLUMN,
    leader_epoch=LeaderEpoch(6),
    producer=_SPAN,
)
_RANGES = (AppendedRange(_TOPIC, _PARTITION, Offset(3), Offset(6), 100),)
_CHANGE = PartitionChange(
    _TOPIC,
    _PARTITION,
    replicas=(_STORE, StoreId("ö")),
    leader=None,
    leader_epoch=LeaderEpoch(7),
    version=8,
    isr=(),
    log_ends=(Offset(3), Offset(0)),
    high_watermark=Offset(2**60),
    epochs=((LeaderEpoch(7), Offset(3)),),
    elr=(_STORE,),
    adding=(StoreId("ö"),),
    removing=(_STORE,),
    lost=(OffsetRange(Offset(1), Offset(2)),),
    arrived=((_STORE, Offset(9)),),
    forgotten_from=Offset(3),
)
_APPLICATION = Application("app", 2**53)
_MEMBER = Member("m", ("orders",), 45_000, EntryNumber(7), (TopicPartition(_TOPIC, _PARTITION),), 4)

EVERY_RECORD: tuple[Record, ...] = (
    ClusterCreated("c" * 32, {"num.partitions": "3"}),
    ClusterRestored("d" * 32, EntryNumber(7), {StoreId("a"): "file:///elsewhere"}),
    StoreRegistered(_STORE, 0, ".", "i", "zone"),
    TopicCreated(_TOPIC, "orders", {"retention.ms": "1"}, ((_STORE,), (_STORE,))),
    ClusterAltered({}),
    TopicAltered(_TOPIC, {}),
    PartitionsAdded(_TOPIC, PartitionIndex(1), ((_STORE,),)),
    TopicDeleted(_TOPIC, 17),
    TopicPromoted(_TOPIC),
    Appended((_OBJECT,), (_SLICE,), _RANGES, _APPLICATION, "label ö", (_CHANGE,)),
    AppendedByReference("f" * 64, 1, 2, 3, _RANGES, None, ""),
    SlicesSwapped(_TOPIC, _PARTITION, Offset(3), Offset(6), (_OBJECT,), (_SLICE,), 18, _CHANGE),
    LogStartMoved(_TOPIC, _PARTITION, Offset(4), 19),
    LogStartMoved(_TOPIC, _PARTITION, Offset(4), 19, PartitionChange(_TOPIC, _PARTITION, log_ends=(Offset(7),))),
    CleanerMoved(_TOPIC, _PARTITION, Cleaner(Offset(2**60), (Pass(Offset(4), 19), Pass(Offset(9), 20)))),
    ObjectsDeleted((ObjectNumber(1), ObjectNumber(2))),
    FloorRaised(EntryNumber(5), (ProducerId(4),)),
    ProducerAllocated(ProducerId(4), 5),
    ApplicationsForgotten(("app", "other")),
    LossReported(Application("app", 9), LostVersion(8, (LostRecords("t-0", Offset(3), Offset(5)),), is_whole=True)),
    GroupChanged(ConsumerGroup("billing", 3, 2, (_MEMBER,))),
    OffsetsCommitted("ö", 3, (OffsetToCommit(_TOPIC, _PARTITION, Offset(2**60), LeaderEpoch(6), "text ö"),), "m", 5),
    OffsetsForgotten(("billing",), (GroupPartitions("other", (TopicPartition(_TOPIC, _PARTITION),)),)),
    JobRan("roll", 1, 2, 0, '{"a": 1}'),
    StoreFenced(_STORE, 7),
    StoreRemoved(_STORE),
    AgentChanged(StoreId("b"), up=None),
    AgentChanged(_STORE, up=False),
    CoordinationClaimed(2, "host:1-ab", "http://host:7400"),
    CoordinationResigned(2),
    RecoveryPointMoved(_STORE, ObjectNumber(9)),
    PartitionsChanged((_CHANGE, PartitionChange(_TOPIC, _PARTITION))),
)

if {type(each) for each in EVERY_RECORD} != set(typing.get_args(Record)):
    raise AssertionError("EVERY_RECORD has one of each kind")
