"""Commits: one process among others, with unknown outcomes, lost slots, refusals, repeats and FLOOR."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sparklog.chain.commit import command_group, group_commit
from sparklog.chain.entry import EncodedEntry, decode_entry
from sparklog.chain.follow import same_chain
from sparklog.chain.snapshot import snapshot_writer
from sparklog.core.apply import apply_command
from sparklog.core.commands import (
    AddPartitions,
    AllocateProducer,
    Application,
    CreateTopic,
    DeleteTopic,
    RaiseFloor,
    Submission,
)
from sparklog.core.decide.command import decide
from sparklog.core.errors import (
    ChainDamaged,
    DuplicateResource,
    InconsistentClusterId,
    InvalidProducerEpoch,
    Landed,
    OutcomeUnknown,
    RequestTimedOut,
    SparklogError,
    StoreAccessDenied,
    StoreFull,
    StoreReadOnly,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    WriteExpired,
)
from sparklog.core.tables.result_table import ResultTable
from sparklog.core.types import EntryNumber
from tests.chain.chain_kit import TIMEOUT_MS, TOPIC, Member, append, member, new_chain, upload_of
from tests.kit.faulty_store import ALWAYS, Fault

LOG = "meta/log/"


@pytest.fixture
def chain() -> Member:
    return new_chain()


def entries(chain: Member) -> int:
    """How many entries there are."""
    return sum(1 for _ in chain.store.inner.list_keys(LOG))


def fresh_uploads(chain: Member, partition: int = 0) -> list[str]:
    """What a process that opens the chain now reads."""
    return [str(each) for each in member(chain.store.inner).uploads(partition)]


# ---- unknown outcomes -----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS])
def test_an_unknown_outcome_is_resolved_by_read_back(chain: Member, fault: Fault) -> None:
    chain.store.plan(fault, "put_if_absent", LOG)
    submission = chain.begin(append())
    result = chain.submit(submission)
    assert (result.n, result.ranges[0].start, result.ranges[0].end) == (2, 0, 1)
    assert fresh_uploads(chain) == [upload_of(submission)]
    assert entries(chain) == 3


# M: I-03 (loses)
def test_without_read_back_an_append_whose_reply_was_lost_would_be_there_twice(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer takes an outcome that it has not read for a failure, and uploads and commits the records again."""
    chain.store.plan(Fault.REPLY_LOST, "put_if_absent", LOG)
    chain.store.plan(Fault.UNAVAILABLE, "get", LOG, times=1_000)
    command = append()
    with pytest.raises(OutcomeUnknown) as caught:
        chain.submit(chain.begin(command))
    assert caught.value.landed is Landed.UNKNOWN
    chain.store.planned.clear()
    with pytest.raises(DuplicateResource):  # the same upload under a new id
        chain.submit(chain.begin(command))
    chain.submit(chain.begin(append()))
    assert len(fresh_uploads(chain)) == 2


# M: I-03 (loses)
def test_an_unknown_outcome_submitted_again_under_its_id_is_there_once(chain: Member) -> None:
    chain.store.plan(Fault.REPLY_LOST, "put_if_absent", LOG)
    chain.store.plan(Fault.UNAVAILABLE, "get", LOG, times=1_000)
    submission = chain.begin(append())
    with pytest.raises(OutcomeUnknown):
        chain.submit(submission)
    chain.store.planned.clear()
    result = chain.submit(msgspec.structs.replace(submission, in_doubt=True))
    assert result.n == 2
    assert fresh_uploads(chain) == [upload_of(submission)]


def test_a_mark_that_can_not_be_read_gives_no_ack(chain: Member) -> None:
    chain.store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=1_000)
    submission = chain.begin(append())
    with pytest.raises(OutcomeUnknown) as caught:
        chain.submit(submission)
    assert caught.value.landed is Landed.UNKNOWN
    assert chain.follower.state.n == 1  # nothing took effect here
    chain.store.planned.clear()
    assert chain.submit(submission).n == 2
    assert fresh_uploads(chain) == [upload_of(submission)]


