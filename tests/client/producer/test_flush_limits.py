"""A topic's `flush.messages` and `flush.ms` limit what waits in a producer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.client.cluster import Cluster
from tests.client.test_cluster import new_cluster

WAIT_S = 60.0
LONG_MS = 50_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        made.create_topic("orders", partitions=3)
        yield made


@pytest.mark.parametrize(("limit", "records"), [({"flush.messages": 3}, 3), ({"flush.ms": 1}, 1)])
def test_what_a_topic_lets_wait_is_limited_however_long_the_producer_lingers(
    cluster: Cluster, limit: dict[str, int], records: int
) -> None:  # M: F-01
    cluster.create_topic("limited", partitions=2, config=limit)
    with cluster.producer(linger_ms=LONG_MS) as producer:
        beside = producer.send("orders", "beside")
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
