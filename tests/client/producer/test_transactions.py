"""Transactions of a producer: records and the offsets they were made from, in one commit or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.transaction import Transaction
from sparklog.core.commands import LeaveGroup
from sparklog.core.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    InvalidInput,
    InvalidProducerEpoch,
    InvalidRequiredAcks,
    OutcomeUnknown,
    RecordTooLarge,
    SparklogError,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicOrPartition,
    WriteExpired,
)
from sparklog.core.records import CommandResult
from tests.client.orders import P0, P1, P2, RECORDS, cluster, committed, consumer, settle
from tests.kit.log import fill

__all__ = ["cluster"]

OUT = ("bills", "audit")


@pytest.fixture
def producer(cluster: Cluster) -> Producer:
    for topic in OUT:
        cluster.create_topic(topic, partitions=2)
    return cluster.producer()


def written(cluster: Cluster, topic: str = "bills") -> list[str]:
    tables = [cluster.read(topic, partition=partition)["value"].to_pylist() for partition in range(2)]
    return sorted(value.decode() for table in tables for value in table)


def orders(partitions: range = range(3), first: int = 0) -> list[str]:
    return [f"{partition}-{at}" for partition in partitions for at in range(first, RECORDS)]


def work(
    producer: Producer, reader: Consumer, most: int | None = None, then: Callable[[], object] = lambda: None
) -> CommandResult | None:
    """One transaction: each order becomes a bill, and a line of the audit. `then` is called before its commit."""
    with producer.transaction() as transaction:
        transaction.send_offsets(reader)
        for records in reader.poll(max_records=most).values():
            for record in records:
                transaction.send("bills", record.value, key=record.value)
                transaction.send("audit", record.value)
        then()
    return transaction.result


def fail() -> None:
    raise ValueError("as work may fail")


def sent(producer: Producer, *records: tuple[str, str]) -> Transaction:
    """A transaction of these records, by topic and value."""
    with producer.transaction() as transaction:
        for topic, value in records:
            transaction.send(topic, value)
    return transaction


def block(producer: Producer, *steps: Callable[[Transaction], object]) -> Transaction:
    with producer.transaction() as transaction:
        for step in steps:
            step(transaction)
    return transaction


def test_records_of_several_partitions_and_offsets_are_one_entry(  # M: I-05
    cluster: Cluster, producer: Producer
) -> None:
    reader = consumer(cluster)
    settle(reader)
    before = cluster.connection.follower.catch_up().n
    result = work(producer, reader)
    assert result is not None
    assert (result.n, result.records) == (before + 1, 6 * RECORDS)
    assert len(result.ranges) == 3, "bills by their keys, audit in one partition"
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}
    assert written(cluster) == written(cluster, "audit") == orders()
    assert work(producer, reader) is None, "there was nothing to commit"
    assert reader.metrics()["commit_total"] == 1
    fill(cluster, 1, 1, first=RECORDS)
    work(producer, reader)
    assert committed(cluster)[P1] == RECORDS + 1


def test_a_block_that_fails_writes_nothing_and_its_records_come_again(cluster: Cluster, producer: Producer) -> None:
    reader = consumer(cluster)
    for _ in range(2):
        with pytest.raises(ValueError, match="as work may fail"):
            work(producer, reader, then=fail)
    assert written(cluster) == []
    assert sum(committed(cluster).values()) == 0
    work(producer, reader, most=4)
    with pytest.raises(ValueError, match="as work may fail"):
        work(producer, reader, then=fail)
    work(producer, reader)
    assert written(cluster) == orders()


def test_a_member_that_was_replaced_commits_nothing(cluster: Cluster, producer: Producer) -> None:
    slow, fast = consumer(cluster), consumer(cluster)
    with pytest.raises(IllegalGeneration):
        work(producer, slow, 4, then=lambda: settle(fast))
    assert written(cluster) == []
    settle(slow, fast)
    work(producer, slow)
    work(producer, fast)
    assert written(cluster) == orders()


def test_an_evicted_member_commits_nothing(cluster: Cluster, producer: Producer) -> None:
    reader = consumer(cluster)

    def evict() -> None:
        [member] = cluster.describe_group("billing").members
        cluster.submit(LeaveGroup("billing", member.member))

    with pytest.raises(UnknownMemberId):
        work(producer, reader, then=evict)
    assert written(cluster) == []
    work(producer, reader)
    assert written(cluster) == orders()


def test_partitions_that_are_taken_away_inside_a_block_end_it(cluster: Cluster, producer: Producer) -> None:
    """Otherwise their records would be committed without offsets, and by their next owner once more."""
    reader, other = consumer(cluster), consumer(cluster)
    with pytest.raises(IllegalGeneration, match="taken away"):
        work(producer, reader, then=lambda: settle(other, reader))
    assert written(cluster) == []
    work(producer, reader)
    work(producer, other)
    assert written(cluster) == orders()


def lose_one(cluster: Cluster, patch: pytest.MonkeyPatch, *, landed: bool, times: int = 1) -> None:
    """Let the next commits of this process stay without an answer."""
    committer = cluster.connection.committer
    submit, left = committer.submit, [times]

    def unheard(*args: Any, **kwargs: Any) -> CommandResult:
        if not left[0]:
            return submit(*args, **kwargs)
        left[0] -= 1
        if landed:
            submit(*args, **kwargs)
        raise OutcomeUnknown("no answer")

    patch.setattr(committer, "submit", unheard)


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_without_an_answer_is_settled_before_the_consumer_reads_on(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    reader = consumer(cluster)
    settle(reader)
    lose_one(cluster, monkeypatch, landed=landed, times=7)
    with pytest.raises(OutcomeUnknown):
        work(producer, reader, most=4)
    assert len(written(cluster)) == (4 if landed else 0)

    def without_poll() -> None:
        with producer.transaction() as transaction:
            transaction.send_offsets(reader)

    seek, position = partial(reader.seek, P0, 0), partial(reader.position, P0)
    for call in (reader.poll, reader.commit, seek, position, without_poll, lambda: work(producer, reader)):
        with pytest.raises(OutcomeUnknown):
            call()
    work(producer, reader)
    assert written(cluster) == orders()
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}


def test_a_commit_without_an_answer_that_is_refused_later_is_done_again(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = consumer(cluster), consumer(cluster)
    settle(reader)
    lose_one(cluster, monkeypatch, landed=False)
    with pytest.raises(OutcomeUnknown):
        work(producer, reader, most=4)
    settle(other)  # begins the next generation, in which the lost commit is refused
    work(producer, reader)
    work(producer, other)
    work(producer, reader)
    assert written(cluster) == orders()


def test_what_was_sent_before_comes_before(cluster: Cluster) -> None:
    cluster.create_topic("bills", partitions=1)
    with cluster.producer(linger_ms=10_000) as producer:
        producer.send("bills", "first")
        with producer.transaction() as transaction:
            transaction.send("bills", "second")
        assert cluster.read("bills", partition=0)["value"].to_pylist() == [b"first", b"second"]


def test_offsets_of_a_group_without_a_consumer(cluster: Cluster, producer: Producer) -> None:
    with producer.transaction() as transaction:
        transaction.send("bills", "b")
        transaction.send_offsets("billing", {P0: 4})
    assert committed(cluster) == {P0: 4}
    with producer.transaction() as transaction:
        transaction.send_offsets("billing", {P1: 2})
    assert committed(cluster) == {P0: 4, P1: 2}


def test_a_consumer_of_partitions_by_hand_goes_back_to_where_it_began(cluster: Cluster, producer: Producer) -> None:
    reader = cluster.consumer(group="by hand", auto_offset_reset="latest", enable_auto_commit=False)
    reader.assign([P0])
    reader.seek(P0, 2)
    with pytest.raises(ValueError, match="as work may fail"):
        work(producer, reader, then=fail)
    assert reader.position(P0) == 2
    work(producer, reader)
    assert written(cluster) == orders(range(1), first=2)
    assert cluster.committed("by hand")[P0].offset == RECORDS


def test_what_a_transaction_refuses(cluster: Cluster, producer: Producer) -> None:
    with pytest.raises(InvalidRequiredAcks, match="found acks=1"):
        cluster.producer(acks=1).transaction()
    with pytest.raises(InvalidInput, match="enable_auto_commit=False"), producer.transaction() as transaction:
        transaction.send_offsets(cluster.consumer("orders", group="billing"))
    with pytest.raises(InvalidGroupId), producer.transaction() as transaction:
        transaction.send_offsets(cluster.consumer("orders"))
    with pytest.raises(UnknownTopicOrPartition):
        sent(producer, ("bills", "b"), ("nope", "n"))
    with pytest.raises(RecordTooLarge, match="buffer_memory"):
        sent(cluster.producer(buffer_memory=1000, batch_size=1000), ("bills", "b" * 500), ("bills", "b" * 500))
    with pytest.raises(InvalidInput, match="used inside its block"):
        transaction.send("bills", "b")
    assert written(cluster) == []
    for over in (transaction, sent(producer, ("bills", "b"))):
        with pytest.raises(InvalidInput, match="one block"):
            over.__enter__()
    producer.close()
    with pytest.raises(InvalidInput, match="closed"):
        producer.transaction()


def test_records_of_a_block_that_failed_are_not_sent_again_before_they_come_again(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = consumer(cluster)
    settle(reader)
    batch = reader.poll(max_records=4)

    def bills(then: Callable[[], object] = lambda: None) -> None:
        with producer.transaction() as transaction:
            transaction.send_offsets(reader)
            for records in batch.values():
                for record in records:
                    transaction.send("bills", record.value)
            then()

    with pytest.raises(ValueError, match="as work may fail"):
        bills(fail)
    for _ in range(2):
        with pytest.raises(IllegalGeneration, match="poll"):
            bills()
    batch = reader.poll(max_records=4)
    lose_one(cluster, monkeypatch, landed=True)
    with pytest.raises(OutcomeUnknown):
        bills()
    with pytest.raises(IllegalGeneration, match="poll"):
        bills()
    while batch := reader.poll(max_records=4):
        bills()
    assert written(cluster) == orders()


@pytest.mark.parametrize("landed", [True, False])
def test_a_transaction_for_each_record_of_an_iteration_of_which_one_gets_no_answer(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    reader = consumer(cluster, consumer_timeout_ms=200)
    settle(reader)
    for seen, record in enumerate(reader):
        if seen == 2:
            lose_one(cluster, monkeypatch, landed=landed)
        with suppress(OutcomeUnknown), producer.transaction() as transaction:
            transaction.send_offsets(reader)
            transaction.send("bills", record.value)
    assert written(cluster) == orders()


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_a_loop_that_goes_on_after_answers_that_were_lost(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch, landed: bool, times: int
) -> None:
    reader = consumer(cluster)
    settle(reader)
    lose_one(cluster, monkeypatch, landed=landed, times=times)
    with pytest.raises(OutcomeUnknown):
        work(producer, reader, most=4)
    with pytest.raises(ValueError, match="as work may fail"):
        block(producer, lambda each: each.send_offsets(reader), lambda each: fail())
    for _ in range(10):
        with suppress(OutcomeUnknown):
            work(producer, reader, most=4)
    assert written(cluster) == orders()


@pytest.mark.parametrize("how", ["close", "unsubscribe", "subscribe"])
def test_a_consumer_that_ends_or_begins_anew_inside_a_block_ends_it(
    cluster: Cluster, producer: Producer, how: str
) -> None:
    reader = consumer(cluster)
    does = {"close": reader.close, "unsubscribe": reader.unsubscribe, "subscribe": lambda: reader.subscribe("orders")}
    with pytest.raises(IllegalGeneration, match="inside the block"):
        work(producer, reader, then=does[how])
    assert written(cluster) == []
    work(producer, consumer(cluster))
    assert len(written(cluster)) == len(set(written(cluster)))


def test_a_consumer_comes_first_in_the_block(cluster: Cluster, producer: Producer) -> None:
    """Kafka's order would lose what a block had read that failed before `send_offsets`."""
    reader = consumer(cluster)
    settle(reader)
    for before in (lambda each: each.send("bills", "b"), lambda each: reader.poll()):
        with pytest.raises(InvalidInput, match="comes first"):
            block(producer, before, lambda each: each.send_offsets(reader))
    with producer.transaction() as transaction:  # what was handed out before the block is its own
        transaction.send_offsets(reader)
        transaction.send_offsets(reader)
    assert committed(cluster) == {P0: RECORDS, P1: RECORDS, P2: RECORDS}


