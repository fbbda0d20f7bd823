"""Appends to mirror topics: each slice gets the offsets that it names, or the append is refused with its error."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sparklog.chain.commit.command_body import decode_body, encode_body
from sparklog.core.commands import Append, Application, CreateTopic, PartitionEpoch, ProducerEpoch
from sparklog.core.decide.append import OFFSETS_END, assign_offsets
from sparklog.core.errors import (
    FencedLeaderEpoch,
    InvalidInput,
    InvalidRequiredAcks,
    OffsetOutOfRange,
    PolicyViolation,
    SparklogError,
)
from sparklog.core.records import Appended, At
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state_invariants import violations
from sparklog.core.types import (
    EntryNumber,
    KafkaTopic,
    LeaderEpoch,
    Offset,
    OffsetRange,
    PartitionIndex,
    StoreId,
    TimestampSource,
)
from tests.core.decided_log import TOPIC, DecidedLog, span
from tests.core.mirrored_log import SOURCE, MirroredLog
from tests.core.replication.example_partition import stores

ORDERS = CreateTopic("plain", assignment=((StoreId("a"),),))


@pytest.fixture
def log() -> MirroredLog:
    return MirroredLog()


def both(*commands: Append) -> Append:
    """All slices of these appends, each in its own object."""
    slices = [replace(each.slices[0], object_index=at) for at, each in enumerate(commands)]
    epochs = {each.epochs[0].partition: each.epochs[0] for each in commands}
    return replace(
        commands[0],
        objects=tuple(each.objects[0] for each in commands),
        slices=tuple(slices),
        epochs=tuple(epochs.values()),
    )


# ---- what is written ----------------------------------------------------------------------------------


def test_slices_get_the_offsets_that_they_name(log: MirroredLog) -> None:  # M: S-03
    result = log.submit(both(log.named(2, 0, 5), log.named(1, 5, 6), log.named(3, 0, 3, partition=1)))
    assert log.bounds() == [(0, 5), (5, 6)]
    assert log.bounds(1) == [(0, 3)]
    assert [(each.start, each.end, each.empty, each.records) for each in result.ranges] == [(0, 6, 3, 3), (0, 3, 0, 3)]
    assert result.records == 6
    log.submit(log.named(1, 6, 1_000))
    assert log.partition().next_offset == log.partition().high_watermark == 1_000
    assert log.replicas() == "a:abc a1000 b1000 c1000 hw1000"


def test_timestamps_come_from_the_column_whatever_the_config_says(log: MirroredLog) -> None:
    log.configure(message_timestamp_type="LogAppendTime")
    log.submit(log.named(1, 0, 1, source=TimestampSource.CREATE_TIME))
    log.submit(log.named(1, 1, 2, source=TimestampSource.APPEND_TIME_IN_COLUMN))
    assert [(each.timestamp_source, each.max_timestamp_us) for each in log.slices()] == [
        (TimestampSource.CREATE_TIME, 6),
        (TimestampSource.APPEND_TIME_IN_COLUMN, 6),
    ]


def test_an_application_may_mirror_and_its_repeat_is_known(log: MirroredLog) -> None:
    first = log.submit(replace(log.named(2, 0, 5), application=Application("mirror", 1)))
    again = log.submit(replace(log.named(2, 5, 9), application=Application("mirror", 1)))
    assert (again.ranges, again.records) == (first.ranges, 2)
    assert log.partition().next_offset == 5


def test_a_command_that_is_sent_again_has_its_first_result(log: MirroredLog) -> None:
    submission = log.begin(log.named(2, 0, 5))
    log.submit_again(submission)
    assert log.submit_again(replace(submission, in_doubt=True)).ranges[0].end == 5
    assert log.bounds() == [(0, 5)]


@pytest.mark.parametrize("on", ["abc", "ab"])
def test_an_append_by_reference_names_its_offsets_too(log: MirroredLog, on: str) -> None:
    command = log.named(2, 0, 5, on=on)
    objects, slices = decode_body(encode_body(command.objects, command.slices))
    at = At(EntryNumber(log.state.n + 1), log.now_ms)
    (record,) = log.decide(command).records
    assert isinstance(record, Appended)
    expanded = assign_offsets(log.state, Append(objects, slices, ()), at, record.changes)
    assert replace(expanded, changes=()) == replace(record, changes=())


def test_a_replica_that_lacks_a_gapped_slice_ends_at_its_start(log: MirroredLog) -> None:  # M: L-03
    log.submit(log.named(1, 0, 10))
    log.submit(both(log.named(1, 10, 20), log.named(2, 20, 40, on="ab")))
    assert log.replicas() == "a:ab a40 b40 c20 hw40"
    log.report("c", 40)
    assert log.replicas() == "a:abc a40 b40 c40 hw40"


# ---- what is refused ------------------------------------------------------------------------------------


def changed(command: Append, **changes: Any) -> Append:
    return replace(command, slices=tuple(replace(each, **changes) for each in command.slices))


@pytest.mark.parametrize(
    ("start", "text"),
    [(4, r"wanted offsets from the next offset 5 on, found \[4, 9\), which is written before"), (6, "beyond a hole")],
)
def test_an_append_begins_exactly_at_the_next_offset(log: MirroredLog, start: int, text: str) -> None:
    log.submit(log.named(2, 0, 5))
    with pytest.raises(OffsetOutOfRange, match=text) as caught:
        log.submit(log.named(2, start, 9))
    assert not caught.value.retriable
    assert log.partition().next_offset == 5


@pytest.mark.parametrize("second", [(4, 9), (6, 9)])
def test_each_slice_begins_where_the_one_before_it_ends(log: MirroredLog, second: tuple[int, int]) -> None:
    with pytest.raises(OffsetOutOfRange, match="from the next offset 5 on"):
        log.submit(both(log.named(2, 0, 5), log.named(1, *second)))


def test_what_is_not_legal_is_refused(log: MirroredLog) -> None:
    plain = log.named(2, 0, 5)
    producer = span(log.producer(), 0, 0, 1)
    cases: list[tuple[Append, type[SparklogError], str]] = [
        (
            both(plain, changed(log.named(1, 0, 3, partition=1), offsets=None, timestamp_source=None)),
            InvalidInput,
            "in all of its slices or in none, found 1",
        ),
        (log.named(6, 0, 5), InvalidInput, r"at most one record per offset, found 6 in \[0, 5\)"),
        (changed(plain, producer=producer), InvalidInput, "has no sequences"),
        (replace(plain, fence=ProducerEpoch(0, 0)), InvalidInput, "no transaction of a producer"),
        (changed(plain, timestamp_source=TimestampSource.APPEND_TIME), InvalidInput, "in their column"),
        (changed(plain, timestamp_source=None), InvalidInput, "with the source of its timestamps"),
        (changed(plain, offsets=None), InvalidInput, "with the source of its timestamps"),
        (replace(plain, acks=Acks.LEADER), InvalidRequiredAcks, "needs acks=all on every in-sync store"),
        (replace(plain, pull=True), InvalidRequiredAcks, "replication=pull"),
        (log.named(1, 0, OFFSETS_END + 1), InvalidInput, "an offset is at most"),
        (changed(plain, offsets=None, timestamp_source=None), PolicyViolation, "sparklog topic promote orders"),
    ]
    for command, kind, text in cases:
        with pytest.raises(kind, match=text):
            log.submit(command)
    assert log.bounds() == []


def test_only_a_mirrored_topic_takes_named_offsets() -> None:
    log = DecidedLog()
    command = changed(
        log.append_of(2), offsets=OffsetRange(Offset(0), Offset(5)), timestamp_source=TimestampSource.CREATE_TIME
    )
    with pytest.raises(PolicyViolation, match="orders is not mirrored, so it assigns offsets itself"):
        log.submit(command)


def test_a_rewrite_names_no_offsets(log: MirroredLog) -> None:
    log.submit(log.named(2, 0, 5))
    swap = log.swap_of(0, 5, records=2)
    (made,) = swap.slices
    named = replace(made.new, offsets=OffsetRange(Offset(0), Offset(5)), timestamp_source=TimestampSource.CREATE_TIME)
    with pytest.raises(InvalidInput, match="only an append to a mirror topic names offsets"):
        log.submit(replace(swap, slices=(replace(made, new=named),)))


def test_a_gapped_slice_of_an_ordinary_topic_breaks_an_invariant(log: MirroredLog) -> None:
    log.submit(log.named(2, 0, 5))
    assert not list(violations(log.state))
    log.state.topics[TOPIC] = replace(log.state.topics[TOPIC], mirror_of=None)
    assert [each.split(":")[0] for each in violations(log.state)] == ["8"]


# ---- promotion ------------------------------------------------------------------------------------------


def test_a_promoted_topic_continues_behind_the_ends_in_a_new_epoch(log: MirroredLog) -> None:  # M: L-05
    log.submit(log.named(2, 0, 5))
    late = log.named(1, 5, 6)
    log.promote(8, 0)
    assert log.state.topics[TOPIC].mirror_of is None
    assert log.replicas() == "a:abc a8 b8 c8 hw8"
    assert log.value().epochs == ((0, 0), (1, 8))
    assert log.value(1).epochs == ((1, 0),)
    with pytest.raises(FencedLeaderEpoch):
        log.submit(late)
    with pytest.raises(PolicyViolation, match="it has been promoted since"):
        log.submit(replace(late, epochs=(PartitionEpoch(TOPIC, PartitionIndex(0), LeaderEpoch(1)),)))
    log.write("abc", 2)
    assert log.bounds() == [(0, 5), (8, 10)]


def test_a_topic_is_promoted_once(log: MirroredLog) -> None:
    log.promote(0, 0)
    with pytest.raises(PolicyViolation, match="wanted a mirror topic to promote, found orders"):
        log.promote(0, 0)


def test_a_replica_that_lags_fetches_up_to_the_gap_and_is_behind_it(log: MirroredLog) -> None:
    log.submit(log.named(1, 0, 10))
    log.submit(log.named(1, 10, 20, on="ab"))
    log.promote(25, 0)
    assert log.replicas() == "a:ab a25 b25 c10 hw25"
    log.report("c", 25)
    assert log.replicas() == "a:abc a25 b25 c25 hw25"


@pytest.mark.parametrize(
    ("ends", "kind", "text"),
    [
        ((4, 0), OffsetOutOfRange, "orders-0: the end of a mirror is at or above the next offset 5, found 4"),
        ((5,), InvalidInput, "wanted an end for each of them, found 1"),
        ((OFFSETS_END + 1, 0), InvalidInput, "an offset is at most"),
    ],
)
def test_ends_that_can_not_be_are_refused(
    log: MirroredLog, ends: tuple[int, ...], kind: type[SparklogError], text: str
) -> None:
    log.submit(log.named(2, 0, 5))
    with pytest.raises(kind, match=text):
        log.promote(*ends)
    assert log.state.topics[TOPIC].mirror_of == SOURCE


@pytest.mark.parametrize(("stores_out", "code"), [("ab", "NOT_ENOUGH_REPLICAS"), ("abc", "NO_REPLICA_ONLINE")])
def test_partitions_without_a_leader_or_enough_replicas_are_not_promoted(
    log: MirroredLog, stores_out: str, code: str
) -> None:
    log.configure(min_insync_replicas="2")
    log.submit(log.named(2, 0, 5))
    for store in stores_out:
        log.fence(store)
    with pytest.raises(SparklogError) as caught:
        log.promote(5, 0)
    assert caught.value.code == code
    assert log.state.topics[TOPIC].mirror_of == SOURCE


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (KafkaTopic("", "orders", "uuid"), "names the cluster id of its Kafka topic"),
        (KafkaTopic("kafka", "orders", " uuid"), "names the topic id of its Kafka topic"),
        (KafkaTopic("kafka\n", "orders", "uuid"), "names the cluster id"),
        (KafkaTopic("kafka", "orders", "u" * 250), "names the topic id"),
        (KafkaTopic("kafka", "or/ders", "uuid"), "a topic name is"),
    ],
)
def test_the_source_of_a_mirror_is_named_whole(log: MirroredLog, source: KafkaTopic, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        log.submit(CreateTopic("other", assignment=(stores("a"),), mirror_of=source))
