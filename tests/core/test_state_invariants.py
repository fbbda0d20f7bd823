"""Each invariant is seen to be broken: a sound state is spoiled in one place, and the check names the number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from sparklog.core.commands import Application, MoveLogStart
from sparklog.core.records import CommandResult
from sparklog.core.state import ApplicationState, ClusterState, ProducerState, SequencedBatch, Topic
from sparklog.core.state_invariants import check, violations
from sparklog.core.tables.result_table import AppliedBy
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    Holder,
    LeaderEpoch,
    NamedObject,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    ProducerId,
    Slice,
    StoreId,
    TopicId,
)
from tests.core.decided_log import TOPIC, A, DecidedLog, place, span


@pytest.fixture
def log() -> DecidedLog:
    """Partition 0: a sealed segment [0, 30) and a slice [30, 50), log start 5; partition 1: a producer's [0, 4)."""
    made = DecidedLog()
    for records in (20, 10, 20):
        made.append(records, application=Application("job", made.state.n))
    made.submit(made.swap_of(0, 30))
    made.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
    producer = made.producer()
    made.append(3, 1, producer=span(producer, 0, 0, 2))
    made.append(1, 1, producer=span(producer, 0, 3, 3))
    return made


def test_a_sound_state_breaks_none(log: DecidedLog) -> None:
    assert list(violations(log.state)) == []
    assert list(violations(ClusterState())) == []


def partition(log: DecidedLog, **changes: Any) -> None:
    log.state.partitions[place()] = msgspec.structs.replace(log.partition(), **changes)


def replicas(log: DecidedLog, **changes: Any) -> None:
    log.become(msgspec.structs.replace(log.partition().replication, **changes))


def fenced(log: DecidedLog, store: StoreId) -> None:
    log.state.stores[store] = msgspec.structs.replace(log.state.stores[store], fenced=True)


def slices(log: DecidedLog, change: Callable[[Slice], Slice | None], of_partition: int = 0) -> None:
    """Each slice of a partition as `change` makes it; None: gone."""
    found = list(log.state.slices.remove(place(of_partition), OffsetRange(Offset(0), Offset(1 << 40))))
    log.state.slices.add(each for each in map(change, found) if each is not None)


def first_slice(log: DecidedLog, **changes: Any) -> None:
    slices(log, lambda each: msgspec.structs.replace(each, **changes) if each.start == 0 else each)


def second_slice(log: DecidedLog, **changes: Any) -> None:
    slices(log, lambda each: msgspec.structs.replace(each, **changes) if each.start == 30 else each)


def an_object(log: DecidedLog, number: int, **changes: Any) -> None:
    """Object `number` with other fields, as its slices named it before."""
    key = ObjectNumber(number)
    before, named_by = log.state.objects.get(key), log.state.objects.slices(key)
    assert before is not None
    log.state.objects.remove_many([key])
    log.state.objects.add(NamedObject(key, msgspec.structs.replace(before, **changes)), named_by)


def same_upload(log: DecidedLog, number: int, other: int) -> None:
    named = log.state.objects.get(ObjectNumber(number))
    assert named is not None
    an_object(log, other, n0=named.n0, upload_id=named.upload_id)


def batches(log: DecidedLog, *found: tuple[int, int, int, int], at: int = 1) -> None:
    made = tuple(SequencedBatch(first, last, Offset(start), Offset(end)) for first, last, start, end in found)
    log.state.producers[ProducerId(0)] = ProducerState(ProducerId(0), 0, 0, {place(at): made})


def spoiled(log: DecidedLog, name: str, value: Any) -> None:
    setattr(log.state, name, value)


def applied(log: DecidedLog, n: int, n0: int) -> None:
    log.state.results.add(AppliedBy(CommandId("f" * 32), EntryNumber(n), EntryNumber(n0)))


def result(log: DecidedLog, n: int) -> CommandResult:
    return CommandResult(EntryNumber(n), EntryNumber(0), 0)


