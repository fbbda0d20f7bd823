"""The end of a cluster is the end of its producers and consumers."""

from __future__ import annotations

import os
import threading

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.producer.producer import Producer
from sparklog.core.errors import InvalidInput, StoreUnavailable, Wakeup
from tests.client.orders import RECORDS, cluster, committed

__all__ = ["cluster"]


def other(cluster: Cluster) -> Cluster:
    """The cluster in another process."""
    return sparklog.connect(cluster.connection.url)


def reader(cluster: Cluster, records: int, group: str = "billing") -> Consumer:
    """A consumer that was handed so many records, and commits by itself in an hour."""
    consumer = cluster.consumer("orders", group=group, auto_offset_reset="earliest", auto_commit_interval_ms=3_600_000)
    assert sum(map(len, consumer.poll(max_records=records).values())) == records
    return consumer


def test_its_consumers_commit_what_they_handed_out_and_leave_their_groups(cluster: Cluster) -> None:
    closing = other(cluster)
    readers = [reader(closing, 4), reader(closing, 5, "audit")]
    for consumer in readers:
        consumer.poll(max_records=1)  # so what came before is done
    before = closing.consumer("orders")
    before.close()
    for _ in range(2):
        closing.close()
    assert sum(committed(cluster).values()) == 5
    assert [cluster.describe_group(group).members for group in ("audit", "billing")] == [(), ()]
    for consumer in (*readers, before):
        with pytest.raises(InvalidInput, match="closed"):
            consumer.poll()
    assert closing._consumers == set()


@pytest.mark.parametrize("error", [ValueError, Wakeup])
def test_after_an_error_its_consumers_leave_but_commit_nothing(cluster: Cluster, error: type[Exception]) -> None:
    def fail() -> None:
        with other(cluster) as closing:
            reader(closing, 4)
            raise error("while they were processed")

    with pytest.raises(error):
        fail()
    assert sum(committed(cluster).values()) == (4 if error is Wakeup else 0), "a wakeup is no error"
    assert cluster.describe_group("billing").members == ()


def test_producers_have_written_before_consumers_commit(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    closing, order = other(cluster), []
    reader(closing, 4)
    producer = closing.producer(linger_ms=60_000)
    producer.send("orders", b"result", partition=0)
    for kind, method in ((Producer, "close"), (Consumer, "_close")):
        close = getattr(kind, method)

        def noted(self: object, close=close, **options: object) -> None:  # type: ignore[no-untyped-def]
            close(self, **options)
            order.append((type(self), cluster.read("orders", partition=0).num_rows, sum(committed(cluster).values())))

        monkeypatch.setattr(kind, method, noted)
    closing.close()
    assert order == [(Producer, RECORDS + 1, 0), (Consumer, RECORDS + 1, 4)]


@pytest.mark.parametrize("woken", [False, True])
def test_after_an_interrupt_of_its_producers_no_consumer_commits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, woken: bool
) -> None:
    closing = other(cluster)
    reader(closing, 4)
    producer = closing.producer()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def close() -> None:
        with closing:
            if woken:
                raise Wakeup("the program is to end")

    with monkeypatch.context() as patch:
        patch.setattr(producer, "flush", interrupt)
        with pytest.raises(KeyboardInterrupt):
            close()
    assert committed(cluster) == {}
    assert cluster.describe_group("billing").members == ()


def test_one_that_fails_keeps_no_other_from_closing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = other(cluster)
    readers = [reader(closing, 1), reader(closing, 1, "audit"), reader(closing, 1, "third")]

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(readers[1]._reading, "end", away)
    with pytest.raises(StoreUnavailable):
        closing.close()
    assert [cluster.describe_group(group).members for group in ("billing", "third")] == [(), ()]
    assert len(cluster.describe_group("audit").members) == 1
    closing.close()


def test_one_that_another_thread_uses_is_refused_and_closed_by_a_later_call(cluster: Cluster) -> None:
    closing = other(cluster)
    busy, idle = reader(closing, 1), reader(closing, 1, "audit")
    is_in, goes_on = threading.Event(), threading.Event()

    def call() -> None:
        with busy._alone():
            is_in.set()
            goes_on.wait(60)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert is_in.wait(60)
        with pytest.raises(InvalidInput, match="another thread is in a call of this consumer"):
            closing.close()
        assert cluster.describe_group("audit").members == ()
        assert idle._closed
    finally:
        goes_on.set()
        thread.join()
    closing.close()
    assert cluster.describe_group("billing").members == ()


def test_a_forked_child_closes_nothing_of_its_parent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with other(cluster) as closing:
        reader(closing, 4)
        with monkeypatch.context() as in_child:
            in_child.setattr(os, "getpid", lambda: -1)
            closing.close()
        assert len(cluster.describe_group("billing").members) == 1
    assert cluster.describe_group("billing").members == ()
