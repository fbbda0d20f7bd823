"""Idempotent producers: which sequences are new, which repeat one of the last five batches, and which are refused."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AllocateProducer, BatchInDoubt
from sparklog.core.errors import InvalidInput, InvalidProducerEpoch, Landed, OutOfOrderSequence, UnknownProducerId
from sparklog.core.idempotence.producers import (
    KEPT_BATCHES,
    SEQUENCES,
    by_producer,
    check_not_landed,
    joined,
    repeated_batch,
    sequence_after,
    span_of,
    with_batches,
)
from sparklog.core.state import ProducerState, SequencedBatch
from sparklog.core.types import Offset, PartitionIndex, ProducerId
from tests.core.decided_log import TOPIC, DecidedLog, place, span
from tests.core.state_contents import contents

LAST = SEQUENCES - 1  # 2^31 - 1


def wrote(*batches: tuple[int, int], epoch: int = 3) -> ProducerState:
    """Producer 1, which wrote these sequences, in this order, to partition 0."""
    producer, at = ProducerState(ProducerId(1), epoch, 0), 0
    for first, last in batches:
        end = at + (last - first) % SEQUENCES + 1
        producer = with_batches(producer, {place(): SequencedBatch(first, last, Offset(at), Offset(end))}, 0)
        at = end
    return producer


def found(producer: ProducerState | None, first: int, last: int, epoch: int = 3) -> SequencedBatch | None:
    return repeated_batch(producer, place(), span(1, epoch, first, last), "orders-0")


def test_sequences_are_31_bit_and_wrap_to_zero() -> None:  # M: I-01
    assert sequence_after(LAST, 1) == 0
    assert sequence_after(LAST - 1, 3) == 1
    assert sequence_after(5, 0) == 5
    assert span_of(1, 0, LAST, 1) == span(1, 0, LAST, LAST)
    assert span_of(1, 0, LAST, 3) == span(1, 0, LAST, 1)


# M: I-01
def test_the_first_batch_begins_at_zero_and_each_goes_on_after_the_one_before() -> None:
    assert found(wrote(), 0, 4) is None
    assert found(wrote((0, 4)), 5, 5) is None
    with pytest.raises(OutOfOrderSequence, match="must continue at sequence 0 in orders-0, found 1 to 1"):
        found(wrote(), 1, 1)


# M: I-01
def test_each_partition_has_sequences_of_its_own() -> None:
    assert repeated_batch(wrote((0, 4)), place(1), span(1, 3, 0, 4), "orders-1") is None


def test_a_slow_clock_does_not_make_a_producer_look_idle() -> None:
    batches = [SequencedBatch(at, at, Offset(at), Offset(at + 1)) for at in range(3)]
    producer = wrote()
    for batch, now_ms in zip(batches, (70_000, 5, 70_001), strict=True):
        before = producer.last_used_ms
        producer = with_batches(producer, {place(): batch}, now_ms)
        assert producer.last_used_ms == max(before, now_ms)
    assert producer.last_used_ms == 70_001


# M: I-01
@pytest.mark.parametrize(("first", "last"), [(LAST - 1, LAST), (LAST, 1), (LAST, 0)])
def test_after_the_last_sequence_zero_follows_also_inside_a_batch(first: int, last: int) -> None:
    producer = wrote((0, first - 1), (first, last))
    again = found(producer, first, last)
    assert again is not None
    assert again.end - again.start == (last - first) % SEQUENCES + 1
    after = sequence_after(last, 1)
    assert found(producer, after, after + 9) is None
    with pytest.raises(OutOfOrderSequence, match=f"must continue at sequence {after}"):
        found(producer, after + 1, after + 1)


def test_an_exact_repeat_of_one_of_the_last_five_batches_is_told_where_it_is() -> None:  # M: I-01
    producer = wrote(*((2 * at, 2 * at + 1) for at in range(KEPT_BATCHES + 2)))
    for at in range(2, KEPT_BATCHES + 2):
        assert found(producer, 2 * at, 2 * at + 1) == SequencedBatch(
            2 * at, 2 * at + 1, Offset(2 * at), Offset(2 * at + 2)
        )
    for forgotten in (0, 1):
        with pytest.raises(OutOfOrderSequence, match="must continue at sequence 14"):
            found(producer, 2 * forgotten, 2 * forgotten + 1)


@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        (6, 6, "a gap"),
        (3, 3, "a part of a batch"),
        (0, 4, "two batches as one"),
        (3, 5, "a repeat and something new"),
        (4, 5, "the end of a batch and something new"),
    ],
)
def test_what_is_neither_next_nor_an_exact_repeat_is_out_of_order(first: int, last: int, why: str) -> None:  # M: I-01
    with pytest.raises(OutOfOrderSequence, match=f"must continue at sequence 5 in orders-0, found {first} to {last}"):
        found(wrote((0, 2), (3, 4)), first, last)


@pytest.mark.parametrize("epoch", [2, 4])
def test_only_the_epoch_that_was_given_last_may_write(epoch: int) -> None:  # M: I-01
    with pytest.raises(InvalidProducerEpoch, match=f"at epoch 3, the write to orders-0 has epoch {epoch}"):
        found(wrote((0, 0)), 0, 0, epoch)  # not even a repeat


def test_a_producer_that_is_not_known_is_told_to_begin_again() -> None:  # M: I-01
    with pytest.raises(UnknownProducerId, match=r"producer 1 is not known .* begin again .* nothing was written"):
        found(None, 0, 0)


def test_consecutive_spans_are_one_and_others_are_refused() -> None:
    assert joined([span(1, 0, LAST - 1, LAST), span(1, 0, 0, 4)], "p") == span(1, 0, LAST - 1, 4)
    with pytest.raises(InvalidInput, match="need consecutive sequences"):
        joined([span(1, 0, 0, 4), span(1, 0, 6, 6)], "p")
    for other in (span(2, 0, 5, 5), span(1, 1, 5, 5)):
        with pytest.raises(InvalidInput, match="from one producer and epoch"):
            joined([span(1, 0, 0, 4), other], "p")


# ---- in a log ---------------------------------------------------------------------------------------


def test_a_new_epoch_fences_the_older_and_begins_at_zero() -> None:  # M: I-01
    log = DecidedLog()
    producer = log.producer()
    log.append(3, producer=span(producer, 0, 0, 2))
    renewed = log.submit(AllocateProducer(producer))
    assert (renewed.producer_id, renewed.producer_epoch) == (producer, 1)
    with pytest.raises(InvalidProducerEpoch, match="at epoch 1"):
        log.append(1, producer=span(producer, 0, 3, 3))
    with pytest.raises(OutOfOrderSequence):
        log.append(1, producer=span(producer, 1, 3, 3))
    assert log.append(1, producer=span(producer, 1, 0, 0)).ranges[0].start == 3


def test_the_next_epoch_begins_only_if_what_is_in_doubt_has_not_landed() -> None:  # M: I-01
    log = DecidedLog()
    producer = log.producer()
    log.append(3, producer=span(producer, 0, 0, 2))
    lost = log.begin(log.append_of(2, producer=span(producer, 0, 3, 4)), in_doubt=True)
    beside = BatchInDoubt(TOPIC, PartitionIndex(1), 0)
    for landed in (0, 2):
        before = contents(log.state)
        with pytest.raises(
            OutOfOrderSequence, match=f"its batch from sequence {landed} on.* where 3 comes next"
        ) as caught:
            log.submit(AllocateProducer(producer, 0, (beside, BatchInDoubt(TOPIC, PartitionIndex(0), landed))))
        assert (caught.value.landed, contents(log.state)) == (Landed.NO, before)
    with pytest.raises(InvalidInput, match="belong to one producer and epoch"):
        log.submit(AllocateProducer(producer, None, (beside,)))
    renewal = log.begin(AllocateProducer(producer, 0, (BatchInDoubt(TOPIC, PartitionIndex(0), 3), beside)))
    assert log.submit_again(renewal).producer_epoch == 1
    with pytest.raises(InvalidProducerEpoch):
        log.submit_again(lost)
    log.append(2, producer=span(producer, 1, 0, 1))
    assert log.submit_again(renewal).producer_epoch == 1, "a repeat is answered as before"


@pytest.mark.parametrize(("reached", "first", "landed"), [(LAST, LAST, True), (1, LAST, True), (LAST - 1, 0, False)])
def test_whether_a_batch_has_landed_is_known_where_sequences_wrap(reached: int, first: int, landed: bool) -> None:
    producer = wrote((LAST - 5, LAST - 3), (LAST - 2, reached))
    batch = BatchInDoubt(place().topic_id, place().partition, first)
    if landed:
        with pytest.raises(OutOfOrderSequence):
            check_not_landed(producer, batch)
    else:
        check_not_landed(producer, batch)


def test_only_appends_of_producers_keep_no_result_of_their_own() -> None:
    log = DecidedLog()
    known = len(log.state.results)
    submission = log.begin(log.append_of(1, producer=span(log.producer(), 0, 0, 0)))
    log.submit_again(submission)
    assert log.state.results.get(submission.command_id) is None
    assert len(log.state.results) == known + 1  # the producer's own
    assert by_producer(log.append_of(1, producer=span(0, 0, 0, 0)).slices)
    assert not by_producer(log.append_of(1).slices)
    assert not by_producer(())
