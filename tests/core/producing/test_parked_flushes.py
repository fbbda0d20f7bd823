"""A partition that can't be written to for now: its records are parked and joined, and the others go on."""

from __future__ import annotations

from sparklog.core.commands import AllocateProducer, BatchInDoubt
from sparklog.core.errors import (
    InvalidRecord,
    Landed,
    NoReplicaOnline,
    OutOfOrderSequence,
    StaleBrokerEpoch,
    UnknownProducerId,
)
from sparklog.core.producing.flush import ATTEMPT_MS, Flush, FlushCommit, FlushUpload, Renew
from sparklog.core.producing.flushes import FIRST_PAUSE_MS, MOST_JOINED, SHORT_ATTEMPT_MS, STORES_LOOK_MS, Flushes
from sparklog.core.types import PartitionIndex
from tests.core.decided_log import TOPIC, place
from tests.core.producing.driven_flushes import (
    TIMEOUT_MS,
    NoRows,
    commit,
    committing,
    failed,
    flushes,
    take,
    unknown,
    upload_and_commit,
    upload_of,
)


def parked(of: Flushes, partition: int = 1, now_ms: int = 0) -> Flush:
    """A flush whose partition turns out to have no leader."""
    take(of, partition, now_ms=now_ms)
    flush = upload_of(of, {partition}, now_ms)
    of.refused(flush, NoReplicaOnline("no leader"), now_ms)
    return flush


def test_a_partition_without_a_leader_is_parked_and_the_others_go_on() -> None:
    of = flushes()
    take(of, 0, 1)
    take(of, 0, 1)
    work = of.next(0)
    assert isinstance(work, FlushUpload)
    of.uploaded(work.flush)
    whole = commit(of)
    assert whole.timeout_ms == ATTEMPT_MS
    of.refused(whole.flush, NoReplicaOnline("1 is offline"), 0)
    half = of.next(0)
    assert isinstance(half, FlushUpload)
    of.uploaded(half.flush)
    first = commit(of)
    assert first.timeout_ms == SHORT_ATTEMPT_MS
    of.written(first.flush)
    bad = of.next(0)
    assert isinstance(bad, FlushUpload)
    assert bad.flush.parts == {place(1): 1}
    of.refused(bad.flush, NoReplicaOnline("1 is offline"), 0)
    later = take(of, 0, 1)
    for _ in range(2):
        of.uploaded(upload_of(of, {0}))
        of.written(commit(of).flush)
    assert later.order == 3
    assert of.has_slot
    assert of.next(0) is None
    again = upload_and_commit(of, FIRST_PAUSE_MS)
    assert [piece.order for piece in again.flush.pieces] == [1, 2, 3], "one commit for all that waited"
    of.written(again.flush)
    assert of.is_settled(3)


def test_a_commit_that_is_refused_behind_parked_records_goes_on_without_them() -> None:
    of = flushes()
    first, second = committing(of, 0, 1), committing(of, 0, 1)
    of.refused(first.flush, NoReplicaOnline("1 is offline"), 0)
    free = upload_of(of, {0})
    of.refused(upload_of(of, {1}), NoReplicaOnline("1 is offline"), 0)
    of.refused(second.flush, OutOfOrderSequence("a gap"), 0)
    of.uploaded(free)
    of.written(commit(of).flush)
    of.uploaded(upload_of(of, {0}))
    assert commit(of).first_sequences == {place(0): 1}


def test_a_commit_in_doubt_behind_parked_records_is_shut_out_by_the_next_epoch_and_sent_anew() -> None:
    """It can't have landed, because the chain takes no gap. With their sequences filled in, it could."""
    of = flushes()
    first, second = committing(of, 0, 1), committing(of, 0, 1)
    third = committing(of, 0)
    of.refused(first.flush, NoReplicaOnline("1 is offline"), 0)
    free = upload_of(of, {0})
    of.refused(upload_of(of, {1}), NoReplicaOnline("1 is offline"), 0)
    of.uploaded(free)
    half = commit(of)
    of.refused(second.flush, unknown(), 0)
    of.refused(third.flush, unknown(), 0)
    assert of.next(0) is None, "a commit is under way"
    of.written(half.flush)
    assert of.next(0) == Renew(AllocateProducer(7, 0, in_doubt(1, 1)))
    assert of.next(0) is None, "nothing is committed before the next epoch"
    of.renewed(7, 1)
    of.uploaded(upload_of(of, {0}))
    commits = [commit(of, FIRST_PAUSE_MS), commit(of, FIRST_PAUSE_MS)]
    assert [dict(each.first_sequences) for each in commits] == [{place(0): 0}, {place(0): 1}]
    assert {each.producer_epoch for each in commits} == {1}


