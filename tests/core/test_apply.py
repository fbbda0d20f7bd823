"""`apply`: what each record changes, how long an object lives, and what an author is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from sparklog.core.apply import apply, result_of
from sparklog.core.commands import (
    Append,
    Application,
    ConfirmDeleted,
    CreateTopic,
    DeleteTopic,
    MoveLogStart,
    PartitionEpoch,
    RaiseFloor,
)
from sparklog.core.records import AppendedByReference, AppliedCommand, At, CommandResult, FloorRaised
from sparklog.core.state import ClusterState
from sparklog.core.types import (
    CommandId,
    EntryNumber,
    LeaderEpoch,
    ObjectNumber,
    Offset,
    PartitionIndex,
    TopicPartition,
)
from tests.core.decided_log import TOPIC, B, DecidedLog, place, span
from tests.core.replication.example_partition import partition
from tests.core.state_contents import contents

AT = At(EntryNumber(7), 70)


@pytest.fixture
def log() -> DecidedLog:
    return DecidedLog()


def move_to(offset: int, partition: int = 0) -> MoveLogStart:
    return MoveLogStart(TOPIC, PartitionIndex(partition), Offset(offset))


def retired(log: DecidedLog) -> set[int]:
    return {each.number for each in log.state.retired}


# ---- appends ----------------------------------------------------------------------------------------


# M: L-01
def test_an_append_moves_next_offset_log_ends_and_high_watermark(log: DecidedLog) -> None:
    log.append(3)
    found = log.partition()
    assert (found.next_offset, found.replication.log_ends, found.high_watermark, found.size_bytes) == (3, (3,), 3, 30)
    assert log.partition(1).next_offset == 0


# M: L-01
def test_a_replica_outside_the_isr_stays_where_it_was(log: DecidedLog) -> None:
    log.become(partition({"a": 0, "b": 0}, "a", hw=0))
    log.append(3)
    assert (log.partition().replication.log_ends, log.partition().high_watermark) == ((3, 0), 3)
    assert log.partition().replication.log_end(B) == 0


def test_an_append_by_reference_is_expanded_before(log: DecidedLog) -> None:
    with pytest.raises(TypeError, match="expanded before"):
        apply(log.state, AppendedByReference("f" * 64, 1, 1, 1, ()), AT)


# M: I-01
def test_the_last_five_batches_of_a_producer_are_kept(log: DecidedLog) -> None:
    producer = log.producer()
    for at in range(7):
        log.now_ms += 1
        log.append(1, producer=span(producer, 0, at, at))
    kept = log.state.producers[producer]
    assert [each.first_sequence for each in kept.batches[place()]] == [2, 3, 4, 5, 6]
    assert kept.last_used_ms == log.now_ms


# ---- the life of an object ----------------------------------------------------------------------------


def shared(log: DecidedLog) -> None:
    """Object 0 with a slice in each partition, and another one in partition 0."""
    parts = (log.part(2, 0), log.part(2, 1), log.part(2, 0))
    epochs = tuple(PartitionEpoch(TOPIC, PartitionIndex(at), LeaderEpoch(0)) for at in (0, 1))
    log.submit(Append((log.uploaded(60),), parts, epochs))


def test_an_object_is_retired_when_its_last_slice_is_forgotten(log: DecidedLog) -> None:
    shared(log)
    log.submit(move_to(2))
    assert (log.state.released, retired(log)) == ({ObjectNumber(0): 1}, set())
    log.submit(log.swap_of(2, 4))
    assert (log.state.released, retired(log)) == ({ObjectNumber(0): 2}, set())
    log.submit(move_to(2, 1))
    assert (log.state.released, retired(log)) == ({}, {0})
    assert [each.delete_after_ms for each in log.state.retired] == [log.now_ms + 60_000]


def test_a_retired_object_is_known_until_its_deletion_is_confirmed(log: DecidedLog) -> None:
    shared(log)
    log.submit(DeleteTopic(TOPIC))
    assert log.state.objects.get(ObjectNumber(0)) is not None
    log.submit(ConfirmDeleted((ObjectNumber(0),)))
    assert (log.state.objects.get(ObjectNumber(0)), retired(log)) == (None, set())


def test_a_log_start_inside_a_slice_keeps_the_slice(log: DecidedLog) -> None:
    log.append(10)
    log.append(10)
    log.submit(move_to(9))
    assert (log.bounds(), retired(log), log.partition().size_bytes) == ([(0, 10), (10, 20)], set(), 200)
    log.submit(move_to(10))
    assert (log.bounds(), retired(log), log.partition().size_bytes) == ([(10, 20)], {0}, 100)


# M: L-07
def test_a_log_start_cuts_the_history_of_epochs(log: DecidedLog) -> None:
    log.append(10)
    log.submit(move_to(4))
    assert log.partition().replication.epochs == ((0, 4),)


# M: I-02
def test_a_deleted_topic_takes_its_sequences_along_and_leaves_others(log: DecidedLog) -> None:
    producer = log.producer()
    log.append(1, producer=span(producer, 0, 0, 0))
    log.append(1, 1, producer=span(producer, 0, 0, 0))
    idle = log.producer()
    before = log.state.producers[idle]
    log.submit(DeleteTopic(TOPIC))
    assert log.state.producers[producer].batches == {}
    assert log.state.producers[idle] is before


# ---- FLOOR --------------------------------------------------------------------------------------------


def test_floor_forgets_the_results_of_what_was_begun_below_it(log: DecidedLog) -> None:
    old = log.begin(log.append_of(1))
    log.submit_again(old)
    young = log.begin(log.append_of(1))
    log.submit_again(young)
    log.submit(RaiseFloor(young.n0))
    assert log.state.results.get(old.command_id) is None
    assert log.state.results.get(young.command_id) is not None


def test_an_append_to_many_partitions_copies_what_its_producer_wrote_once(log: DecidedLog) -> None:
    copies = []

    class Counted(dict[TopicPartition, Any]):
        def copy(self) -> dict[TopicPartition, Any]:
            copies.append(len(self))
            return dict(self)

    number = log.producer()
    log.append(1, producer=span(number, 0, 0, 0))
    known = log.state.producers[number]
    log.state.producers[number] = msgspec.structs.replace(known, batches=Counted(known.batches))
    appends = [log.append_of(1, at, producer=span(number, 0, 1 - at, 1 - at)) for at in (0, 1)]
    both = msgspec.structs.replace(
        appends[0],
        objects=tuple(each.objects[0] for each in appends),
        slices=tuple(msgspec.structs.replace(each.slices[0], object_index=at) for at, each in enumerate(appends)),
        epochs=tuple(each.epochs[0] for each in appends),
    )
    log.submit(both)
    assert copies == [1]
    assert [len(log.state.producers[number].batches[place(at)]) for at in (0, 1)] == [2, 1]


def test_a_producer_that_is_gone_already_expires_without_a_word(log: DecidedLog) -> None:
    producer = log.producer()
    for _ in range(2):
        apply(log.state, FloorRaised(EntryNumber(1), (producer,)), AT)
    assert log.state.producers == {}


# ---- results ------------------------------------------------------------------------------------------


def test_an_author_is_told_what_came_of_the_command(log: DecidedLog) -> None:
    created = log.submit(CreateTopic("more", 1, 1))
    assert (created.topic_id, created.ranges, created.time_ms) == (2, (), log.now_ms)
    appended = log.append(3, application=Application("job", 1))
    assert (appended.records, appended.application) == (3, Application("job", 1))
    assert [(each.start, each.end) for each in appended.ranges] == [(0, 3)]
    nothing = AppliedCommand(CommandId("f" * 32), EntryNumber(3), (FloorRaised(EntryNumber(0)),))
    assert result_of(nothing, AT) == CommandResult(AT.n, EntryNumber(3), AT.time_ms)


# ---- forks --------------------------------------------------------------------------------------------


def test_a_fork_changes_alone_and_its_source_changes_not(log: DecidedLog) -> None:
    producer = log.producer()
    log.append(4)
    log.state.slices.seal()
    log.state.objects.seal()
    log.append(4)
    before = contents(log.state)
    fork = DecidedLog()
    fork.state, fork._ids = log.state.fork(), 1_000
    fork.append(2, 1, producer=span(producer, 0, 0, 1))
    fork.submit(fork.swap_of(0, 8))
    fork.submit(move_to(8))
    fork.submit(ConfirmDeleted((ObjectNumber(0), ObjectNumber(1))))
    fork.submit(CreateTopic("more", 1, 1))
    fork.submit(DeleteTopic(TOPIC))
    assert contents(log.state) == before
    assert contents(fork.state) != before


def test_every_part_of_a_state_that_can_change_is_forked(log: DecidedLog) -> None:
    fork = log.state.fork()
    for field in dataclasses.fields(ClusterState):
        own, forked = getattr(log.state, field.name), getattr(fork, field.name)
        if field.name in ("ancestors", "config", "coordinator", "copies_lowered") or isinstance(
            own, int | str
        ):  # replaced, never changed
            assert forked is own
        else:
            assert forked is not own, field.name
    assert contents(fork) == contents(log.state)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_deleted_topic_leaves_no_slice_and_no_count_of_a_partly_released_object(
    log: DecidedLog, sealed: bool
) -> None:
    log.submit(CreateTopic("more", 2, 1))
    both = log.append_of(2)
    slices = (log.part(1), log.part(1, 1, position=10))
    epochs = tuple(PartitionEpoch(TOPIC, PartitionIndex(at), LeaderEpoch(0)) for at in range(2))
    log.submit(msgspec.structs.replace(both, slices=slices, epochs=epochs))
    log.append(3)
    log.submit(move_to(1))
    assert dict(log.state.released) == {ObjectNumber(0): 1}
    if sealed:
        log.state.slices.seal()
        log.state.objects.seal()
    log.submit(DeleteTopic(TOPIC))
    assert (dict(log.state.released), retired(log)) == ({}, {0, 1})
    assert set(log.state.partitions) == {place(0, 2), place(1, 2)}
    assert len(log.state.slices) == 0


def test_an_empty_state_knows_nothing() -> None:
    state = ClusterState()
    assert (state.n, state.topic_named("orders"), state.partition(1, 0)) == (-1, None, None)