def test_a_transaction_is_of_one_group(cluster: Cluster, producer: Producer) -> None:
    reader, other = consumer(cluster), cluster.consumer("orders", group="other", enable_auto_commit=False)
    with pytest.raises(InvalidInput, match="one group"):
        block(producer, lambda each: each.send_offsets(reader), lambda each: each.send_offsets(other))
    with pytest.raises(InvalidInput, match="one group"):
        block(producer, *(partial(Transaction.send_offsets, group=name, offsets={P0: 1}) for name in ("g1", "g2")))
    with producer.transaction() as transaction:
        transaction.send_offsets("g1", {P0: 1, P1: 1})
        transaction.send_offsets("g1", {P1: 2})
    assert {place: row.offset for place, row in cluster.committed("g1").items()} == {P0: 1, P1: 2}


def test_no_other_commit_inside_a_block(cluster: Cluster, producer: Producer) -> None:
    reader = consumer(cluster)

    def nested() -> None:
        with producer.transaction() as inner:
            inner.send_offsets(reader)

    for commit in (reader.commit, reader.commit_async, nested):
        with pytest.raises(InvalidInput, match="a transaction commits for this consumer"):
            work(producer, reader, then=commit)
    reader.commit()
    work(producer, reader)
    assert written(cluster) == orders()


