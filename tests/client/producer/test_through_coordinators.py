"""A producer that knows only the addresses of coordinators, while the one that leads is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from tests.faults.running_coordinators import SESSION_MS, running_coordinators

RECORDS = 300


@pytest.mark.campaign
def test_records_are_there_in_order_and_once_though_the_coordinator_is_killed(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    with connect(url) as cluster, running_coordinators(url) as coordinators:
        cluster.create_topic("t", partitions=3)
        leader = coordinators.start()
        leader.wait_for("leads")
        standby = coordinators.start()
        with connect(f"{leader.address},{standby.address}") as through, through.producer(linger_ms=1) as producer:
            futures = [producer.send("t", f"{n:04d}", key=f"{n}") for n in range(RECORDS)]
            assert futures[0].exception() is None
            for n in range(RECORDS, 2 * RECORDS):
                futures.append(producer.send("t", f"{n:04d}", key=f"{n}"))
                if n == RECORDS + RECORDS // 2:
                    leader.kill()
            producer.flush()
            assert [future.exception() for future in futures] == [None] * len(futures)
        there = [cluster.read("t", partition=partition)["value"].to_pylist() for partition in range(3)]
    for values in there:
        assert values == sorted(values)
    assert sorted(value for values in there for value in values) == [f"{n:04d}".encode() for n in range(2 * RECORDS)]