SPOIL: list[tuple[str, str, Callable[[DecidedLog], object]]] = [
    ("1: FLOOR", "above the chain", lambda log: spoiled(log, "floor", log.state.n + 1)),
    ("1: FLOOR", "negative", lambda log: spoiled(log, "floor", -1)),
    ("1: command", "later entry", lambda log: applied(log, 99, 0)),
    ("1: command", "before it began", lambda log: applied(log, 1, 2)),
    ("1: command", "below FLOOR", lambda log: spoiled(log, "floor", 1) or applied(log, 1, 0)),
    (
        "1: application",
        "later entry",
        lambda log: log.state.applications.update({"job": ApplicationState(1, result(log, 99))}),
    ),
    ("2: names", "name of none", lambda log: log.state.topic_ids.update({"ghost": TopicId(1)})),
    ("2: names", "no name", lambda log: log.state.topic_ids.pop("orders")),
    ("2: topic", "id above the counter", lambda log: spoiled(log, "next_topic_id", 1)),
    (
        "2: topic",
        "under another id",
        lambda log: log.state.topics.update({TOPIC: Topic(TopicId(2), "orders", 2, {}, 0)}),
    ),
    ("3: partitions", "one too many", lambda log: log.state.partitions.update({place(2): log.partition()})),
    ("3: partitions", "one missing", lambda log: log.state.partitions.pop(place(1))),
    ("4: 1-0 has replicas", "store of none", lambda log: replicas(log, replicas=("z",))),
    ("4: 1-0 is in sync", "fenced and in sync", lambda log: fenced(log, A)),
    ("5.6: HW 49", "not the smallest LEO", lambda log: replicas(log, high_watermark=49)),
    ("6: the LEO 40", "inside a slice", lambda log: replicas(log, log_ends=(40,))),
    ("7: slices", "a gap", lambda log: second_slice(log, start=31, records=19)),
    ("7: slices", "an overlap", lambda log: second_slice(log, start=29)),
    ("7: TopicPartition", "wholly below the log start", lambda log: replicas(log, log_start=30)),
    ("7: TopicPartition", "begins too late", lambda log: slices(log, lambda each: None if each.start == 0 else each)),
    ("7: TopicPartition", "ends too early", lambda log: slices(log, lambda each: None if each.start == 30 else each)),
    ("7: TopicPartition", "no slice", lambda log: slices(log, lambda each: None)),
    ("8: slices", "none", lambda log: first_slice(log, records=0)),
    ("8: slices", "too many", lambda log: first_slice(log, records=31)),
    ("8: slices", "an append with a gap", lambda log: second_slice(log, records=1)),
    ("8: slices of partitions", "no partition", lambda log: slices(log, lambda each: elsewhere(each))),
    ("9: a slice", "no object", lambda log: first_slice(log, object_number=99)),
    ("9: a slice", "beyond its object", lambda log: first_slice(log, position=1)),
    ("9: a slice", "before its object", lambda log: first_slice(log, position=-1)),
    ("9: a slice", "object of another topic", lambda log: an_object(log, 3, topic_id=2)),
    ("9: a slice", "segment of another partition", lambda log: an_object(log, 3, partition=1)),
    ("10: object 3", "retired and named", lambda log: retire(log, 3)),
    ("10: object 0", "not named, not retired", lambda log: log.state.retired.remove_many([ObjectNumber(0)])),
    ("10: object 3", "miscounted", lambda log: log.state.released.update({ObjectNumber(3): 1})),
    ("10: object 0", "released and retired", lambda log: log.state.released.update({ObjectNumber(0): 1})),
    ("10: object 77", "retired, not there", lambda log: retire(log, 77)),
    ("10: object 77", "released, not there", lambda log: log.state.released.update({ObjectNumber(77): 1})),
    ("11:", "wrong sum", lambda log: partition(log, size_bytes=1)),
    ("12: object", "above the counter", lambda log: spoiled(log, "next_object_number", 2)),
    ("12: object", "holder of no registration", lambda log: an_object(log, 3, holders=(Holder(A, 9),))),
    ("12: store", "above the counter", lambda log: spoiled(log, "next_registration", 1)),
    ("12: producer", "above the counter", lambda log: spoiled(log, "next_producer_id", 0)),
    (
        "12: producer",
        "under another id",
        lambda log: log.state.producers.update({ProducerId(0): ProducerState(ProducerId(7), 0, 0)}),
    ),
    ("13: producer", "no batch", lambda log: batches(log)),
    ("13: producer", "six", lambda log: batches(log, *((at, at, at - 5, at - 4) for at in range(6)))),
    ("13: producer", "no partition", lambda log: batches(log, (0, 0, 0, 1), at=9)),
    ("13: producer", "beyond the log", lambda log: batches(log, (0, 4, 0, 5))),
    ("13: producer", "a gap of sequences", lambda log: batches(log, (0, 0, 0, 1), (2, 2, 1, 2))),
    ("13: producer", "offsets fall", lambda log: batches(log, (0, 0, 1, 2), (1, 1, 0, 1))),
    ("13: producer", "fewer sequences than offsets", lambda log: batches(log, (0, 0, 0, 2))),
    ("17: objects [3, 4]", "one upload", lambda log: same_upload(log, 3, 4)),
    ("17: objects [0, 4]", "one upload, retired", lambda log: same_upload(log, 0, 4)),
]