def doubtful(of: Flushes) -> Flush:
    """A commit to partitions 0 and 1 that got no answer, and is refused since 1 lost its store: it may land later."""
    sent = committing(of, 0, 1)
    of.refused(sent.flush, unknown(), 0)
    again = commit(of, FIRST_PAUSE_MS)
    assert again.first_sequences == sent.first_sequences
    of.refused(again.flush, StaleBrokerEpoch("a is fenced", landed=Landed.UNKNOWN), FIRST_PAUSE_MS)
    return sent.flush


def test_a_commit_in_doubt_whose_partition_loses_its_leader_is_shut_out_by_the_next_epoch_and_parked() -> None:
    of = flushes()
    of.written(committing(of, 0, 1, records=3).flush)
    sent = doubtful(of)
    later = take(of, 0, 2)
    assert of.next(FIRST_PAUSE_MS) == Renew(AllocateProducer(7, 0, in_doubt(3, 3)))
    of.uploaded(upload_of(of, {0, 2}, FIRST_PAUSE_MS))
    assert of.next(TIMEOUT_MS - 1) is None, "nothing is committed before the next epoch"
    of.renewed(7, 1)
    look = of.next(FIRST_PAUSE_MS)
    assert look == FlushUpload(sent, STORES_LOOK_MS)
    of.refused(sent, NoReplicaOnline("1 is offline"), FIRST_PAUSE_MS)
    free = upload_of(of, {0}, FIRST_PAUSE_MS)
    of.refused(upload_of(of, {1}, FIRST_PAUSE_MS), NoReplicaOnline("1 is offline"), FIRST_PAUSE_MS)
    of.uploaded(free)
    commits = [commit(of, FIRST_PAUSE_MS), commit(of, FIRST_PAUSE_MS)]
    assert [dict(each.first_sequences) for each in commits] == [{place(0): 0}, {place(0): 1, place(2): 0}]
    assert {each.producer_epoch for each in commits} == {1}
    for each in commits:
        of.written(each.flush)
    assert commits[1].flush is later
    assert upload_and_commit(of, TIMEOUT_MS - 1).first_sequences == {place(1): 0}


def test_a_commit_in_doubt_that_has_landed_keeps_its_epoch_and_is_asked_where_it_is() -> None:
    of = flushes()
    doubtful(of)
    assert of.next(FIRST_PAUSE_MS) == Renew(AllocateProducer(7, 0, in_doubt(0, 0)))
    of.not_renewed(OutOfOrderSequence("it has landed"), FIRST_PAUSE_MS)
    again = commit(of, FIRST_PAUSE_MS)
    assert (again.first_sequences, again.producer_epoch) == ({place(0): 0, place(1): 0}, 0)
    take(of, 0)
    of.uploaded(upload_of(of, {0}, FIRST_PAUSE_MS))
    assert of.next(2 * FIRST_PAUSE_MS) is None, "a commit is under way"
    of.written(again.flush)
    assert of.next(2 * FIRST_PAUSE_MS) == Renew(AllocateProducer(7, 0))


