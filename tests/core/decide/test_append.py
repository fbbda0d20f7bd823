"""Appends: dense offsets for all slices of a command or none, known repeats, and each refusal with its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sparklog.core.commands import (
    AlterCluster,
    AlterTopic,
    Append,
    Application,
    CreateTopic,
    DeleteTopic,
    PartitionEpoch,
)
from sparklog.core.decide import append as subject
from sparklog.core.decide.append import OFFSETS_END
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidInput,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTopic,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    SparklogError,
    StaleBrokerEpoch,
    UnknownLeaderEpoch,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from sparklog.core.records import Appended, At
from sparklog.core.replication.epoch_history import opened
from sparklog.core.replication.replica_append import Acks, appended_everywhere
from sparklog.core.state_invariants import violations
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewSlice,
    Offset,
    PartitionIndex,
    TimestampSource,
    TopicId,
)
from tests.core.decided_log import TOPIC, A, B, DecidedLog, place, span
from tests.core.replication.example_partition import partition


@pytest.fixture
def log() -> DecidedLog:
    return DecidedLog()


def several(log: DecidedLog, *parts: NewSlice) -> Append:
    """One object with all of these slices."""
    size = sum(each.length for each in parts)
    epochs = {each.partition: PartitionEpoch(each.topic_id, each.partition, LeaderEpoch(0)) for each in parts}
    return Append((log.uploaded(size),), parts, tuple(epochs.values()))


# ---- offsets ----------------------------------------------------------------------------------------


# M: S-03
def test_offsets_are_dense_per_partition_in_the_order_of_the_command(log: DecidedLog) -> None:
    log.append(3)
    command = several(log, log.part(2, 1), log.part(4, 0), log.part(1, 1), log.part(5, 0))
    (record,) = log.decide(command).records
    assert isinstance(record, Appended)
    assert [(each.partition, each.start, each.end) for each in record.slices] == [
        (1, 0, 2),
        (0, 3, 7),
        (1, 2, 3),
        (0, 7, 12),
    ]
    assert [(each.partition, each.start, each.end, each.size_bytes) for each in record.ranges] == [
        (1, 0, 3, 30),
        (0, 3, 12, 90),
    ]
    assert [each.number for each in record.objects] == [1]


def test_a_slice_keeps_what_its_author_said_field_by_field(log: DecidedLog) -> None:
    log.append(records=3)
    command = log.append_of(producer=span(log.producer(), 0, 7, 10))
    objects = (log.uploaded(10_000), log.uploaded(20_000))
    said = msgspec.structs.replace(
        command.slices[0],
        object_index=1,
        records=4,
        position=11,
        length=12,
        first_batch=13,
        batches=14,
        min_timestamp_us=15,
        max_timestamp_us=16,
    )
    other = msgspec.structs.replace(said, object_index=0, producer=span(said.producer.producer_id, 0, 11, 14))
    command = msgspec.structs.replace(command, objects=objects, slices=(said, other))
    at = At(EntryNumber(log.state.n + 1), 77)
    first, second = subject.assign_offsets(log.state, command, at).slices
    others = ("object_index", "offsets")
    kept = {name: getattr(said, name) for name in NewSlice.__struct_fields__ if name not in others}
    number = log.state.next_object_number
    assert msgspec.structs.asdict(first) == kept | {
        "start": 3,
        "end": 7,
        "object_number": number + 1,
        "append_time_ms": 77,
        "timestamp_source": TimestampSource.CREATE_TIME,
        "leader_epoch": 0,
    }
    assert (second.start, second.end, second.object_number, second.producer) == (7, 11, number, other.producer)


def test_slices_of_several_objects_get_their_own_numbers(log: DecidedLog) -> None:
    first, second = log.append_of(2), log.append_of(3, 1)
    (only,) = second.slices
    both = Append(
        (*first.objects, *second.objects),
        (*first.slices, msgspec.structs.replace(only, object_index=1)),
        (*first.epochs, *second.epochs),
    )
    log.submit(both)
    assert [each.object_number for at in (0, 1) for each in log.slices(at)] == [0, 1]


def test_append_time_lays_the_entrys_time_over_that_of_the_records(log: DecidedLog) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = log.submit(CreateTopic("stamped", config=config, assignment=((A,),))).topic_id
    assert topic is not None
    log.now_ms = 7_000
    plain = log.append_of(1)
    of_object = msgspec.structs.replace(log.append_of(1).objects[0], topic_id=topic)
    of_slice = msgspec.structs.replace(plain.slices[0], topic_id=topic)
    log.submit(Append((of_object,), (of_slice,), (PartitionEpoch(topic, PartitionIndex(0), LeaderEpoch(0)),)))
    log.submit(plain)
    everything = list(log.state.slices.everything())
    by_topic = {
        each.topic_id: (each.min_timestamp_us, each.max_timestamp_us, each.append_time_ms) for each in everything
    }
    assert by_topic == {TOPIC: (5, 6, 7_000), topic: (7_000_000, 7_000_000, 7_000)}
    assert {each.topic_id: each.timestamp_source for each in everything}[topic] is TimestampSource.APPEND_TIME


# ---- refusals ---------------------------------------------------------------------------------------


def object_with(command: Append, **changes: Any) -> Append:
    return msgspec.structs.replace(command, objects=(msgspec.structs.replace(command.objects[0], **changes),))


def slice_with(command: Append, **changes: Any) -> Append:
    return msgspec.structs.replace(command, slices=(msgspec.structs.replace(command.slices[0], **changes),))


def epoch_of(command: Append, epoch: int) -> Append:
    return msgspec.structs.replace(command, epochs=(PartitionEpoch(TOPIC, PartitionIndex(0), LeaderEpoch(epoch)),))


def of_topic(command: Append, topic_id: int) -> Append:
    return slice_with(object_with(command, topic_id=TopicId(topic_id)), topic_id=TopicId(topic_id))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (
            lambda each: msgspec.structs.replace(each, slices=()),
            InvalidInput,
            "at least one slice, an application's version or offsets; found none",
        ),
        (lambda each: object_with(each, upload_id="x"), InvalidInput, "32 lower-case hex digits"),
        (
            lambda each: slice_with(each, partition=PartitionIndex(2)),
            UnknownTopicOrPartition,
            "wanted partition 2, topic",
        ),
        (lambda each: of_topic(each, 9), UnknownTopicOrPartition, "topic id 9 is not in the cluster"),
        (lambda each: msgspec.structs.replace(each, epochs=()), InvalidInput, "names no leader epoch"),
        (
            lambda each: epoch_of(each, 1),
            UnknownLeaderEpoch,
            "orders-0: it was begun under epoch 1, the",
        ),
        (lambda each: epoch_of(each, -1), FencedLeaderEpoch, "begun under epoch -1, the partition is at epoch 0"),
        (lambda each: object_with(each, holders=(Holder(A, 5),)), StaleBrokerEpoch, "store a as 5, the store is reg"),
        (lambda each: object_with(each, holders=(Holder("c", 0),)), StaleBrokerEpoch, "store c as 0, the store is not"),
        (
            lambda each: object_with(each, holders=(Holder(B, 1),)),
            NotLeaderOrFollower,
            "the leader's store a",
        ),
    ],
)
def test_an_append_that_does_not_fit_is_refused(
    log: DecidedLog, change: Callable[[Append], Append], kind: type[SparklogError], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        log.decide(change(log.append_of(2)))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("more", "option"),
    [
        ({"label": "w" * 32_768}, "writeId"),
        ({"application": Application("a" * 32_768, 1)}, "txnAppId"),
        ({"application": Application("a", 1, run="r" * 32_768)}, "the id of the run"),
        ({"application": Application("a", 1, made_of="d" * 32_768)}, "txnDigest"),
    ],
)
def test_what_a_write_calls_itself_is_as_short_as_kafkas_ids(
    log: DecidedLog, more: dict[str, Any], option: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{option}: wanted at most 32,767 bytes of UTF-8, found 32,768, beginning"):
        log.decide(msgspec.structs.replace(log.append_of(), **more))
    longest = {"label": "w" * 32_767, "application": Application("a" * 32_767, 1, "r" * 32_767, "d" * 32_767)}
    assert log.decide(msgspec.structs.replace(log.append_of(), **longest)).records


@pytest.mark.parametrize("given", [Application("a", 0, run="r" * 32_768), Application("a", 1, "r", "d" * 32_768)])
def test_an_application_that_has_written_is_refused_long_names_before_they_are_compared(
    log: DecidedLog, given: Application
) -> None:
    log.submit(msgspec.structs.replace(log.append_of(), application=Application("a", 1, "r", "d")))
    with pytest.raises(InvalidInput, match="wanted at most 32,767 bytes of UTF-8"):
        log.decide(msgspec.structs.replace(log.append_of(), application=given))


# M: C-04
def test_records_without_a_key_are_refused_once_their_topic_is_compacted(log: DecidedLog) -> None:
    keyed, keyless = log.append_of(), msgspec.structs.replace(log.append_of(), keyless=(TOPIC,))
    assert log.decide(keyless).records
    log.submit(AlterTopic(TOPIC, {"cleanup.policy": "compact"}))
    with pytest.raises(InvalidRecord, match="topic orders is compacted, so each record needs a key"):
        log.decide(keyless)
    assert log.decide(keyed).records


def test_one_slice_that_does_not_fit_refuses_all(log: DecidedLog) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        log.submit(several(log, log.part(2, 0), log.part(2, 1), log.part(2, 2)))
    assert (log.bounds(0), log.bounds(1)) == ([], [])


def test_a_write_begun_for_a_topic_that_was_made_anew_is_refused(log: DecidedLog) -> None:
    command = log.append_of(2)
    log.submit(DeleteTopic(TOPIC))
    log.submit(CreateTopic("orders", assignment=((A,), (A,))))
    with pytest.raises(UnknownTopicOrPartition, match="deleted, or created again"):
        log.submit(command)


def fence(log: DecidedLog) -> None:
    """An election, by hand: the epoch rises."""
    before = log.partition().replication
    log.become(
        msgspec.structs.replace(
            before, leader_epoch=LeaderEpoch(1), epochs=opened(before.epochs, LeaderEpoch(1), before.next_offset)
        )
    )


# M: L-04
def test_a_write_begun_under_an_older_epoch_is_fenced(log: DecidedLog) -> None:
    command = log.append_of(2)
    fence(log)
    with pytest.raises(FencedLeaderEpoch, match="orders-0: it was begun under epoch 0, the partition is at epoch 1"):
        log.submit(command)
    assert log.append_of(2).epochs[0].leader_epoch == 0
    assert log.submit(epoch_of(command, 1)).ranges[0].end == 2


# M: L-04
def test_without_the_epoch_check_a_deposed_leaders_write_would_land(
    log: DecidedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = log.append_of(2)
    fence(log)
    monkeypatch.setattr(subject, "check_epoch", lambda value, epoch: None)
    log.submit(command)
    assert log.bounds() == [(0, 2)]


# ---- repeats ----------------------------------------------------------------------------------------


def test_a_version_at_or_below_the_last_of_its_application_adds_nothing(log: DecidedLog) -> None:  # M: I-03
    first = log.append(2, application=Application("job", 5))
    for version in (5, 4, 0):
        again = log.append(9, 1, application=Application("job", version))
        assert (again.ranges, again.application) == (first.ranges, Application("job", 5))
    log.append(1, application=Application("job", 6))
    log.append(1, application=Application("another job", 5))
    assert (log.bounds(0), log.bounds(1)) == ([(0, 2), (2, 3), (3, 4)], [])


# M: I-02
def test_a_repeat_of_a_version_is_known_before_its_topic_is_looked_for(log: DecidedLog) -> None:
    first = log.append(2, application=Application("job", 5))
    again = log.append_of(2, application=Application("job", 5))
    log.submit(DeleteTopic(TOPIC))
    assert log.submit(again).ranges == first.ranges


def test_without_the_look_for_known_appends_a_repeat_would_be_there_twice(
    log: DecidedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparklog.core.decide.command.known_append", lambda state, command: None)
    for _ in range(2):
        log.append(2, application=Application("job", 5))
    assert log.bounds() == [(0, 2), (2, 4)]
    producer = log.producer()
    log.append(2, 1, producer=span(producer, 0, 0, 1))
    with pytest.raises(AssertionError, match="13: producer 0"):
        log.append(2, 1, producer=span(producer, 0, 0, 1))
    assert log.bounds(1) == [(0, 2), (2, 4)]


def test_a_repeated_batch_of_a_producer_is_told_where_it_is(log: DecidedLog) -> None:  # M: I-01
    producer = log.producer()
    log.append(1)
    first = log.append(3, producer=span(producer, 0, 0, 2))
    log.append(3, producer=span(producer, 0, 3, 5))
    again = log.append(3, producer=span(producer, 0, 0, 2))
    assert [msgspec.structs.astuple(each) for each in again.ranges] == [(TOPIC, 0, 1, 4, 0, 0)]  # no bytes were written
    assert (again.records, first.records) == (3, 3)
    assert len(log.bounds()) == 3


# M: I-01
@pytest.mark.parametrize(
    ("sequences", "kind"),
    [
        (span(0, 0, 1, 3), OutOfOrderSequence),
        (span(0, 1, 0, 2), InvalidProducerEpoch),
        (span(1, 0, 0, 2), UnknownProducerId),
    ],
)
def test_sequences_that_do_not_go_on_are_refused_and_nothing_is_known_of_them(
    log: DecidedLog, sequences: Any, kind: type[SparklogError]
) -> None:
    log.producer()
    with pytest.raises(kind) as caught:
        log.append(3, producer=sequences)
    assert type(caught.value) is kind
    assert log.bounds() == []
    assert list(violations(log.state)) == []


def of_producer(log: DecidedLog, *sequences: tuple[int, Any]) -> Append:
    """A slice of one record for each (partition, span or None)."""
    return several(log, *(log.part(1, partition, producer=each) for partition, each in sequences))


def test_slices_of_one_partition_go_on_after_one_another(log: DecidedLog) -> None:
    producer = log.producer()
    log.submit(of_producer(log, (0, span(producer, 0, 0, 0)), (0, span(producer, 0, 1, 1))))
    (batch,) = log.state.producers[producer].batches[place()]
    assert (batch.first_sequence, batch.last_sequence, batch.start, batch.end) == (0, 1, 0, 2)
    with pytest.raises(InvalidInput, match="consecutive sequences"):
        log.submit(of_producer(log, (0, span(producer, 0, 2, 2)), (0, span(producer, 0, 4, 4))))


def test_an_append_comes_from_a_producer_or_from_none(log: DecidedLog) -> None:
    one, other = log.producer(), log.producer()
    with pytest.raises(InvalidInput, match="a producer or from none"):
        log.submit(of_producer(log, (0, span(one, 0, 0, 0)), (1, None)))
    with pytest.raises(InvalidInput, match="one producer and epoch"):
        log.submit(of_producer(log, (0, span(one, 0, 0, 0)), (0, span(other, 0, 0, 0))))


def test_a_repeat_beside_slices_of_no_producer_is_no_success(log: DecidedLog) -> None:
    producer = log.producer()
    log.submit(of_producer(log, (0, span(producer, 0, 0, 0))))
    with pytest.raises(InvalidInput, match="a producer or from none"):
        log.submit(of_producer(log, (0, span(producer, 0, 0, 0)), (1, None)))


def test_a_repeat_in_some_partitions_only_is_refused(log: DecidedLog) -> None:
    producer = log.producer()
    log.submit(of_producer(log, (0, span(producer, 0, 0, 0))))
    with pytest.raises(InvalidInput, match="repeats batches of its producer in some partitions"):
        log.submit(of_producer(log, (0, span(producer, 0, 0, 0)), (1, span(producer, 0, 0, 0))))


# M: I-03
def test_a_version_is_written_without_records_too(log: DecidedLog) -> None:
    empty = Append((), (), (), Application("job", 3))
    first = log.submit(empty)
    assert (first.records, first.ranges) == (0, ())
    assert log.state.applications["job"].version == 3
    assert log.submit(log.append_of(application=Application("job", 3))).n == first.n
    assert log.bounds() == []
    with pytest.raises(InvalidInput, match="slices name only 0"):
        log.submit(Append((log.uploaded(),), (), (), Application("job", 4)))


# M: P-04
def test_fewer_stores_in_sync_than_the_topic_wants_take_no_writes(log: DecidedLog) -> None:
    log.become(partition({"a": 0, "b": 0}, "a", hw=0))
    log.submit(AlterTopic(TOPIC, {"min.insync.replicas": "2"}))
    with pytest.raises(NotEnoughReplicas, match=r"orders-0: a write with acks=all needs 2 stores in sync"):
        log.append()
    log.submit(AlterTopic(TOPIC, {"min.insync.replicas": "1"}))
    assert log.append().ranges[0].start == 0


# M: P-04
def test_a_clusters_default_counts_for_topics_that_do_not_set_their_own(log: DecidedLog) -> None:
    log.become(partition({"a": 0, "b": 0}, "a", hw=0))
    log.submit(AlterCluster({"min.insync.replicas": "2"}))
    with pytest.raises(NotEnoughReplicas, match=r"orders-0: a write with acks=all needs 2 stores in sync"):
        log.append()
    log.submit(msgspec.structs.replace(log.append_of(5), acks=Acks.LEADER))
    assert log.state.partitions[place()].replication.high_watermark == 0
    log.submit(AlterCluster({}, ("min.insync.replicas",)))
    assert log.state.partitions[place()].replication.high_watermark == 5  # nothing else held it back
    log.submit(AlterTopic(TOPIC, {"min.insync.replicas": "1"}))
    log.submit(AlterCluster({"min.insync.replicas": "2"}))
    assert log.append().ranges[0].start == 5


# M: P-04
def test_min_insync_replicas_is_at_most_the_replication_factor(log: DecidedLog) -> None:
    log.submit(AlterTopic(TOPIC, {"min.insync.replicas": "2"}))
    assert log.append().ranges[0].start == 0


def test_offsets_end_where_every_column_still_holds_them(log: DecidedLog) -> None:
    """By appends that each are legal: what is stored of such slices would keep every process from a snapshot."""
    most = (1 << 48) - 1
    log.become(appended_everywhere(log.partition().replication, Offset(OFFSETS_END - most + 1)))
    with pytest.raises(InvalidInput, match="an offset is at most"):
        log.decide(slice_with(log.append_of(1), records=most))
    assert log.decide(slice_with(log.append_of(1), records=most - 1)).records


# M: N-05
def test_an_internal_topic_is_not_written_to(log: DecidedLog) -> None:
    """A version before this rule may have created one."""
    topic = log.state.topics[TOPIC]
    command = log.append_of()
    log.state.topics[TOPIC] = msgspec.structs.replace(topic, name="__consumer_offsets")
    with pytest.raises(InvalidTopic, match="'__consumer_offsets' is the name of an internal topic of Kafka"):
        log.decide(command)
    log.state.topics[TOPIC] = topic
    assert log.decide(command).records