def elsewhere(each: Slice) -> Slice:
    return msgspec.structs.replace(each, partition=PartitionIndex(9))


def retire(log: DecidedLog, number: int) -> None:
    log.state.retired.add_all(np.array([number]), 0, "orders")


@pytest.mark.parametrize(
    ("number", "spoil"), [(n, spoil) for n, _, spoil in SPOIL], ids=[f"{n} {w}" for n, w, _ in SPOIL]
)
def test_a_state_that_was_spoiled_is_named(log: DecidedLog, number: str, spoil: Callable[[DecidedLog], object]) -> None:
    spoil(log)
    assert any(each.startswith(number) for each in violations(log.state)), list(violations(log.state))
    with pytest.raises(AssertionError, match=f"entry {log.state.n} breaks "):
        check(log.state)


def test_every_invariant_of_the_list_is_spoiled_here() -> None:
    assert {int(each.split(":")[0].split(".")[0]) for each, _, _ in SPOIL} == {*range(1, 14), 17}


def test_the_number_of_an_object_is_there_once(log: DecidedLog) -> None:
    """Sealed and in the tail at once: a table that counts it twice."""
    log.state.objects.seal()
    found = log.state.objects.get(ObjectNumber(3))
    assert found is not None
    log.state.objects.add(NamedObject(ObjectNumber(3), found), 1)
    assert any(each.startswith("10: ") and "numbers" in each for each in violations(log.state))


def test_only_the_first_twenty_are_shown(log: DecidedLog) -> None:
    for number in range(100, 150):
        retire(log, number)
    with pytest.raises(AssertionError, match="breaks 50 invariants") as caught:
        check(log.state)
    assert len(str(caught.value).splitlines()) == 21


def test_an_epoch_that_began_at_the_end_is_sound(log: DecidedLog) -> None:
    replicas(log, leader_epoch=LeaderEpoch(2), epochs=((0, 5), (2, 50)))
    check(log.state)


def test_a_gap_that_ends_where_an_epoch_begins_is_sound(log: DecidedLog) -> None:
    """An election forgot [30, 50), and then nothing was written."""
    replicas(log, leader_epoch=LeaderEpoch(2), epochs=((0, 5), (2, 50)))
    slices(log, lambda each: None if each.start == 30 else each)
    assert not [each for each in violations(log.state) if each.startswith("7")]