def test_while_nobody_knows_whether_the_epoch_has_begun_a_commit_in_doubt_is_not_sent_again() -> None:
    """It would be refused as that of an older instance, and the producer would take itself for fenced."""
    of = flushes()
    doubtful(of)
    renew = of.next(FIRST_PAUSE_MS)
    of.not_renewed(unknown(), TIMEOUT_MS // 2)
    assert of.next(TIMEOUT_MS // 2) is None
    assert of.next(TIMEOUT_MS // 2 + FIRST_PAUSE_MS) == renew


def test_a_commit_in_doubt_of_a_producer_that_the_chain_forgot_fails_in_doubt() -> None:
    of = flushes()
    sent = doubtful(of)
    of.next(FIRST_PAUSE_MS)
    of.not_renewed(UnknownProducerId("forgotten"), FIRST_PAUSE_MS)
    of.refused(commit(of, TIMEOUT_MS - 1).flush, UnknownProducerId("forgotten", landed=Landed.UNKNOWN), TIMEOUT_MS - 1)
    assert [(flush, error.landed) for flush, error in failed(of)] == [(sent, Landed.UNKNOWN)]
    assert of.next(TIMEOUT_MS - 1) == Renew(AllocateProducer())


def in_doubt(*firsts: int) -> tuple[BatchInDoubt, ...]:
    """A batch of each partition from 0 on, by its first sequence."""
    return tuple(BatchInDoubt(TOPIC, PartitionIndex(partition), first) for partition, first in enumerate(firsts))


def test_what_is_parked_together_is_one_commit_unless_somebody_is_at_work_on_it() -> None:
    of = flushes()
    first = parked(of)
    take(of, 1)
    trial = of.next(FIRST_PAUSE_MS)
    assert isinstance(trial, FlushUpload)
    assert [piece.order for piece in trial.flush.pieces] == [1, 2]
    assert trial.flush is not first
    take(of, 1)
    take(of, 1)
    of.uploaded(trial.flush)
    of.written(commit(of, FIRST_PAUSE_MS).flush)
    rest = upload_and_commit(of, FIRST_PAUSE_MS)
    assert [piece.order for piece in rest.flush.pieces] == [3, 4]
    assert rest.first_sequences == {place(1): 2}


def test_nothing_is_joined_over_a_flush_whose_partitions_are_not_known_yet() -> None:
    of = flushes()
    parked(of)
    unrouted = of.take(0, NoRows())
    take(of, 1)
    of.routed(unrouted, {place(1): 5})
    first = upload_and_commit(of, FIRST_PAUSE_MS)
    of.written(first.flush)
    assert [piece.order for piece in first.flush.pieces] == [1, 2]
    assert upload_and_commit(of, FIRST_PAUSE_MS).flush.order == 3


def test_of_what_is_joined_only_the_oldest_time_out() -> None:
    of = flushes()
    parked(of)
    for since_ms in (10, 20, TIMEOUT_MS // 4, TIMEOUT_MS // 4 + 1):
        take(of, 1, now_ms=since_ms)
    late = failed(of, TIMEOUT_MS + 15)
    assert [flush.order for flush, _ in late] == [1, 2]
    assert all("1 record could not be written" in error.message and "no leader" in error.message for _, error in late)
    joined = upload_and_commit(of, TIMEOUT_MS + 15)
    assert [piece.order for piece in joined.flush.pieces] == [3, 4], "the fifth was sent too long after the first"
    assert joined.timeout_ms == SHORT_ATTEMPT_MS
    of.refused(joined.flush, unknown(), TIMEOUT_MS + 15)
    assert not failed(of, TIMEOUT_MS + 21), "once it is committed, it has the time of its newest records"
    of.written(commit(of, 2 * TIMEOUT_MS).flush)


def test_so_many_flushes_are_joined_and_the_next_ones_apart() -> None:
    of = flushes()
    parked(of)
    for _ in range(2 * MOST_JOINED):
        take(of, 1)
    found = []
    while work := of.next(FIRST_PAUSE_MS):
        if isinstance(work, FlushCommit):
            found.append([piece.order for piece in work.flush.pieces])
            of.written(work.flush)
        else:
            assert isinstance(work, FlushUpload)
            of.uploaded(work.flush)
    assert [len(orders) for orders in found] == [MOST_JOINED, MOST_JOINED, 1]
    assert [order for orders in found for order in orders] == list(range(1, 2 * MOST_JOINED + 2))


def test_whoever_waits_for_a_flush_waits_for_it_though_others_are_joined_around_it() -> None:
    of = flushes()
    parked(of)
    beside = take(of, 0, now_ms=10)
    take(of, 1, now_ms=20)
    assert len(failed(of, TIMEOUT_MS)) == 1
    assert of.is_settled(1)
    assert not of.is_settled(2)
    of.uploaded(upload_of(of, {0}, TIMEOUT_MS))
    assert commit(of, TIMEOUT_MS).flush is beside
    of.written(beside)
    assert of.is_settled(2)
    assert not of.is_settled(3)


def test_what_is_joined_is_halved_until_only_what_is_refused_fails() -> None:
    of = flushes()
    parked(of)
    for _ in range(4):
        take(of, 1)
    written: list[int] = []
    while (work := of.next(FIRST_PAUSE_MS)) is not None:
        if isinstance(work, FlushUpload):
            of.uploaded(work.flush)
            continue
        assert isinstance(work, FlushCommit)
        orders = [piece.order for piece in work.flush.pieces]
        if 3 in orders:
            of.refused(work.flush, InvalidRecord("not this one"), FIRST_PAUSE_MS)
        else:
            of.written(work.flush)
            written += orders
    assert written == [1, 2, 4, 5]
    assert [flush.order for flush, _ in failed(of)] == [3]


def test_many_partitions_without_a_leader_leave_senders_for_the_others() -> None:
    of = flushes()
    for partition in range(1, 9):
        parked(of, partition)
    tried = [of.next(FIRST_PAUSE_MS) for _ in range(3)]
    assert [isinstance(work, FlushUpload) and work.timeout_ms for work in tried] == [
        STORES_LOOK_MS,
        STORES_LOOK_MS,
        False,
    ]
    take(of, 0)
    of.uploaded(upload_of(of, {0}, FIRST_PAUSE_MS))
    assert isinstance(tried[0], FlushUpload)
    of.refused(tried[0].flush, NoReplicaOnline("no leader"), FIRST_PAUSE_MS)
    assert commit(of, FIRST_PAUSE_MS).first_sequences == {place(0): 0}, "what can be written goes first"
