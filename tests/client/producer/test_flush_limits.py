"""A topic's `flush.messages` and `flush.ms` limit what waits in a producer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from tests.client.test_cluster import new_cluster

WAIT_S = 30.0
LONG_MS = 110_000  # longer than any test waits


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        made.create_topic("orders", partitions=3)
        yield made


class SeenWaiting(threading.Condition):
    """Says once somebody waits."""

    def __init__(self, lock: Any) -> None:
        super().__init__(lock)
        self.waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


@pytest.mark.parametrize(("limit", "records"), [({"flush.messages": 3}, 3), ({"flush.ms": 1}, 1)])
def test_what_a_topic_lets_wait_is_limited_however_long_the_producer_lingers(
    cluster: Cluster, limit: dict[str, int], records: int
) -> None:  # M: F-01
    cluster.create_topic("limited", partitions=2, config=limit)
    with cluster.producer(linger_ms=LONG_MS) as producer:
        sender = producer._work_there = SeenWaiting(producer._lock)
        beside = producer.send("orders", "beside")
        assert sender.waited.wait(WAIT_S), "a sender lingers"
        futures = [producer.send("limited", f"{n}", partition=0) for n in range(records)]
        assert [future.result(WAIT_S).offset for future in futures] == list(range(records))
        assert beside.result(WAIT_S).offset == 0, "what waits together is written together"


def test_a_limit_that_a_topic_gets_later_is_known_from_the_next_flush_on(cluster: Cluster) -> None:
    with cluster.producer(linger_ms=LONG_MS) as producer:
        producer.send("orders", "a", partition=0)
        cluster.alter("orders", config={"flush.messages": 2})
        producer.flush()
        futures = [producer.send("orders", f"{n}", partition=0) for n in range(2)]
        assert [future.result(WAIT_S).offset for future in futures] == [1, 2]
