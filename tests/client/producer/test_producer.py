"""A producer on a cluster in memory: what it writes, together and where; what it refuses; when it blocks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, as_completed, wait
from typing import Any

import pyarrow as pa
import pytest

from sparklog.client.bootstrap import DEFAULT_STORE
from sparklog.client.cluster import Cluster
from sparklog.client.producer import producer as producer_module
from sparklog.client.producer import sending
from sparklog.client.producer.open_producers import open_producers
from sparklog.client.producer.producer import Producer
from sparklog.client.producer.record_future import RecordFuture, SentRecords, WrittenRecords
from sparklog.core.errors import (
    InvalidInput,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidRequiredAcks,
    RecordTooLarge,
    RequestTimedOut,
    SparklogError,
    StoreFull,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from tests.client.interfered_stores import StoreCalls, failing, interfere
from tests.client.test_cluster import new_cluster
from tests.kit.hand_clock import HandClock

WAIT_S = 60.0
LONG_MS = 100_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        made.create_topic("orders", partitions=3)
        yield made


def sent(cluster: Cluster, topic: str = "orders") -> dict[int, list[str]]:
    """The values of each partition that has any."""
    found = {}
    for partition in range(len(cluster.describe(topic).partitions)):
        rows = cluster.read(topic, partition=partition)
        if rows.num_rows:
            found[partition] = [value.decode() for value in rows["value"].to_pylist()]
    return found


def entries(cluster: Cluster) -> int:
    return cluster.connection.follower.catch_up().n


# ---- one flush --------------------------------------------------------------------------------------


def test_a_flush_over_topics_and_partitions_is_one_commit_and_an_object_for_each_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("payments", partitions=2)
    calls = interfere(monkeypatch)
    with cluster.producer(linger_ms=LONG_MS // 2) as producer:
        before = entries(cluster)
        futures = [producer.send(topic, f"{n}", key=f"k{n}") for n in range(20) for topic in ("orders", "payments")]
        producer.flush()
        assert entries(cluster) == before + 1
        assert len(calls.objects()) == 2
        assert all(future.done() for future in futures)
    assert sum(len(each) for each in sent(cluster).values()) == 20
    assert sum(len(each) for each in sent(cluster, "payments").values()) == 20
    for future in futures:
        where = future.result()
        assert where.partition is not None
        assert where.offset is not None
        rows = cluster.read(where.topic, partition=where.partition, start=where.offset, end=where.offset + 1)
        index = futures.index(future)
        assert rows["value"].to_pylist() == [f"{index // 2}".encode()]


def test_keys_choose_partitions_as_for_every_other_writer(cluster: Cluster) -> None:
    keys = [f"customer {n}" for n in range(50)]
    with cluster.producer() as producer:
        for key in keys:
            producer.send("orders", key, key=key)
    cluster.create_topic("appended", partitions=3)
    cluster.append("appended", pa.table({"key": keys, "value": keys}))
    assert sent(cluster) == sent(cluster, "appended")


def test_records_without_a_key_stay_together_and_the_next_flush_goes_elsewhere(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=LONG_MS // 2) as producer:
        for flush in range(3):
            for n in range(4):
                producer.send("orders", f"{flush}-{n}")
            producer.flush()
    assert sorted(map(tuple, sent(cluster).values())) == [tuple(f"{flush}-{n}" for n in range(4)) for flush in range(3)]


def test_a_record_arrives_as_it_was_sent(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        producer.send("orders", None, key=b"k", headers=[("h", b"x"), ("i", None)], timestamp_ms=1_000, partition=2)
        producer.send("orders", "ä", partition=2)
        producer.send("orders", bytearray(b"b"), key=memoryview(b"m"), partition=2)  # type: ignore[arg-type]
    rows = cluster.read("orders", partition=2, include_headers=True).to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(b"k", None), (None, "ä".encode()), (b"m", b"b")]
    assert rows[0]["headers"] == [{"key": "h", "value": b"x"}, {"key": "i", "value": None}]
    assert rows[0]["timestamp"].timestamp() == 1.0
    assert rows[1]["headers"] is None


@pytest.mark.parametrize("acks", ["all", 1])
def test_without_flush_linger_is_enough(cluster: Cluster, acks: str | int) -> None:
    with cluster.producer(acks=acks, linger_ms=1) as producer:
        futures = [producer.send("orders", f"{n}", key=f"{n}") for n in range(10)]
        assert {future.result(WAIT_S).topic for future in futures} == {"orders"}


def test_a_full_batch_does_not_wait_for_others(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=LONG_MS // 2, batch_size=1_000) as producer:
        futures = [producer.send("orders", b"x" * 100) for _ in range(5)]
        assert futures[0].result(WAIT_S).offset == 0


def test_acks_0_waits_for_nothing_and_close_does(cluster: Cluster) -> None:  # M: P-03
    with cluster.producer(acks=0, linger_ms=LONG_MS // 2) as producer:
        future = producer.send("orders", "a", partition=0)
        assert future.result() == ("orders", None, None)
        assert sent(cluster) == {}
    assert sent(cluster) == {0: ["a"]}


def test_closing_the_cluster_writes_what_was_sent(cluster: Cluster) -> None:
    future = cluster.producer(linger_ms=LONG_MS // 2).send("orders", "a")
    cluster.close()
    assert future.result().offset == 0


# ---- futures ----------------------------------------------------------------------------------------


def test_a_future_calls_back_and_becomes_one_of_the_standard_library(cluster: Cluster) -> None:
    called: list[int] = []
    with cluster.producer(linger_ms=LONG_MS // 2) as producer:
        futures = [producer.send("orders", f"{n}", partition=n % 3) for n in range(9)]
        with pytest.raises(TimeoutError):
            futures[0].result(timeout=0.001)
        standard = [future.future() for future in futures]
        assert not standard[0].cancel()
        assert standard[0].running()
        for future in futures:
            future.add_done_callback(lambda done: called.append(done.result().offset))
        futures[0].add_done_callback(lambda _: 1 // 0)  # is logged, and harms nobody
        assert wait(standard, timeout=0.001).not_done == set(standard)
        waiter = threading.Thread(target=producer.flush)
        waiter.start()
        assert not wait(standard, timeout=WAIT_S).not_done
        assert wait(standard, timeout=WAIT_S, return_when=FIRST_COMPLETED).done
        waiter.join()
        assert {future.result().offset for future in as_completed(standard, WAIT_S)} == {0, 1, 2}
    assert sorted(called) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    futures[3].add_done_callback(lambda done: called.append(-done.result().partition))
    assert called[-1] == 0


def test_a_future_can_be_awaited(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=1) as producer:

        async def main() -> int | None:
            return (await asyncio.wrap_future(producer.send("orders", "a").future())).offset

        assert asyncio.run(main()) == 0


def test_the_standard_future_of_a_record_that_failed_raises_its_error() -> None:
    records = SentRecords("orders")
    future = RecordFuture(records, 0)
    standard = future.future()
    records.fail(StoreFull("the disk is full"))
    for each in (standard, future.future()):
        with pytest.raises(StoreFull, match="the disk is full"):
            each.result(WAIT_S)


def test_a_callback_can_send_but_not_wait_for_its_own_thread(cluster: Cluster) -> None:
    refused: list[SparklogError] = []
    with cluster.producer(linger_ms=1) as producer:

        def call_back(_: object) -> None:
            producer.send("orders", "second", partition=0)
            for call in (producer.flush, producer.close):
                try:
                    call()
                except InvalidInput as error:
                    refused.append(error)

        producer.send("orders", "first", partition=0).add_done_callback(call_back)
        producer.flush()
    assert len(refused) == 2
    assert sent(cluster) == {0: ["first", "second"]}


def test_a_callback_that_exits_does_not_end_the_thread_that_sends(caplog: pytest.LogCaptureFixture) -> None:
    records = SentRecords("orders")
    records.partitions = 0
    future = RecordFuture(records, 0)
    called: list[int | None] = []
    future.add_done_callback(lambda _: sys.exit(1))
    future.add_done_callback(lambda done: called.append(done.result().offset))
    records.settle({0: WrittenRecords(7)})
    assert "a callback of a producer failed" in caplog.text
    assert called == [7]
    with pytest.raises(SystemExit):  # in the thread of a caller, it is the caller's
        future.add_done_callback(lambda _: sys.exit(1))


# ---- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "send"),
    [
        (UnknownTopicOrPartition, lambda producer: producer.send("order", "a")),
        (UnknownTopicOrPartition, lambda producer: producer.send("orders", "a", partition=3)),
        (UnknownTopicOrPartition, lambda producer: producer.send("orders", "a", partition=-1)),
        (RecordTooLarge, lambda producer: producer.send("orders", b"x" * 2_000_000)),
        (RecordTooLarge, lambda producer: producer.send("orders", "a", headers=[("h", b"x" * 2_000_000)])),
        (InvalidRecord, lambda producer: producer.send("tables", "a")),
        (InvalidRecord, lambda producer: producer.send("orders", "a", timestamp_ms="now")),
        (InvalidRecord, lambda producer: producer.send("orders", "a", timestamp_ms=1 << 60)),
        (InvalidRecord, lambda producer: producer.send("orders", "a\ud83d")),
        (InvalidRecord, lambda producer: producer.send("orders", "a", key="\udcff")),
        (InvalidRecord, lambda producer: producer.send("orders", "a", headers=[("\ud83d", b"x")])),
        (InvalidRecord, lambda producer: producer.send("orders", "a", headers=[("h", "\ude00\ud83d")])),
        (UnknownTopicOrPartition, lambda producer: producer.send("\ud83d", "a")),
        (InvalidInput, lambda producer: producer.send("orders", 7)),
        (InvalidInput, lambda producer: producer.send("orders", "a", key=7)),
        (InvalidInput, lambda producer: producer.send("orders", "a", headers={"h": "x"})),
        (InvalidInput, lambda producer: producer.send("orders", "a", headers=["h"])),
        (InvalidInput, lambda producer: producer.send(7, "a")),
    ],
)
def test_what_a_topic_does_not_take_is_refused_by_send(
    cluster: Cluster, expected: type[SparklogError], send: Callable[[Producer], object]
) -> None:
    cluster.create_topic("tables", config={"cleanup.policy": "compact"})
    with cluster.producer() as producer:
        with pytest.raises(expected):
            send(producer)
        producer.send("orders", "good", partition=0)
    assert sent(cluster) == {0: ["good"]}


def test_a_partition_that_was_just_added_is_known(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        producer.send("orders", "a", partition=0)
        cluster.add_partitions("orders", 5)
        producer.send("orders", "b", partition=4)
    assert sent(cluster) == {0: ["a"], 4: ["b"]}


def test_only_the_records_of_a_deleted_topic_fail(cluster: Cluster) -> None:
    cluster.create_topic("doomed", partitions=2)
    with cluster.producer(linger_ms=LONG_MS // 2) as producer:
        doomed = [producer.send("doomed", "x", partition=partition) for partition in (0, 1)]
        good = [producer.send("orders", "a", partition=partition) for partition in (0, 1, 2)]
        cluster.delete_topic("doomed")
        producer.flush()
        for future in doomed:
            with pytest.raises(UnknownTopicOrPartition):
                future.result()
        assert [future.result().offset for future in good] == [0, 0, 0]


def test_records_of_a_topic_do_not_go_to_one_that_is_created_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_and_upload = sending.plan_and_upload

    def created_again(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(sending, "plan_and_upload", plan_and_upload)
        cluster.delete_topic("orders")
        cluster.create_topic("orders", partitions=3)
        return plan_and_upload(*arguments, **more)

    monkeypatch.setattr(sending, "plan_and_upload", created_again)
    with cluster.producer(linger_ms=1) as producer:
        with pytest.raises(UnknownTopicOrPartition, match="created again"):
            producer.send("orders", "a", partition=0).result(WAIT_S)
        producer.send("orders", "b", partition=0).result(WAIT_S)
    assert sent(cluster) == {0: ["b"]}


def test_records_that_became_too_large_do_not_spoil_other_partitions(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=LONG_MS // 2) as producer:
        futures = [producer.send("orders", b"x" * size, partition=p) for p, size in enumerate((10, 500, 20))]
        cluster.alter("orders", config={"max.message.bytes": 100})
        producer.flush()
        assert isinstance(futures[1].exception(), RecordTooLarge)
        assert [futures[p].result().offset for p in (0, 2)] == [0, 0]
        smaller = producer.send("orders", "y", partition=1)
    assert smaller.result() == ("orders", 1, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"linger_ms": -1},
        {"batch_size": 0},
        {"max_in_flight": 6},
        {"max_in_flight": 0},
        {"linger_ms": 5_000, "delivery_timeout_ms": 5_000},
        {"batch_size": 2_000, "buffer_memory": 1_000},
        {"buffer_memory": 1 << 31},
        {"max_block_ms": 1.5},
        {"compression": "gzip"},
    ],
)
def test_settings_that_make_no_sense_are_refused(cluster: Cluster, options: dict[str, object]) -> None:
    before = entries(cluster)
    with pytest.raises(InvalidInput):
        cluster.producer(**options)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequiredAcks):
        cluster.producer(acks=2)
    assert entries(cluster) == before


def test_nothing_is_sent_after_close(cluster: Cluster) -> None:
    producer = cluster.producer()
    producer.send("orders", "a", partition=0)
    producer.close()
    producer.close()
    with pytest.raises(InvalidInput, match="closed"):
        producer.send("orders", "b")
    producer.flush()
    assert sent(cluster) == {0: ["a"]}


def test_whoever_interrupts_close_does_not_wait_again_at_the_programs_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = cluster.producer()
    assert producer in open_producers

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(producer, "flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    assert producer not in open_producers
    monkeypatch.undo()
    producer.close()


# ---- a full buffer ----------------------------------------------------------------------------------


class Gate:
    """Uploads wait here until it opens."""

    def __init__(self, calls: StoreCalls) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        calls.before[DEFAULT_STORE] = self.called

    def called(self, call: str, key: str) -> None:
        if call == "upload":
            self.reached.set()
            assert self.opened.wait(WAIT_S)


def test_a_full_buffer_blocks_and_then_times_out(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(interfere(monkeypatch))
    with cluster.producer(linger_ms=0, batch_size=1, buffer_memory=1_000, max_block_ms=20) as producer:
        futures = [producer.send("orders", b"x" * 350, partition=0) for _ in range(2)]
        with pytest.raises(RequestTimedOut, match=r"buffer_memory.*max_block_ms"):
            producer.send("orders", b"x" * 350, partition=0)
        with pytest.raises(RecordTooLarge, match="buffer_memory"):
            producer.send("orders", b"x" * 950, partition=0)
        with pytest.raises(RequestTimedOut, match="not everything was written within 20 ms"):
            producer.flush(timeout_ms=20)
        gate.opened.set()
        assert [future.result(WAIT_S).offset for future in futures] == [0, 1]
        producer.flush()  # only then is their room free: a future is done a moment before
        assert producer.send("orders", b"x" * 350, partition=0).result(WAIT_S).offset == 2


def test_a_sender_who_waits_for_room_goes_on_once_there_is_some(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(interfere(monkeypatch))
    with cluster.producer(linger_ms=LONG_MS // 2, batch_size=900, buffer_memory=1_000) as producer:
        futures = [producer.send("orders", b"x" * 600, partition=0)]

        def send() -> None:
            futures.append(producer.send("orders", b"y" * 600, partition=0))

        thread = threading.Thread(target=send)
        thread.start()
        assert gate.reached.wait(WAIT_S), "whoever waits for room does not linger"
        assert len(futures) == 1
        gate.opened.set()
        thread.join(WAIT_S)
    assert [future.result().offset for future in futures] == [0, 1]


def test_many_threads_keep_their_own_order(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=1, batch_size=3_000, buffer_memory=30_000) as producer:

        def send(name: int) -> None:
            for n in range(200):
                producer.send("orders", f"{name}/{n}", partition=0)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = [value.split("/") for value in sent(cluster)[0]]
    assert len(values) == 800
    for name in "0123":
        assert [int(n) for of, n in values if of == name] == list(range(200))


# ---- other instances, stores that fail ----------------------------------------------------------------


def test_a_producer_that_its_twin_fenced_says_so(cluster: Cluster) -> None:  # M: I-01
    with cluster.producer(linger_ms=1) as old:
        old.send("orders", "a", partition=0).result(WAIT_S)
        with cluster.producer(linger_ms=1, producer_id=old.producer_id) as twin:
            twin.send("orders", "b", partition=0).result(WAIT_S)
            refused = old.send("orders", "c", partition=0)
            with pytest.raises(InvalidProducerEpoch):
                refused.result(WAIT_S)
            with pytest.raises(InvalidProducerEpoch):
                old.send("orders", "d", partition=0)
            twin.send("orders", "e", partition=0).result(WAIT_S)
    assert sent(cluster) == {0: ["a", "b", "e"]}


def test_an_unknown_producer_is_refused_at_once(cluster: Cluster) -> None:
    with pytest.raises(UnknownProducerId):
        cluster.producer(producer_id=7)


def test_what_a_store_refuses_fails_and_the_next_record_goes_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = interfere(monkeypatch)
    with cluster.producer(linger_ms=1) as producer:
        calls.before[DEFAULT_STORE] = failing(StoreFull("no space"))
        lost = [producer.send("orders", "a", partition=partition) for partition in (0, 1)]
        for future in lost:
            with pytest.raises(StoreFull):
                future.result(WAIT_S)
        calls.before.clear()
        assert producer.send("orders", "b", partition=0).result(WAIT_S).offset == 0
    assert sent(cluster) == {0: ["b"]}


def test_a_delivery_times_out(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time passes in the first upload, so that there is one however busy the machine is."""
    calls, clock = interfere(monkeypatch), HandClock()
    monkeypatch.setattr(producer_module, "_CLOCK", clock)

    def too_slow(call: str, key: str) -> None:
        clock.pause(LONG_MS)
        raise RequestTimedOut("too slow")

    calls.before[DEFAULT_STORE] = too_slow
    with (
        cluster.producer(linger_ms=0, delivery_timeout_ms=LONG_MS) as producer,
        pytest.raises(RequestTimedOut, match=r"delivery_timeout_ms.*too slow"),
    ):
        producer.send("orders", "a", partition=0).result(WAIT_S)
