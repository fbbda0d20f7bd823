"""Three members of a group in Kafka move to Python consumers: nothing is skipped, nothing committed comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer

from sparklog.cli.main import run
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer as SparklogConsumer
from tests.spark.mirror.kafka_topics import KafkaTopics, client_config
from tests.spark.mirror.test_mirror_job import Mirror
from tests.spark.mirror.test_mirror_job import mirror as mirror

GROUP, PARTITIONS, RECORDS = "billing", 6, 3_000
Place = tuple[int, int]  # partition, offset


@pytest.fixture
def members(kafka: KafkaTopics) -> Iterator[list[Consumer]]:
    """Three consumers in Kafka that commit by hand."""
    config = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with ExitStack() as closing:
        consumers = [Consumer({**client_config(kafka.bootstrap), **config}) for _ in range(3)]
        for consumer in consumers:
            closing.callback(consumer.close)
        yield consumers


def join(topic: str, members: list[Consumer]) -> None:
    """Begin to read before there is a record, until each member has its share."""
    for member in members:
        member.subscribe([topic])
    while [len(member.assignment()) for member in members] != [2, 2, 2]:
        for member in members:
            message = member.poll(0.1)
            assert message is None or message.error() is not None  # a new broker is no coordinator yet


def read_in_kafka(members: list[Consumer], number: int) -> list[Place]:
    """Read so many records by turns. Each fiftieth offset of a partition is committed."""
    read: list[Place] = []
    while len(read) < number:
        for member in members:
            message = member.poll(0.05)
            if message is None:
                continue
            assert message.error() is None
            read.append((message.partition(), message.offset()))
            if message.offset() % 50 == 0:
                member.commit(message=message, asynchronous=False)
    return read


def read_here(members: list[SparklogConsumer], is_enough: Callable[[list[Place]], bool]) -> list[Place]:
    """Read by turns until this is true of what the last turn of all members brought."""
    read: list[Place] = []
    while True:
        polled = [records for member in members for records in member.poll(timeout_ms=20, max_records=20).values()]
        new = [(record.partition, record.offset) for records in polled for record in records]
        read += new
        if is_enough(new):
            return read


def offsets_of(cluster: Cluster) -> dict[int, int]:
    return {partition: row.offset for (_, partition), row in cluster.committed(GROUP).items()}


def test_three_members_go_on_here_at_the_next_record(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, members: list[Consumer]
) -> None:
    topic = kafka.create(PARTITIONS)
    join(topic, members)
    kafka.write(topic, [{"key": b"%d" % at, "value": b"%d" % at} for at in range(RECORDS)])
    mirror(topic)
    there = read_in_kafka(members, RECORDS // 2)
    for member in members:
        member.close()

    address = ["--cluster", cluster.connection.url]
    assert run([*address, "group", "import", GROUP, "--from-kafka", kafka.bootstrap, "--execute"]) == 0
    cluster.promote_topic(topic)
    imported = offsets_of(cluster)
    with ExitStack() as closing:
        here = [
            cluster.consumer(topic, group=GROUP, auto_offset_reset="earliest", auto_commit_interval_ms=200)
            for _ in range(3)
        ]
        for consumer in here:
            closing.enter_context(consumer)
        joining = read_here(here, lambda _: [len(consumer.assignment()) for consumer in here] == [2, 2, 2])
        for consumer in here:
            consumer.commit()
        settled = offsets_of(cluster)
        moved = read_here(here, lambda new: not new and cluster.describe_group(GROUP).lag == 0)

    ends = kafka.ends(topic)

    def rest(offsets: dict[int, int]) -> set[Place]:
        return {(each, offset) for each, end in ends.items() for offset in range(offsets.get(each, 0), end)}

    assert set(there) - rest(imported) == rest({}) - rest(imported)  # it was committed
    assert set(there) & rest(imported)
    assert set(joining) | set(moved) == rest(imported)
    assert sorted(moved) == sorted(rest(settled))