def test_a_producer_that_was_fenced_commits_no_transaction(cluster: Cluster, producer: Producer) -> None:
    newer = cluster.producer(producer_id=producer.producer_id)
    reader = consumer(cluster)
    with pytest.raises(InvalidProducerEpoch, match="newer instance"):
        work(producer, reader)
    assert written(cluster) == []
    work(newer, reader)
    assert written(cluster) == orders()


def test_a_producer_that_was_closed_commits_no_transaction(cluster: Cluster, producer: Producer) -> None:
    before = producer.transaction()
    with pytest.raises(InvalidInput, match="closed"):
        block(producer, lambda each: each.send("bills", "b"), lambda each: producer.close())
    with pytest.raises(InvalidInput, match="closed"), before:
        before.send("bills", "b")
    assert written(cluster) == []


def test_partitions_that_are_assigned_anew_by_hand_settle_first(
    cluster: Cluster, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = cluster.consumer(group="by hand", auto_offset_reset="earliest", enable_auto_commit=False)
    reader.assign([P0])
    lose_one(cluster, monkeypatch, landed=False, times=2)
    with pytest.raises(OutcomeUnknown):
        work(producer, reader)
    with pytest.raises(OutcomeUnknown):
        reader.assign([P0])
    reader.assign([P0])
    assert written(cluster) == orders(range(1)), "it has landed by now"
    assert work(producer, reader) is None


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("refusal", [GroupIdNotFound, WriteExpired, TopicAuthorizationFailed])
def test_a_refusal_that_does_not_pass_ends_the_doubt(
    cluster: Cluster,
    producer: Producer,
    monkeypatch: pytest.MonkeyPatch,
    landed: bool,
    refusal: type[SparklogError],
) -> None:
    reader = consumer(cluster)
    settle(reader)
    lose_one(cluster, monkeypatch, landed=landed)
    with pytest.raises(OutcomeUnknown):
        work(producer, reader, most=4)
    submit = cluster.connection.committer.submit

    def refused(*args: Any, **kwargs: Any) -> CommandResult:
        monkeypatch.setattr(cluster.connection.committer, "submit", submit)
        raise refusal("not any more")

    monkeypatch.setattr(cluster.connection.committer, "submit", refused)
    while work(producer, reader, most=4):
        pass
    assert written(cluster) == orders()
