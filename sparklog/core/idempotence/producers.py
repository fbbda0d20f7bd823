"""Idempotent producers: sequence numbers decide whether a batch is new, a repeat, or out of order.

The rules of KIP-98 as current Kafka applies them: the last five batches per producer and partition are remembered, and
an exact repeat of one of them gets the offsets of the remembered batch. Sequence numbers have 31 bits and wrap to 0; a
new epoch begins at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from sparklog.core.commands import BatchInDoubt
from sparklog.core.errors import (
    InvalidInput,
    InvalidProducerEpoch,
    Landed,
    OutOfOrderSequence,
    UnknownProducerId,
    WriteLost,
)
from sparklog.core.records import LostRecords
from sparklog.core.replication.lost_records import listed
from sparklog.core.state import ClusterState, ProducerState, SequencedBatch
from sparklog.core.types import NewSlice, Offset, OffsetRange, ProducerId, ProducerSpan, Slice, TopicPartition

KEPT_BATCHES = 5
SEQUENCES = 1 << 31


def sequence_after(sequence: int, count: int) -> int:
    """The sequence number `count` after `sequence`: 2^31 - 1 is followed by 0."""
    return (sequence + count) % SEQUENCES


def span_of(producer_id: int, producer_epoch: int, first_sequence: int, records: int) -> ProducerSpan:
    """The sequence numbers of `records` records of a producer, the first of which has number `first_sequence`."""
    return ProducerSpan(
        ProducerId(producer_id), producer_epoch, first_sequence, sequence_after(first_sequence, records - 1)
    )


def by_producer(slices: Sequence[NewSlice | Slice]) -> bool:
    """True if the slices of an append come from an idempotent producer: either all of them do, or none."""
    return bool(slices) and slices[0].producer is not None


def joined(spans: Sequence[ProducerSpan], where: str) -> ProducerSpan:
    """Join consecutive spans of one producer. Raises InvalidInput if there are gaps or several producers.

    `where` is the name of the partition, for errors.
    """
    first = spans[0]
    for before, after in pairwise(spans):
        if (before.producer_id, before.producer_epoch) != (after.producer_id, after.producer_epoch):
            raise InvalidInput(f"an append to {where} comes from one producer and epoch, not from {before} and {after}")
        if sequence_after(before.last_sequence, 1) != after.first_sequence:
            raise InvalidInput(f"the slices of one append to {where} need consecutive sequences, not {before}, {after}")
    return ProducerSpan(first.producer_id, first.producer_epoch, first.first_sequence, spans[-1].last_sequence)


def repeated_batch(
    producer: ProducerState | None, topic_partition: TopicPartition, span: ProducerSpan, where: str
) -> SequencedBatch | None:
    """Return the earlier batch that `span` repeats exactly, or None if `span` continues the last batch.

    `where` is the name of the partition, for errors. Raises UnknownProducerId (the producer has expired, or was never
    allocated), InvalidProducerEpoch (`span` has another epoch than the producer), OutOfOrderSequence (a gap, or a
    partial repeat), and WriteLost (an unclean election gave up some of the producer's records). WriteLost is raised
    for each new batch until the producer begins its next epoch. So no write that was already under way is accepted
    after the loss.
    """
    if producer is None:
        raise UnknownProducerId(
            f"producer {span.producer_id} is not known to the chain (it expired, or was never given out): "
            f"begin again with a new producer id; nothing was written to {where}"
        )
    if span.producer_epoch != producer.producer_epoch:
        raise InvalidProducerEpoch(
            f"producer {span.producer_id} is at epoch {producer.producer_epoch}, the write to {where} has "
            f"epoch {span.producer_epoch}"
        )
    known = producer.batches.get(topic_partition, ())
    for batch in known:
        if (batch.first_sequence, batch.last_sequence) == (span.first_sequence, span.last_sequence):
            return batch
    if producer.lost:
        raise WriteLost(
            f"records of producer {span.producer_id} were lost in an unclean election: {listed(producer.lost)}; "
            f"nothing was written to {where}: begin the producer's next epoch, and write what is missing again"
        )
    expected = next_sequence(producer, topic_partition)
    if span.first_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {span.producer_id} epoch {span.producer_epoch} must continue at sequence {expected} in {where}, "
            f"found {span.first_sequence} to {span.last_sequence}"
        )
    return None


def next_sequence(producer: ProducerState, topic_partition: TopicPartition) -> int:
    """The sequence number that the producer's next batch in this partition must begin with."""
    known = producer.batches.get(topic_partition, ())
    return sequence_after(known[-1].last_sequence, 1) if known else 0


def check_not_landed(producer: ProducerState, batch: BatchInDoubt) -> None:
    """Raise OutOfOrderSequence if this batch of the producer's present epoch is in the log, whole or in part.

    Sequences have no gaps. So at least a part of the batch is in the log if the next sequence in the partition is
    greater than the batch's first one. Because sequences wrap to 0, it counts as greater up to half of their range.
    """
    reached = next_sequence(producer, TopicPartition(batch.topic_id, batch.partition))
    if 0 < (reached - batch.first_sequence) % SEQUENCES < SEQUENCES // 2:
        raise OutOfOrderSequence(
            f"producer {producer.producer_id} stays at epoch {producer.producer_epoch}: its batch from sequence "
            f"{batch.first_sequence} on, which was in doubt, is in partition {batch.partition} of topic id "
            f"{batch.topic_id}, where {reached} comes next: send the batch again to learn where it is"
        )


def check_batch_left(state: ClusterState, topic_partition: TopicPartition, span: ProducerSpan, where: str) -> None:
    """Raise WriteLost if `span` repeats the producer's last batch, and an election has given up the end of that batch.

    This happens to a batch of several objects if the new leader held only the first of them. A gap then begins where
    the batch now ends.
    """
    partition, producer = state.partitions.get(topic_partition), state.producers.get(span.producer_id)
    known = () if producer is None else producer.batches.get(topic_partition, ())
    if partition is None or not known or known[-1].first_sequence != span.first_sequence:
        return
    left = known[-1]
    missing = (span.last_sequence - left.last_sequence) % SEQUENCES
    gap = OffsetRange(left.end, Offset(left.end + missing))
    at_gap = left.end >= partition.log_start and not len(state.slices.find(topic_partition, gap))
    if missing and at_gap and gap.end <= partition.next_offset:
        raise WriteLost(
            f"sequences {left.first_sequence} to {left.last_sequence} of producer {span.producer_id} are there, and an "
            f"election has given up {LostRecords(where, gap.start, gap.end)} since: write only what is missing, from "
            f"sequence {sequence_after(left.last_sequence, 1)} on",
            landed=Landed.YES,
        )


def with_batches(
    producer: ProducerState, written: Mapping[TopicPartition, SequencedBatch], now_ms: int
) -> ProducerState:
    """Return the state of a producer after an append at `now_ms`. `written` has the append's batch in each partition.

    The producer's `last_used_ms` never goes back, even if `now_ms` is from a slow clock.
    """
    batches = producer.batches.copy()  # once for all partitions: a producer may know thousands
    for topic_partition, batch in written.items():
        batches[topic_partition] = (*batches.get(topic_partition, ()), batch)[-KEPT_BATCHES:]
    used_ms = max(now_ms, producer.last_used_ms)
    return ProducerState(producer.producer_id, producer.producer_epoch, used_ms, batches, producer.lost)
