"""A mirror that follows Kafka: an error of one partition, one topic or one moment neither ends it nor stops others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import AccessRefused
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.mirror import mirror_job
from sparklog.spark.mirror.kafka_cluster import KafkaCluster
from tests.servers.kafka_broker import KafkaBroker
from tests.spark.mirror.kafka_topics import KafkaTopics
from tests.spark.mirror.test_mirror_job import Mirror, ends, here, some
from tests.spark.mirror.test_mirror_job import mirror as mirror

QUICK = {"default.api.timeout.ms": "3000", "request.timeout.ms": "1000"}
Between = Callable[..., None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Takes what happens after each round of a mirror. After the round that follows the last one, Ctrl-C comes."""

    def set_events(*events: Callable[[], object]) -> None:
        rest = iter(events)

        def sleep(_: float) -> None:
            event = next(rest, None)
            if event is None:
                raise KeyboardInterrupt
            event()

        monkeypatch.setattr(mirror_job, "sleep_s", sleep)

    return set_events


def failures(report: JobReport) -> dict[str, str]:
    """For each place that has failed, its messages."""
    return {row.place: "; ".join(row.messages) for row in report.partitions if row.outcome == "failed"}


def test_a_partition_that_fails_holds_up_no_other(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, between: Between
) -> None:
    topic = kafka.create(2)
    mirror(topic)
    cluster.alter(topic, config={"max.message.bytes": 1_000})
    kafka.write(topic, [{"value": b"small", "partition": 0}, {"value": b"x" * 5_000, "partition": 1}])
    between(lambda: kafka.write(topic, some(5, partition=0)))
    report = mirror(topic, follow=True)
    assert ends(cluster, topic) == [6, 0]
    assert "RECORD_TOO_LARGE: " in failures(report)[f"{topic}-1"]
    between(lambda: cluster.alter(topic, config={"max.message.bytes": 10_000}))
    report = mirror(topic, follow=True)
    assert ends(cluster, topic) == [6, 1]
    assert failures(report) == {}


def test_a_kafka_that_is_away_for_some_seconds_is_followed_again(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, broker: KafkaBroker, between: Between
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(3))
    back = threading.Timer(5, lambda: os.kill(broker.pid, signal.SIGCONT))

    def away() -> None:
        os.kill(broker.pid, signal.SIGSTOP)
        back.start()

    def write() -> None:
        back.join()
        kafka.write(topic, some(3, first=3))

    between(away, write, lambda: None)
    try:
        report = mirror(topic, follow=True, kafka=QUICK)
    finally:
        back.cancel()
        os.kill(broker.pid, signal.SIGCONT)
    assert failures(report) == {}
    assert here(cluster, topic) == kafka.read(topic)


def test_a_topic_that_kafka_deletes_holds_up_no_other(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, between: Between
) -> None:
    deleted, kept = kafka.create(1), kafka.create(1)
    for topic in (deleted, kept):
        kafka.write(topic, some(5))

    def delete() -> None:
        kafka.delete(deleted)
        kafka.write(kept, some(5, first=5))
        time.sleep(1)  # until all of Kafka knows

    between(delete)
    report = mirror(deleted, kept, follow=True)
    assert (ends(cluster, deleted), ends(cluster, kept)) == ([5], [10])
    assert list(failures(report)) == [f"{deleted}-0"]
    assert "UNKNOWN_TOPIC_OR_PARTITION: " in failures(report)[f"{deleted}-0"]


def test_a_topic_that_is_deleted_here_is_mirrored_again_from_its_start(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, between: Between
) -> None:
    topic = kafka.create(2)
    kafka.write(topic, some(5, partition=0))
    kafka.write(topic, some(5, partition=1), transactional=True)
    between(lambda: cluster.delete_topic(topic))
    mirror(topic, follow=True)
    assert here(cluster, topic) == kafka.read(topic)


def test_a_pattern_that_nothing_matches_for_a_while_is_followed(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, between: Between
) -> None:
    topic = kafka.create(1)
    later = f"{topic}.later"

    def delete() -> None:
        kafka.delete(topic)
        time.sleep(1)

    def create() -> None:
        kafka.create(name=later)
        kafka.write(later, some(3))

    between(delete, create, lambda: None)
    mirror(pattern=f"{topic}.*", follow=True)
    assert here(cluster, later) == kafka.read(later)


def test_credentials_that_kafka_refuses_for_a_while_are_tried_again(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(3))
    answer = KafkaCluster.chosen_names

    def refuse(*_: object) -> list[str]:
        raise AccessRefused("SASL authentication failed")

    def revoke() -> None:
        monkeypatch.setattr(KafkaCluster, "chosen_names", refuse)

    def grant() -> None:
        monkeypatch.setattr(KafkaCluster, "chosen_names", answer)
        kafka.write(topic, some(3, first=3))

    between(revoke, grant, lambda: None)
    assert failures(mirror(topic, follow=True)) == {}
    assert here(cluster, topic) == kafka.read(topic)


def test_markers_that_retention_removes_are_no_loss(mirror: Mirror, kafka: KafkaTopics, between: Between) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(3), transactional=True)
    between(lambda: kafka.delete_records(topic, 0, 4))
    assert failures(mirror(topic, follow=True)) == {}
