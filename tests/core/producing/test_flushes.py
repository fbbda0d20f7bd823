"""What a producer sends next, and what it makes of replies."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AllocateProducer
from sparklog.core.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    Landed,
    NotEnoughReplicasAfterAppend,
    OutcomeUnknown,
    OutOfOrderSequence,
    RequestTimedOut,
    StaleBrokerEpoch,
    StoreFull,
    StoreUnavailable,
    UnknownProducerId,
    WriteLost,
)
from sparklog.core.producing.flush import FlushCommit, FlushUpload, Renew
from sparklog.core.producing.flushes import FIRST_PAUSE_MS, LONGEST_PAUSE_MS
from sparklog.core.replication.replica_append import Acks
from tests.core.decided_log import place
from tests.core.producing.driven_flushes import (
    TIMEOUT_MS,
    NoRows,
    commit,
    committing,
    failed,
    flushes,
    take,
    unknown,
    upload,
    upload_and_commit,
)

LAST = (1 << 31) - 1

# ---- order ------------------------------------------------------------------------------------------


def test_commits_begin_in_order_though_uploads_end_in_any() -> None:
    of = flushes()
    first, second = take(of, records=3), take(of, records=2)
    for _ in (first, second):
        assert isinstance(of.next(0), FlushUpload)
    of.uploaded(second)
    assert of.next(0) is None
    of.uploaded(first)
    commits = [commit(of), commit(of)]
    assert [each.flush for each in commits] == [first, second]
    assert [dict(each.first_sequences) for each in commits] == [{place(): 0}, {place(): 3}]
    of.written(second)
    of.written(first)
    assert committing(of).first_sequences == {place(): 5}


def test_other_partitions_wait_for_nobody() -> None:
    of = flushes()
    take(of, 0)
    take(of, 1)
    works = [of.next(0), of.next(0)]
    assert all(isinstance(work, FlushUpload) for work in works)
    assert isinstance(works[1], FlushUpload)
    of.uploaded(works[1].flush)
    assert commit(of).flush is works[1].flush


def test_a_flush_whose_partitions_are_not_known_yet_holds_up_all_behind_it() -> None:
    of = flushes()
    unrouted = of.take(0, NoRows())
    take(of, 1)
    upload(of)
    assert of.next(0) is None
    of.routed(unrouted, {})
    commit(of)


def test_there_are_at_most_five_under_way() -> None:
    of = flushes()
    for _ in range(5):
        assert of.has_slot
        committing(of)
    assert not of.has_slot


def test_no_commit_is_more_than_five_behind_one_without_an_answer() -> None:
    """The chain remembers the last five batches: the sixth would push out the one that may be asked for again."""
    of = flushes()
    first = committing(of)
    for _ in range(4):
        of.written(committing(of).flush)
    take(of)
    upload(of)
    assert of.next(0) is None
    of.written(first.flush)
    commit(of)


def test_without_acks_all_each_partition_is_a_commit_of_its_own() -> None:
    of = flushes(acks=Acks.LEADER)
    take(of, 0, 1, 2)
    commits = [upload_and_commit(of) for _ in range(3)]
    assert [list(each.first_sequences) for each in commits] == [[place(0)], [place(1)], [place(2)]]


# ---- in doubt ---------------------------------------------------------------------------------------


def test_a_commit_in_doubt_is_sent_again_as_it_was_and_nothing_new_goes_behind_it() -> None:
    of = flushes()
    sent = committing(of, records=3)
    take(of)
    upload(of)
    of.refused(sent.flush, unknown(), 0)
    assert of.next(0) is None
    assert of.due_ms(0) == FIRST_PAUSE_MS
    again = commit(of, FIRST_PAUSE_MS)
    assert (again.flush, again.first_sequences) == (sent.flush, sent.first_sequences)
    assert of.next(FIRST_PAUSE_MS) is None
    of.written(sent.flush)
    assert commit(of).first_sequences == {place(): 3}


def test_whoever_is_refused_behind_a_commit_in_doubt_waits_for_it_and_keeps_its_numbers() -> None:
    of = flushes()
    first, second = committing(of, records=3), committing(of, records=2)
    of.refused(first.flush, unknown(), 0)
    of.refused(second.flush, OutOfOrderSequence("not yet"), 0)
    assert of.next(0) is None
    of.written(commit(of, FIRST_PAUSE_MS).flush)
    assert commit(of, FIRST_PAUSE_MS).first_sequences == {place(): 3}


def test_whoever_is_refused_behind_one_that_failed_is_numbered_anew() -> None:
    of = flushes()
    first, second = committing(of, records=3), committing(of, records=2)
    of.refused(first.flush, InvalidRecord("no"), 0)
    assert failed(of)[0][1].landed is Landed.NO
    of.refused(second.flush, OutOfOrderSequence("a gap"), 0)
    assert commit(of).first_sequences == {place(): 0}


def test_a_flush_that_fails_in_doubt_ends_the_epoch_once_no_commit_is_under_way() -> None:
    of = flushes()
    first, second = committing(of, records=3), committing(of, records=2)
    of.refused(first.flush, unknown(), 0)
    ((flush, error),) = failed(of, TIMEOUT_MS)
    assert (flush, error.landed) == (first.flush, Landed.UNKNOWN)
    assert isinstance(error, RequestTimedOut)
    assert of.next(0) is None, "a commit is under way"
    of.refused(second.flush, OutOfOrderSequence("a gap"), 0)
    renew = of.next(0)
    assert renew == Renew(AllocateProducer(7, 0))
    assert of.next(0) is None, "nothing is committed meanwhile"
    of.renewed(7, 1)
    again = commit(of)
    assert (again.flush, again.producer_epoch, again.first_sequences) == (second.flush, 1, {place(): 0})


def test_a_commit_in_doubt_behind_one_that_failed_is_never_numbered_anew() -> None:
    of = flushes()
    first, second = committing(of, records=3), committing(of, records=2)
    of.refused(first.flush, InvalidRecord("no"), 0)
    of.refused(second.flush, unknown(), 0)
    failed(of)
    again = commit(of, FIRST_PAUSE_MS)
    assert again.first_sequences == {place(): 3}
    of.refused(again.flush, OutOfOrderSequence("a gap"), FIRST_PAUSE_MS)
    ((_, error),) = failed(of, FIRST_PAUSE_MS)
    assert isinstance(error, OutcomeUnknown)
    assert of.next(FIRST_PAUSE_MS) == Renew(AllocateProducer(7, 0))


def test_the_refusal_of_a_commit_whose_predecessor_landed_meanwhile_is_no_proof() -> None:
    of = flushes()
    first, second = committing(of, records=3), committing(of, records=2)
    of.written(first.flush)  # its entry came just after the refusal of the second
    of.refused(second.flush, OutOfOrderSequence("not yet"), 0)
    assert commit(of).first_sequences == {place(): 3}
    of.refused(second.flush, OutOfOrderSequence("never"), 0)
    assert isinstance(failed(of)[0][1], OutOfOrderSequence)
    assert of.next(0) == Renew(AllocateProducer(7, 0))


def test_what_is_written_but_not_on_all_replicas_is_asked_for_again_and_keeps_its_sequences() -> None:
    of = flushes()
    first = committing(of, records=3)
    of.refused(first.flush, NotEnoughReplicasAfterAppend("too few"), 0)
    assert commit(of, FIRST_PAUSE_MS).flush is first.flush
    of.refused(first.flush, NotEnoughReplicasAfterAppend("too few"), TIMEOUT_MS)
    ((_, error),) = failed(of, TIMEOUT_MS)
    assert error.landed is Landed.YES
    assert committing(of).first_sequences == {place(): 3}


# ---- the producer's own identity ----------------------------------------------------------------------


def test_a_newer_instance_ends_it() -> None:
    of = flushes()
    sent = committing(of)
    waiting = take(of, 1)
    of.refused(sent.flush, InvalidProducerEpoch("fenced"), 0)
    errors = failed(of)
    assert [flush for flush, _ in errors] == [sent.flush, waiting]
    assert all(isinstance(error, InvalidProducerEpoch) for _, error in errors)
    assert isinstance(of.fatal, InvalidProducerEpoch)
    assert of.next(0) is None


def test_a_renewal_that_finds_a_newer_instance_ends_it() -> None:
    of = flushes()
    of.refused(committing(of).flush, WriteLost("gone"), 0)
    assert of.next(0) == Renew(AllocateProducer(7, 0))
    of.not_renewed(InvalidProducerEpoch("fenced"), 0)
    assert isinstance(of.fatal, InvalidProducerEpoch)


def test_a_renewal_without_an_answer_is_asked_for_again() -> None:
    of = flushes()
    of.refused(committing(of).flush, WriteLost("gone"), 0)
    assert isinstance(failed(of)[0][1], WriteLost)
    assert of.next(0) == Renew(AllocateProducer(7, 0))
    of.not_renewed(unknown(), 0)
    assert of.next(0) is None
    assert of.due_ms(0) == FIRST_PAUSE_MS
    assert of.next(FIRST_PAUSE_MS) == Renew(AllocateProducer(7, 0))


def test_a_producer_that_the_chain_forgot_gets_a_new_id_and_sends_again() -> None:
    of = flushes()
    sent = committing(of)
    of.refused(sent.flush, UnknownProducerId("expired"), 0)
    assert of.next(0) == Renew(AllocateProducer())
    of.renewed(8, 0)
    again = commit(of)
    assert (again.flush, again.producer_id, again.first_sequences) == (sent.flush, 8, {place(): 0})
    assert not failed(of)


# ---- refusals ---------------------------------------------------------------------------------------


def test_an_upload_that_fails_is_done_again_after_growing_pauses() -> None:
    of = flushes()
    take(of)
    now = 0
    for pause in (100, 200, 400, 800, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS):
        work = of.next(now)
        assert isinstance(work, FlushUpload)
        of.refused(work.flush, StoreUnavailable("no"), now)
        assert of.next(now + pause - 1) is None
        assert of.due_ms(now) == now + pause
        now += pause
    assert not failed(of)


def test_what_some_partitions_refuse_is_halved_until_only_they_fail() -> None:
    of = flushes()
    take(of, 0, 1, 2, 3)
    written: set[int] = set()
    while (work := of.next(0)) is not None:
        if isinstance(work, FlushUpload):
            of.uploaded(work.flush)
        elif isinstance(work, FlushCommit) and place(2) in work.first_sequences:
            of.refused(work.flush, InvalidRecord("not this one"), 0)
        else:
            assert isinstance(work, FlushCommit)
            of.written(work.flush)
            written |= {key.partition for key in work.first_sequences}
    assert written == {0, 1, 3}
    assert [list(flush.parts) for flush, _ in failed(of)] == [[place(2)]]


def test_a_full_store_fails_all_at_once() -> None:
    of = flushes()
    take(of, 0, 1, 2, 3)
    work = of.next(0)
    assert isinstance(work, FlushUpload)
    of.refused(work.flush, StoreFull("no space"), 0)
    assert len(failed(of)) == 1


def test_what_was_uploaded_stays_so_if_only_the_commit_got_stuck() -> None:
    of = flushes()
    sent = committing(of)
    of.refused(sent.flush, RequestTimedOut("too many writers"), 0)
    assert commit(of, FIRST_PAUSE_MS).flush is sent.flush
    of.refused(sent.flush, StaleBrokerEpoch("the store is registered again"), FIRST_PAUSE_MS)
    assert isinstance(of.next(TIMEOUT_MS - 1), FlushUpload)


# ---- time -------------------------------------------------------------------------------------------


def test_what_nobody_could_send_in_time_fails_and_says_why() -> None:
    of = flushes()
    flush = take(of, records=3, now_ms=10)
    work = of.next(10)
    assert isinstance(work, FlushUpload)
    assert not failed(of, TIMEOUT_MS + 10), "somebody is at work on it"
    of.refused(flush, StoreUnavailable("no"), TIMEOUT_MS + 9)
    assert of.due_ms(TIMEOUT_MS + 9) == TIMEOUT_MS + 10
    ((_, error),) = failed(of, TIMEOUT_MS + 10)
    assert isinstance(error, RequestTimedOut)
    assert error.landed is Landed.NO
    assert "3 records could not be written within 1 minute 40 seconds" in error.message
    assert "KAFKA_STORAGE_ERROR: no" in error.message
    assert of.is_settled(1)


def test_an_attempt_ends_with_the_time_for_delivery() -> None:
    of = flushes()
    take(of)
    work = of.next(TIMEOUT_MS - 5)
    assert isinstance(work, FlushUpload)
    assert work.timeout_ms == 5


def test_nothing_is_due_twice_at_one_time() -> None:
    of = flushes()
    first = committing(of)
    take(of)
    upload(of)
    of.refused(first.flush, unknown(), 0)
    assert of.next(FIRST_PAUSE_MS) is not None
    assert of.due_ms(FIRST_PAUSE_MS) == TIMEOUT_MS
    assert flushes().due_ms(0) is None


def test_sequences_wrap() -> None:
    of = flushes()
    of.written(committing(of, records=LAST).flush)
    assert committing(of, records=5).first_sequences == {place(): LAST}
    assert committing(of).first_sequences == {place(): 4}


@pytest.mark.parametrize("order", [0, 1, 2])
def test_everything_up_to_an_order_is_settled_once_nothing_of_it_is_left(order: int) -> None:
    of = flushes()
    works = [committing(of) for _ in range(2)]
    for work in works[:order]:
        of.written(work.flush)
    assert of.is_settled(order)
    assert not of.is_settled(order + 1) or order == 2
