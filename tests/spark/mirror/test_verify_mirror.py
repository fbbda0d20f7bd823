"""A mirror topic is compared with Kafka, record by record; the first difference is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.lookup import topic_of
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.mirror import verify_mirror
from sparklog.spark.mirror.mirror_job import Source
from sparklog.spark.mirror.verify_mirror import run_verify_mirror
from tests.spark.mirror.kafka_topics import KafkaTopics
from tests.spark.mirror.test_mirror_job import Mirror, some
from tests.spark.mirror.test_mirror_job import mirror as mirror

Verify = Callable[..., JobReport]


@pytest.fixture
def verify(kafka: KafkaTopics, kafka_spark: SparkSession) -> Verify:
    def run(cluster: Cluster, *topics: str) -> JobReport:
        source = Source({"bootstrap.servers": kafka.bootstrap}, topics)
        return run_verify_mirror(cluster.connection.url, source, lambda: kafka_spark)

    return run


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Cluster]:
    """A second cluster, whose mirrors are written by hand."""
    url = f"file://{tmp_path}/other"
    init_cluster(url)
    with sparklog.connect(url) as connected:
        yield connected


def rows_of(cluster: Cluster, topic: str) -> pa.Table:
    return cluster.read(topic, partition=0, include_headers=True)


def test_an_equal_copy_is_equal_also_in_several_ranges(
    mirror: Mirror, verify: Verify, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(2)
    for first in (0, 40):
        kafka.write(topic, [{**each, "partition": at % 2} for at, each in enumerate(some(40, first))], True)
        kafka.abort(topic, some(5, partition=0))
    mirror(topic)
    kafka.write(topic, some(10, partition=1))  # not mirrored yet: not compared
    monkeypatch.setattr(verify_mirror, "OFFSETS_OF_TASK", 7)
    report = verify(cluster, topic)
    assert (report.failed, report.done.records) == (0, 80)
    assert report.done.objects > 10
    assert report.notes[-1] == "no difference in 80 records of 2 partitions"


def changed_value(rows: pa.Table) -> pa.Table:
    values = rows.column("value").to_pylist()
    values[3] = b"other"
    return rows.set_column(rows.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))


def changed_time(rows: pa.Table) -> pa.Table:
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    times[4] += 1_000
    at = rows.schema.get_field_index("timestamp")
    return rows.set_column(at, "timestamp", pa.array(times).cast(rows.schema.field(at).type))


def moved(rows: pa.Table) -> pa.Table:
    """Record 5 stands at the offset of record 6, and the reverse."""
    order = [0, 1, 2, 3, 4, 6, 5, 7, 8, 9]
    at = rows.schema.get_field_index("offset")
    return rows.take(order).set_column(at, "offset", rows.column("offset"))


def doubled(rows: pa.Table) -> pa.Table:
    """Record 2 is there a second time, at the end, where Kafka has the last one."""
    at = rows.schema.get_field_index("offset")
    return pa.concat_tables([rows.slice(0, 9), rows.slice(2, 1)]).set_column(at, "offset", rows.column("offset"))


@pytest.mark.sparks("mirror")
@pytest.mark.parametrize(
    ("change", "first"),
    [
        (
            changed_value,
            "0 only in Kafka, 0 only here, 1 changed; the first difference is at offset 3: its value differs",
        ),
        (changed_time, "1 changed; the first difference is at offset 4: its timestamp differs"),
        (moved, "2 changed; the first difference is at offset 5: its key differs"),
        (doubled, "1 changed; the first difference is at offset 9: its key differs"),
        (
            lambda rows: pa.concat_tables([rows.slice(0, 6), rows.slice(7)]),
            "10 records in Kafka, 9 here, 1 only in Kafka, 0 only here, 0 changed; the first difference is at offset "
            "6: only in Kafka",
        ),
    ],
)
def test_a_difference_is_found_and_named(
    change: Callable[[pa.Table], pa.Table],
    first: str,
    mirror: Mirror,
    verify: Verify,
    cluster: Cluster,
    other: Cluster,
    kafka: KafkaTopics,
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(10))
    mirror(topic)
    state = cluster.connection.newest_state()
    other.create_topic(topic, partitions=1, mirror_of=topic_of(state, topic).mirror_of)
    other.append(topic, change(rows_of(cluster, topic)), keep_offsets=True)
    report = verify(other, topic)
    assert report.exit_code == 1
    assert first in report.partitions[0].messages[0]
    assert verify(cluster, topic).exit_code == 0


def test_of_a_compacted_topic_only_changes_are_differences(
    mirror: Mirror, verify: Verify, cluster: Cluster, other: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(1, {"cleanup.policy": "compact"})
    kafka.write(topic, some(10))
    mirror(topic)
    mirror_of = topic_of(cluster.connection.newest_state(), topic).mirror_of
    fewer = pa.concat_tables([rows_of(cluster, topic).slice(0, 2), rows_of(cluster, topic).slice(3)])
    other.create_topic(topic, partitions=1, mirror_of=mirror_of)
    other.append(topic, fewer, keep_offsets=True)
    assert verify(other, topic).exit_code == 0
    other.delete_topic(topic)
    other.create_topic(topic, partitions=1, mirror_of=mirror_of)
    other.append(topic, changed_value(fewer), keep_offsets=True)
    (row,) = verify(other, topic).partitions
    assert "1 only in Kafka, 0 only here, 1 changed; the first change is at offset 4: its value" in row.messages[0]


def test_records_behind_the_end_of_kafka_are_a_difference(
    mirror: Mirror, verify: Verify, cluster: Cluster, other: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(5))
    mirror(topic)
    rows = rows_of(cluster, topic)
    at = rows.schema.get_field_index("offset")
    extra = rows.slice(0, 1).set_column(at, "offset", pa.array([7]))
    state = cluster.connection.newest_state()
    other.create_topic(topic, partitions=1, mirror_of=topic_of(state, topic).mirror_of)
    other.append(topic, pa.concat_tables([rows, extra]), keep_offsets=True)
    report = verify(other, topic)
    assert report.exit_code == 1
    assert "OFFSET_OUT_OF_RANGE: " in report.partitions[0].messages[0]
    assert "next offset 8, found 5" in report.partitions[0].messages[0]


def test_a_partition_that_can_not_be_compared_stops_no_other(
    mirror: Mirror, verify: Verify, cluster: Cluster, kafka: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create(2)
    for partition in (0, 1):
        kafka.write(topic, some(5, partition=partition))
    mirror(topic)
    run_tasks = verify_mirror.run_tasks

    def run(*arguments: Any) -> Any:
        kafka.delete_records(topic, 0, 3)
        return run_tasks(*arguments)

    monkeypatch.setattr(verify_mirror, "run_tasks", run)
    report = verify(cluster, topic)
    assert [row.outcome for row in report.partitions] == ["failed", "done"]
    assert "OFFSET_OUT_OF_RANGE: " in report.partitions[0].messages[0]


def test_a_record_that_kafka_does_not_have_is_a_difference(
    mirror: Mirror, verify: Verify, cluster: Cluster, other: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(5))
    kafka.abort(topic, some(3))
    kafka.write(topic, some(5))
    mirror(topic)
    rows = rows_of(cluster, topic)
    at = rows.schema.get_field_index("offset")
    extra = rows.slice(0, 1).set_column(at, "offset", pa.array([7]))
    state = cluster.connection.newest_state()
    other.create_topic(topic, partitions=1, mirror_of=topic_of(state, topic).mirror_of)
    other.append(topic, pa.concat_tables([rows, extra]).sort_by("offset"), keep_offsets=True)
    assert "offset 7: only here" in verify(other, topic).partitions[0].messages[0]
    assert verify(cluster, topic).exit_code == 0
