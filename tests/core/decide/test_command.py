"""The order of the checks: a known command, a known append, FLOOR, the rest; and what a refusal says of the past."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.core.commands import (
    AllocateProducer,
    Application,
    CreateTopic,
    DeleteTopic,
    MoveLogStart,
    RaiseFloor,
    ReportJob,
    Submission,
)
from sparklog.core.decide import command as subject
from sparklog.core.errors import (
    DuplicateResource,
    InvalidInput,
    InvalidProducerEpoch,
    Landed,
    OutOfOrderSequence,
    UnknownProducerId,
    UnknownTopicOrPartition,
    WriteExpired,
)
from sparklog.core.records import JobRan, ProducerAllocated
from sparklog.core.state_invariants import check
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.types import CommandId, EntryNumber, Offset, PartitionIndex, ProducerId
from tests.core.decided_log import TOPIC, A, DecidedLog, span
from tests.core.state_contents import contents


@pytest.fixture
def log() -> DecidedLog:
    return DecidedLog()


def raise_floor(log: DecidedLog) -> EntryNumber:
    log.append(1)
    floor = EntryNumber(log.state.n + 1)
    log.submit(RaiseFloor(floor))
    return floor


def in_doubt(submission: Submission) -> Submission:
    return msgspec.structs.replace(submission, in_doubt=True)


# ---- known commands -----------------------------------------------------------------------------------


def test_a_known_command_gets_its_first_result_whatever_happened_since(log: DecidedLog) -> None:
    submission = log.begin(log.append_of(3))
    first = log.submit_again(submission)
    log.append(2)
    log.submit(DeleteTopic(TOPIC))
    for again in (submission, in_doubt(submission)):
        assert log.decide_again(again) == subject.Decision(committed_in=first.n)
        assert log.submit_again(again) == first


def test_a_known_id_is_enough(log: DecidedLog) -> None:
    """The command itself is not compared: an id is drawn once, by one author, for one command."""
    submission = log.begin(CreateTopic("more", assignment=((A,),)))
    first = log.submit_again(submission)
    again = log.decide_again(msgspec.structs.replace(submission, command=DeleteTopic(TOPIC)))
    assert again == subject.Decision(committed_in=first.n)


@pytest.mark.parametrize("command_id", ["", "f" * 31, "f" * 33, "F" * 32, "g" * 32, "f" * 31 + "\n"])
def test_a_command_id_that_the_table_could_not_hold_is_refused(log: DecidedLog, command_id: str) -> None:
    submission = msgspec.structs.replace(log.begin(log.append_of(3)), command_id=CommandId(command_id))
    with pytest.raises(InvalidInput, match="a command id is 32 lower-case hex digits, found"):
        log.submit_again(submission)


def test_a_command_can_not_be_begun_in_the_future(log: DecidedLog) -> None:
    """FLOOR would never pass it; and 2^63 would fit no column."""
    submission = log.begin(log.append_of(3))
    for n0 in (log.state.n + 2, 1 << 63):
        with pytest.raises(InvalidInput, match=f"begins at a chain position up to {log.state.n + 1}, found {n0}"):
            log.submit_again(msgspec.structs.replace(submission, n0=EntryNumber(n0)))
    log.submit_again(msgspec.structs.replace(submission, n0=EntryNumber(log.state.n + 1)))


def test_without_the_look_for_known_commands_a_repeat_would_be_refused(log: DecidedLog) -> None:
    submission = log.begin(log.append_of(3))
    log.submit_again(submission)
    log.state.results = ResultTable()
    with pytest.raises(DuplicateResource):
        log.submit_again(submission)
    assert log.bounds() == [(0, 3)]


def test_deciding_changes_nothing(log: DecidedLog) -> None:
    producer = log.producer()
    log.append(5)
    before = contents(log.state)
    for command in (
        log.append_of(2),
        log.append_of(2, 1, producer=span(producer, 0, 0, 1)),
        log.append_of(2, application=Application("a", 1)),
        log.swap_of(0, 5),
        MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)),
        DeleteTopic(TOPIC),
        RaiseFloor(EntryNumber(2)),
        AllocateProducer(producer),
    ):
        assert log.decide(command).records
        assert contents(log.state) == before


# ---- FLOOR --------------------------------------------------------------------------------------------


def test_floor_refuses_what_was_begun_or_uploaded_below_it(log: DecidedLog) -> None:  # M: F-09
    begun_early = log.begin(log.append_of(1))
    uploaded_early = log.append_of(1)
    floor = raise_floor(log)
    late = log.begin(uploaded_early)
    for submission, at in ((begun_early, begun_early.n0), (late, uploaded_early.objects[0].n0)):
        with pytest.raises(WriteExpired, match=rf"at chain position {floor} \(FLOOR\) or later.*began at {at}"):
            log.submit_again(submission)
    at_floor = log.append_of(1)
    assert at_floor.objects[0].n0 == floor
    log.submit(at_floor)


def test_one_upload_below_floor_refuses_all_of_a_command(log: DecidedLog) -> None:  # M: F-09
    early = log.append_of(2)
    raise_floor(log)
    late = log.append_of(3, 1)
    before = contents(log.state)
    both = msgspec.structs.replace(
        late,
        objects=(*late.objects, *early.objects),
        slices=(*late.slices, msgspec.structs.replace(early.slices[0], object_index=1)),
        epochs=(*late.epochs, *early.epochs),
    )
    with pytest.raises(WriteExpired):
        log.submit(both)
    assert contents(log.state) == before


def test_floor_refuses_rewrites_and_commands_without_uploads_too(log: DecidedLog) -> None:
    log.append(4)
    swap = log.swap_of(0, 4)
    create = log.begin(CreateTopic("more", assignment=((A,),)))
    raise_floor(log)
    for submission in (log.begin(swap), create):
        with pytest.raises(WriteExpired):
            log.submit_again(submission)


# M: I-02
def test_a_repeat_below_floor_is_known_by_its_application_version(log: DecidedLog) -> None:
    submission = log.begin(log.append_of(3, application=Application("job", 1)))
    first = log.submit_again(submission)
    raise_floor(log)
    assert log.state.results.get(submission.command_id) is None
    assert log.decide_again(submission).known == msgspec.structs.replace(first, n0=EntryNumber(first.n))


# M: F-09
def test_without_floor_an_upload_below_it_would_be_named(log: DecidedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    early = log.append_of(1)
    raise_floor(log)
    monkeypatch.setattr(subject, "_check_floor", lambda floor, submission: None)
    log.submit(early)
    named = min(each.object.n0 for each in log.state.objects)
    assert named < log.state.floor


# ---- what a refusal says of earlier attempts ------------------------------------------------------------


def test_a_refusal_in_doubt_is_proof_above_floor_and_none_below(log: DecidedLog) -> None:
    early = log.begin(log.append_of(1))
    gone = log.begin(MoveLogStart(TOPIC, PartitionIndex(9), Offset(0)))
    with pytest.raises(UnknownTopicOrPartition) as proof:
        log.submit_again(in_doubt(gone))
    assert proof.value.landed is Landed.NO
    raise_floor(log)
    for submission, landed in ((early, Landed.NO), (in_doubt(early), Landed.UNKNOWN)):
        with pytest.raises(WriteExpired) as expired:
            log.submit_again(submission)
        assert expired.value.landed is landed


def test_a_producers_refusal_in_doubt_is_no_proof(log: DecidedLog) -> None:
    producer = log.producer()
    submission = log.begin(log.append_of(1, producer=span(producer, 0, 4, 4)))
    for each, landed in ((submission, Landed.NO), (in_doubt(submission), Landed.UNKNOWN)):
        with pytest.raises(OutOfOrderSequence) as caught:
            log.submit_again(each)
        assert caught.value.landed is landed


# ---- producers and reports ------------------------------------------------------------------------------


# M: I-01
def test_producers_are_numbered_and_their_epochs_rise(log: DecidedLog) -> None:
    assert [log.producer(), log.producer()] == [0, 1]
    assert log.decide(AllocateProducer(1)).records == (ProducerAllocated(ProducerId(1), 1),)
    log.submit(AllocateProducer(1))
    assert log.decide(AllocateProducer(1)).records == (ProducerAllocated(ProducerId(1), 2),)
    with pytest.raises(UnknownProducerId, match="producer 2 is not known to the chain: ask for a new one"):
        log.decide(AllocateProducer(2))


def test_only_the_newest_instance_of_a_producer_gets_the_next_epoch(log: DecidedLog) -> None:  # M: I-01
    producer = log.producer()
    assert log.submit(AllocateProducer(producer, 0)).producer_epoch == 1
    with pytest.raises(InvalidProducerEpoch, match="at epoch 1, its next epoch was requested by epoch 0"):
        log.decide(AllocateProducer(producer, 0))
    assert log.submit(AllocateProducer(producer, 1)).producer_epoch == 2


# M: I-01
def test_an_id_is_never_given_again_though_its_producer_was_forgotten(log: DecidedLog) -> None:
    producer = log.producer()
    log.now_ms += 1 << 40
    log.submit(RaiseFloor(EntryNumber(0), shown_ms=log.now_ms))
    assert not log.state.producers
    assert log.producer() == producer + 1


def test_the_last_report_of_each_job_is_kept(log: DecidedLog) -> None:
    for job, ended in (("roll", 2), ("retention", 3), ("roll", 4)):
        log.submit(ReportJob(job, 1, ended, 0, "{}"))
    assert log.state.jobs == {"roll": JobRan("roll", 1, 4, 0, "{}"), "retention": JobRan("retention", 1, 3, 0, "{}")}
    check(log.state)


def test_a_command_that_nobody_knows_is_a_bug_and_not_an_entry(log: DecidedLog) -> None:
    unknown: Any = object()
    with pytest.raises(AssertionError):
        log.decide(unknown)