def test_an_interrupt_after_the_entry_was_sent_leaves_the_outcome_unknown(chain: Member) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    chain.store.plan(interrupt, "get", "meta/void/")
    submission = chain.begin(append())
    with pytest.raises(KeyboardInterrupt):
        chain.submit(submission)
    assert chain.follower.state.n == 1  # nothing took effect here
    assert len(fresh_uploads(chain)) == 1
    assert chain.submit(msgspec.structs.replace(submission, in_doubt=True)).n == 2
    assert len(fresh_uploads(chain)) == 1


def test_a_full_store_refuses_and_the_next_append_goes_on(chain: Member) -> None:
    def full() -> None:
        raise StoreFull("no space left")

    chain.store.plan(full, "put_if_absent", LOG)
    with pytest.raises(StoreFull) as caught:
        chain.append()
    assert caught.value.landed is Landed.NO
    assert chain.append().ranges[0].start == 0


@pytest.mark.parametrize("refusal", [StoreFull, StoreReadOnly, StoreAccessDenied])
def test_a_refusal_of_the_store_ends_a_command_in_doubt_at_once(chain: Member, refusal: type[SparklogError]) -> None:
    """OutcomeUnknown would be retried until the time of the command is over."""
    chain.store.plan(Fault.LOST, "put_if_absent", LOG)
    chain.store.plan(refusal("no space left"), "put_if_absent", LOG, times=ALWAYS)
    submission = chain.begin(append())
    for sent in (submission, msgspec.structs.replace(submission, in_doubt=True)):
        with pytest.raises(refusal) as caught:
            chain.submit(sent)
        assert caught.value.landed is Landed.UNKNOWN
    chain.store.planned.clear()
    assert chain.submit(msgspec.structs.replace(submission, in_doubt=True)).ranges[0].start == 0
    assert len(fresh_uploads(chain)) == 1


# ---- lost slots, and refusals ---------------------------------------------------------------------


