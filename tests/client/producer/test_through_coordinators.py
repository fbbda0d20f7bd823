"""Producers that know only the addresses of coordinators, also while the one that leads is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import connect
from sparklog.client.consumer.consumer import Consumer
from sparklog.client.producer.producer import Producer
from sparklog.core.errors import FencedInstanceId
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


def copy(producer: Producer, consumer: Consumer, most: int = 500) -> int:
    """One transaction, which copies records from one topic to another. Returns how many."""
    with producer.transaction() as transaction:
        transaction.send_offsets(consumer)
        values = [record.value for records in consumer.poll(max_records=most).values() for record in records]
        for value in values:
            transaction.send("copies", value, key=value)
    return len(values)


def test_transactions_of_static_members_through_a_coordinator(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/cluster"
    init_cluster(url, config={"broker.session.timeout.ms": SESSION_MS})
    with connect(url) as cluster, running_coordinators(url) as coordinators:
        for topic in ("t", "copies"):
            cluster.create_topic(topic, partitions=3)
        with cluster.producer() as producer:
            for n in range(30):
                producer.send("t", f"{n}", key=f"{n}")
        leader = coordinators.start()
        leader.wait_for("leads")
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "group_instance_id": "1"}
        with connect(leader.address) as through, through.producer() as producer:
            old, new = (through.consumer("t", group="g", heartbeat_interval_ms=1, **options) for _ in range(2))
            assert copy(producer, old, 7) == 7
            generation = cluster.describe_group("g").generation
            assert copy(producer, new, 7) == 7
            for _ in range(2):
                with pytest.raises(FencedInstanceId):
                    copy(producer, old)
            assert copy(producer, new) == 30 - 14
            assert cluster.describe_group("g").generation == generation
        there = [cluster.read("copies", partition=partition)["value"].to_pylist() for partition in range(3)]
        assert sorted(value for values in there for value in values) == sorted(f"{n}".encode() for n in range(30))
