"""What others do to a topic while a mirror copies it: its records stay those of Kafka, and other topics are copied."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.cluster import Cluster
from sparklog.client.plans.write_plan import WritePlan
from sparklog.core.commands import AddPartitions, Append, Command, CreateTopic
from sparklog.core.errors import NotEnoughReplicas
from sparklog.core.records import CommandResult
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.mirror import mirror_job
from tests.spark.mirror.kafka_topics import KafkaTopics
from tests.spark.mirror.test_mirror_follow import failures
from tests.spark.mirror.test_mirror_job import Mirror, ends, here, some
from tests.spark.mirror.test_mirror_job import mirror as mirror

During = Callable[..., None]


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> During:
    """Takes what happens in each step of a mirror: it is planned, and has read nothing yet."""
    run_tasks = mirror_job.run_tasks

    def set_events(*events: Callable[[], object]) -> None:
        rest = iter(events)

        def run(*arguments: Any) -> Any:
            event = next(rest, None)
            if event is not None:
                event()
            return run_tasks(*arguments)

        monkeypatch.setattr(mirror_job, "run_tasks", run)

    return set_events


def test_no_record_of_a_topic_that_was_created_again_gets_into_the_mirror(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, during: During
) -> None:
    topic, other = kafka.create(1), kafka.create(1)
    for name in (topic, other):
        kafka.write(name, some(3))

    def create_again() -> None:
        kafka.delete(topic)
        kafka.create_again(topic)
        kafka.write(topic, some(9, first=100))

    during(create_again)
    report = mirror(topic, other)
    assert (ends(cluster, topic), ends(cluster, other)) == ([0], [3])
    assert list(failures(report)) == [f"{topic}-0"]
    assert "INCONSISTENT_TOPIC_ID: " in failures(report)[f"{topic}-0"]


def test_a_topic_that_is_deleted_here_in_a_step_stops_no_other(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, during: During
) -> None:
    topic, other = kafka.create(2), kafka.create(1)
    kafka.write(topic, some(5, partition=0))
    kafka.write(topic, some(20, partition=1))
    kafka.write(other, some(20))
    during(lambda: None, lambda: cluster.delete_topic(topic))
    report = mirror(topic, other, max_records=5)
    assert ends(cluster, other) == [20]
    assert set(failures(report)) == {f"{topic}-0", f"{topic}-1"}
    assert all("UNKNOWN_TOPIC_OR_PARTITION: " in text for text in failures(report).values())


def test_a_topic_that_is_promoted_in_a_step_gets_nothing_more(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, during: During
) -> None:
    topic, other = kafka.create(1), kafka.create(1)
    for name in (topic, other):
        kafka.write(name, some(5))
    during(lambda: cluster.promote_topic(topic))
    report = mirror(topic, other)
    assert (ends(cluster, topic), ends(cluster, other)) == ([0], [5])
    assert "POLICY_VIOLATION: " in failures(report)[f"{topic}-0"]


def test_retention_that_overtakes_a_step_stops_that_partition_alone(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, during: During
) -> None:
    topic = kafka.create(2)
    for partition in (0, 1):
        kafka.write(topic, some(5, partition=partition))
    during(lambda: kafka.delete_records(topic, 0, 3))
    report = mirror(topic)
    assert ends(cluster, topic) == [0, 5]
    assert list(failures(report)) == [f"{topic}-0"]
    assert "OFFSET_OUT_OF_RANGE: " in failures(report)[f"{topic}-0"]


def test_an_append_that_is_refused_for_one_partition_leaves_the_others_their_records(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(3)
    for partition in (0, 1, 2):
        kafka.write(topic, some(6, partition=partition))
    commit_append = mirror_job.commit_append

    def commit(connection: Any, plan: Any, written: Any, command: Append, *rest: Any, **options: Any) -> CommandResult:
        if any(slice_.partition == 1 for slice_ in command.slices):
            raise NotEnoughReplicas("partition 1 has too few replicas")
        return commit_append(connection, plan, written, command, *rest, **options)

    monkeypatch.setattr(mirror_job, "commit_append", commit)
    report = mirror(topic, max_records=3)
    assert ends(cluster, topic) == [6, 0, 6]
    assert list(failures(report)) == [f"{topic}-1"]
    assert "NOT_ENOUGH_REPLICAS: " in failures(report)[f"{topic}-1"]


def test_an_append_that_is_refused_for_a_while_is_tried_again(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(6))
    commit_append = mirror_job.commit_append
    refused: list[Any] = []

    def commit(*arguments: Any, **options: Any) -> CommandResult:
        if len(refused) < 2:
            refused.append(arguments)
            raise NotEnoughReplicas("for a while")
        return commit_append(*arguments, **options)

    monkeypatch.setattr(mirror_job, "commit_append", commit)
    assert failures(mirror(topic)) == {}
    assert here(cluster, topic) == kafka.read(topic)


def test_topics_and_partitions_that_another_mirror_creates_first_are_fine(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = JobFrame.commit

    def commit_twice(frame: JobFrame, command: Command) -> CommandResult:
        if isinstance(command, CreateTopic | AddPartitions):
            commit(frame, command)
        return commit(frame, command)

    monkeypatch.setattr(JobFrame, "commit", commit_twice)
    topic = kafka.create(1)
    assert failures(mirror(topic)) == {}
    kafka.add_partitions(topic, 3)
    kafka.write(topic, some(3, partition=0))
    kafka.write(topic, some(3, partition=2))
    assert failures(mirror(topic)) == {}
    assert ends(cluster, topic) == [3, 0, 3]


def test_of_two_mirrors_at_once_none_fails_and_each_record_is_here_once(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(3)
    kafka.write(topic, [{**each, "partition": at % 3} for at, each in enumerate(some(300))])
    reports: list[JobReport] = []
    both = [threading.Thread(target=lambda: reports.append(mirror(topic, max_records=10))) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [failures(report) for report in reports] == [{}, {}]
    assert here(cluster, topic) == kafka.read(topic)


def test_a_mirror_that_is_late_in_every_step_has_not_failed(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(6))
    commit_append = mirror_job.commit_append

    def commit_twice(connection: Any, plan: WritePlan, *rest: Any, **options: Any) -> CommandResult:
        commit_append(connection, plan, *rest, **options)
        return commit_append(connection, replace(plan, command_id=new_command_id()), *rest, **options)

    monkeypatch.setattr(mirror_job, "commit_append", commit_twice)
    assert failures(mirror(topic, max_records=1)) == {}
    assert here(cluster, topic) == kafka.read(topic)