def test_a_lost_slot_is_decided_anew_behind_the_winner(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.append(records=3)
    result = late.append(records=2)  # decided first on a state without the other one's
    assert (result.n, result.ranges[0].start, result.ranges[0].end) == (3, 3, 5)
    assert late.committer.counts.lost_slots == 1
    assert len(fresh_uploads(chain)) == 2


def test_a_writer_that_never_wins_times_out_and_nothing_landed(chain: Member) -> None:
    other = member(chain.store.inner)
    chain.store.plan(lambda: other.append(), "put_if_absent", LOG, times=10_000)
    submission = chain.begin(append(partition=1))
    with pytest.raises(RequestTimedOut, match="found every slot taken for 100 ms") as caught:
        chain.committer.submit(submission, 100)
    assert caught.value.landed is Landed.NO
    assert fresh_uploads(chain, 1) == []


def test_a_command_that_is_refused_after_many_lost_slots_is_told_so(chain: Member) -> None:
    """It pauses after some losses, so what it has read may be old by then. It reads on once, not forever."""
    other = member(chain.store.inner)
    chain.store.plan(lambda: other.append(), "put_if_absent", LOG, times=group_commit.REST_AFTER - 1)
    delete = DeleteTopic(TOPIC)
    chain.store.plan(
        lambda: other.committer.submit(other.committer.begin(delete), TIMEOUT_MS),
        "put_if_absent",
        LOG,
        skip=group_commit.REST_AFTER - 1,
    )
    with pytest.raises(UnknownTopicOrPartition):
        chain.append()
    assert chain.committer.counts.lost_slots == group_commit.REST_AFTER
    assert chain.clock.pauses == 1


def test_a_refusal_is_decided_on_the_newest_state(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.committer.submit(chain.committer.begin(AddPartitions(TOPIC, 3)), TIMEOUT_MS)
    assert late.follower.state.topics[TOPIC].partitions == 2
    assert late.append(partition=2).ranges[0].partition == 2
    with pytest.raises(UnknownTopicOrPartition):
        late.append(partition=3)


def test_each_refusal_is_decided_on_the_newest_state_also_just_after_another_one(chain: Member) -> None:
    late = member(chain.store.inner)
    with pytest.raises(UnknownTopicOrPartition):
        late.append(partition=2)
    chain.committer.submit(chain.committer.begin(AddPartitions(TOPIC, 3)), TIMEOUT_MS)
    assert late.append(partition=2).ranges[0].partition == 2


def test_without_the_look_at_the_newest_state_a_legal_append_would_be_refused(chain: Member) -> None:
    class Everybody(frozenset[Any]):
        def issuperset(self, _: object) -> bool:
            return True

    late = member(chain.store.inner)
    chain.committer.submit(chain.committer.begin(AddPartitions(TOPIC, 3)), TIMEOUT_MS)
    late.committer._machine._caught_up = Everybody()
    with pytest.raises(UnknownTopicOrPartition):
        late.append(partition=2)


def test_a_refusal_writes_nothing(chain: Member) -> None:
    with pytest.raises(TopicAlreadyExists):
        chain.committer.submit(chain.committer.begin(CreateTopic("orders")), TIMEOUT_MS)
    assert chain.store.count("put_if_absent") == 0


def made_anew(chain: Member) -> Member:
    """Another cluster in the place of this one, as its creator sees it."""
    inner = chain.store.inner
    for each in list(inner.list_keys("")):
        inner.delete(each.key)
    return new_chain(store=inner)


def test_who_comes_back_to_a_place_that_was_made_anew_writes_nothing(chain: Member) -> None:
    for _ in range(5):
        chain.append()
    other = made_anew(chain)
    chain.clock.pause(same_chain.IDLE_MS)
    for _ in range(2):
        with pytest.raises(InconsistentClusterId) as caught:
            chain.append()
        assert caught.value.landed is Landed.NO
    assert other.append().ranges[0].start == 0
    assert len(fresh_uploads(other)) == 1


def test_who_opened_it_and_never_wrote_before_it_was_made_anew_writes_nothing_either(chain: Member) -> None:
    for _ in range(5):
        chain.append()
    late = member(chain.store.inner)
    other = made_anew(chain)
    late.clock.pause(same_chain.IDLE_MS)
    with pytest.raises(InconsistentClusterId):
        late.append()
    assert len(fresh_uploads(other)) == 0


def test_without_that_look_the_new_cluster_would_have_a_gap_and_never_open_again(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        chain.append()
    other = made_anew(chain)
    monkeypatch.setattr(group_commit, "is_long_silent", lambda head, known_ms, now: False)
    chain.clock.pause(same_chain.IDLE_MS)
    chain.append()
    with pytest.raises(ChainDamaged, match="is missing"):
        fresh_uploads(other)


# ---- repeats --------------------------------------------------------------------------------------


def test_a_repeated_command_id_returns_the_stored_result(chain: Member) -> None:
    submission = chain.begin(append(records=2))
    first = chain.submit(submission)
    chain.append()
    assert chain.submit(submission) == first
    assert member(chain.store.inner).submit(submission) == first
    chain.committer.snapshots.write()
    assert member(chain.store.inner).submit(submission) == first
    assert len(fresh_uploads(chain)) == 2


def test_a_process_that_has_not_read_its_predecessors_commit_does_not_repeat_it(chain: Member) -> None:
    late = member(chain.store.inner)
    submission = chain.begin(append(records=2))
    first = chain.submit(submission)
    assert late.submit(submission) == first
    assert len(fresh_uploads(chain)) == 1


def test_without_the_look_for_known_ids_a_repeat_would_be_refused(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(state: Any, submission: Submission, at: Any) -> Any:
        fork = state.fork()
        fork.results = ResultTable()
        return decide(fork, submission, at)

    monkeypatch.setattr(command_group, "decide", forgetful)
    submission = chain.begin(append())
    chain.submit(submission)
    with pytest.raises(DuplicateResource):  # its upload is named
        chain.submit(submission)
    assert len(fresh_uploads(chain)) == 1


# M: I-02 I-03
def test_an_application_version_is_written_once_whoever_submits_it(chain: Member) -> None:
    late = member(chain.store.inner)
    first = chain.submit(chain.begin(append(application=Application("app", 7))))
    assert late.submit(late.begin(append(application=Application("app", 7)))).ranges == first.ranges
    assert late.submit(late.begin(append(application=Application("app", 6)))).ranges == first.ranges
    assert late.submit(late.begin(append(application=Application("app", 8)))).ranges != first.ranges
    assert len(fresh_uploads(chain)) == 2


# M: I-01 I-02
def test_a_repeated_batch_of_a_producer_returns_its_offsets_in_every_process(chain: Member) -> None:
    late = member(chain.store.inner)
    allocated = chain.committer.submit(chain.committer.begin(AllocateProducer()), TIMEOUT_MS)
    assert allocated.producer_id is not None
    first = chain.submit(chain.begin(append(3, producer=(allocated.producer_id, 0, 0))))
    again = late.submit(late.begin(append(3, producer=(allocated.producer_id, 0, 0))))
    assert [(each.start, each.end) for each in again.ranges] == [(each.start, each.end) for each in first.ranges]
    assert len(fresh_uploads(chain)) == 1


# ---- FLOOR ----------------------------------------------------------------------------------------


def raised_floor(chain: Member) -> None:
    chain.append()
    floor = EntryNumber(chain.follower.state.n)
    chain.committer.submit(chain.committer.begin(RaiseFloor(floor)), TIMEOUT_MS)


# M: F-09
def test_what_was_begun_below_floor_is_refused_and_did_not_land(chain: Member) -> None:
    slow = member(chain.store.inner)
    submission = slow.begin(append(n0=slow.committer.follower.state.n0))
    raised_floor(chain)
    with pytest.raises(WriteExpired, match="start the write again") as caught:
        slow.submit(submission)
    assert caught.value.landed is Landed.NO
    assert upload_of(submission) not in fresh_uploads(chain)


# M: F-09
def test_an_object_that_was_uploaded_below_floor_is_refused_under_a_newer_id_too(chain: Member) -> None:
    slow = member(chain.store.inner)
    command = append(n0=slow.committer.follower.state.n0)
    raised_floor(chain)
    slow.follower.catch_up()
    with pytest.raises(WriteExpired):
        slow.submit(slow.begin(command))


def test_an_attempt_in_doubt_that_is_refused_by_floor_may_have_landed(chain: Member) -> None:
    slow = member(chain.store.inner)
    submission = slow.begin(append(n0=slow.committer.follower.state.n0))
    slow.submit(submission)  # it landed, but its result is forgotten below FLOOR
    raised_floor(chain)
    with pytest.raises(WriteExpired) as caught:
        chain.submit(msgspec.structs.replace(submission, in_doubt=True))
    assert caught.value.landed is Landed.UNKNOWN


# M: F-09
def test_without_floor_an_upload_could_be_named_after_its_bytes_were_vacuumed(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = member(chain.store.inner)
    submission = slow.begin(append(n0=slow.committer.follower.state.n0))
    raised_floor(chain)
    monkeypatch.setattr("sparklog.core.decide.command._check_floor", lambda floor, submission: None)
    slow.submit(submission)
    assert upload_of(submission) in fresh_uploads(chain)


def test_a_producers_refusal_in_doubt_may_have_landed(chain: Member) -> None:
    allocated = chain.committer.submit(chain.committer.begin(AllocateProducer()), TIMEOUT_MS)
    assert allocated.producer_id is not None
    submission = chain.begin(append(producer=(allocated.producer_id, 0, 0)))
    chain.submit(submission)
    chain.committer.submit(chain.committer.begin(AllocateProducer(allocated.producer_id)), TIMEOUT_MS)
    for in_doubt, landed in ((False, Landed.NO), (True, Landed.UNKNOWN)):
        with pytest.raises(InvalidProducerEpoch) as caught:
            chain.submit(msgspec.structs.replace(submission, in_doubt=in_doubt))
        assert caught.value.landed is landed


# ---- what a commit leaves behind ------------------------------------------------------------------


def test_the_state_after_a_commit_is_the_one_a_reader_gets(chain: Member) -> None:
    late = member(chain.store.inner)
    chain.append()
    late.append(partition=1)
    chain.append()
    assert (chain.follower.state.n, chain.follower.entry_hash) == (4, member(chain.store.inner).follower.entry_hash)


def test_an_apply_that_stops_half_way_does_not_leave_half_an_entry_in_the_state(
    chain: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        apply_command(*args)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("sparklog.chain.head.apply_command", interrupted)
    with pytest.raises(KeyboardInterrupt):
        chain.append()
    assert chain.append().ranges[0].start == 0
    assert chain.uploads() == member(chain.store.inner).uploads()
    assert len(chain.uploads()) == 1


def test_each_entry_says_when_and_by_whom_it_was_written(chain: Member) -> None:
    chain.clock.at_ms = 1_800_000_000_123
    result = chain.append()
    entry = decode_entry(result.n, chain.store.get(f"{LOG}{0:016d}/{result.n:020d}"))
    assert (entry.time_ms, entry.author.name, entry.chain_id) == (1_800_000_000_123, "test", "c" * 32)


def test_each_attempt_at_a_slot_has_a_nonce_of_its_own(chain: Member) -> None:
    """Else one command, repeated by two processes in the same millisecond, would give two entries of equal bytes."""
    sent: list[EncodedEntry] = []
    other = member(chain.store.inner)
    chain.store.plan(lambda: other.append(), "put_if_absent", LOG)  # the first attempt loses its slot
    real = command_group.encode_entry

    def seen(entry: EncodedEntry) -> bytes:
        sent.append(entry)
        return real(entry)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_group, "encode_entry", seen)
        chain.append()
        chain.append()
    assert len({each.nonce for each in sent}) == len(sent) >= 4


# ---- what goes wrong in the process itself ---------------------------------------------------------


def test_no_thread_for_a_snapshot_is_no_failure_of_the_commit(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(snapshot_writer, "SNAPSHOT_EVERY", 1)
    monkeypatch.setattr("threading.Thread.start", no_thread)
    assert chain.append().n == 2


def test_an_error_after_the_entry_landed_is_an_unknown_outcome(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("no such slice")

    submission = chain.begin(append())
    with monkeypatch.context() as patch:
        patch.setattr(chain.committer._machine, "_acknowledge", broken)
        with pytest.raises(OutcomeUnknown, match=submission.command_id) as raised:
            chain.submit(submission)
    assert raised.value.landed is Landed.UNKNOWN
    assert fresh_uploads(chain) == [upload_of(submission)]


def test_nobody_commits_for_a_caller_who_was_interrupted(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(group_commit, "fitting", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chain.append()
    chain.append()
    assert len(fresh_uploads(chain)) == 1


def test_a_repeat_in_doubt_whose_body_is_refused_stays_in_doubt(chain: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise StoreFull("no room")

    monkeypatch.setattr(command_group, "SLICES_INLINE", 1)
    chain.store.plan(refused, "put_if_absent", "meta/commands/", times=2)
    submission = chain.begin(append(slices=[0, 1]))
    with pytest.raises(StoreFull):
        chain.submit(submission)
    with pytest.raises(StoreFull) as caught:
        chain.submit(msgspec.structs.replace(submission, in_doubt=True))
    assert caught.value.landed is Landed.UNKNOWN
