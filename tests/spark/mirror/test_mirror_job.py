"""Topics of a real Kafka in topics here: each record once, at its offset, whatever happens to the topic there."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import (
    InvalidOption,
    NotFound,
    RequestTimedOut,
    SparklogError,
    UnknownTopicOrPartition,
)
from sparklog.core.lookup import topic_of
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.mirror.mirror_job import Source, run_mirror
from tests.spark.mirror.kafka_topics import KafkaRecord, KafkaTopics

Mirror = Callable[..., JobReport]


@pytest.fixture
def mirror(cluster: Cluster, kafka: KafkaTopics, kafka_spark: SparkSession) -> Mirror:
    """Run the job once for topics of Kafka."""

    def run(*topics: str, console: StringIO | None = None, dry_run: bool = False, **options: Any) -> JobReport:
        servers = {"bootstrap.servers": kafka.bootstrap, **options.pop("kafka", {})}
        source = Source(servers, topics, **options)
        return run_mirror(cluster.connection.url, source, lambda: kafka_spark, console=console, dry_run=dry_run)

    return run


def here(cluster: Cluster, topic: str, only: int | None = None) -> list[KafkaRecord]:
    """The records of a topic here, or of one partition, as Kafka's."""
    records = []
    for partition in range(len(cluster.describe(topic).partitions)) if only is None else [only]:
        rows = cluster.read(topic, partition=partition, include_headers=True)
        times = rows.column("timestamp").cast(pa.int64()).to_pylist()
        for row, at_us in zip(rows.drop_columns(["timestamp"]).to_pylist(), times, strict=True):
            headers = row["headers"] and [(each["key"], each["value"]) for each in row["headers"]]
            records.append(
                KafkaRecord(
                    row["partition"],
                    row["offset"],
                    row["key"],
                    row["value"],
                    at_us // 1000,
                    row["timestampType"],
                    headers,
                )
            )
    return records


def ends(cluster: Cluster, topic: str) -> list[int]:
    state = cluster.connection.newest_state()
    return [int(partition.next_offset) for partition in state.partitions_of(topic_of(state, topic))]


def some(number: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"key": b"k%d" % at, "value": b"v%d" % at, **more} for at in range(first, first + number)]


FAR_MS = 253_402_300_799_000  # the end of the year 9999
ODD: list[dict[str, Any]] = [
    {"key": None, "value": b"without a key"},
    {"key": b"tombstone", "value": None},
    {"key": None, "value": None},
    {"key": b"", "value": b"", "timestamp": 1},
    {"key": b"\xff\x00", "value": b"far", "timestamp": FAR_MS},
    {"key": b"headers", "value": b"v", "headers": [("a", b"1"), ("a", None), ("\u00e4\u4e2d", b""), ("", b"x")]},
]


@pytest.mark.sparks("mirror")
def test_every_record_is_here_at_its_offset_once(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    topic = kafka.create(2, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    for partition in (0, 1):
        kafka.write(topic, [{**each, "partition": partition} for each in ODD])
    kafka.write(topic, some(50, partition=0), transactional=True)
    kafka.abort(topic, some(30, partition=0))
    kafka.write(topic, some(50, first=50, partition=1), transactional=True)

    report = mirror(topic)

    wanted = kafka.read(topic)
    assert here(cluster, topic) == wanted
    assert report.done.records == len(wanted) == 2 * len(ODD) + 100
    assert (report.failed, report.exit_code) == (0, 0)
    kafka.write(topic, some(10, first=100, partition=0))
    assert mirror(topic).done.records == 10
    assert mirror(topic).done.records == 0
    assert here(cluster, topic) == kafka.read(topic)


def test_offsets_behind_the_last_record_are_covered(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    """A query on Kafka may stand behind the marker of the last transaction."""
    topic = kafka.create(1)
    kafka.write(topic, some(5), transactional=True)
    mirror(topic)
    assert ends(cluster, topic) == [6]
    kafka.abort(topic, some(3))
    mirror(topic)  # nothing to append
    assert ends(cluster, topic) == [6]
    kafka.write(topic, some(1))
    mirror(topic)
    assert ends(cluster, topic) == [11]
    assert here(cluster, topic) == kafka.read(topic)


def test_offsets_that_compaction_emptied_stay_empty(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
    topic = kafka.create(1, config)
    kafka.write(topic, [{"key": b"k%d" % (at % 7), "value": b"%d" % at, "timestamp": 10_000} for at in range(100)])
    kafka.write(topic, some(1, first=1_000, timestamp=20_000))  # of the next segment: only earlier ones are cleaned
    kafka.wait_until(topic, lambda records: len(records) < 20)
    kafka.write(topic, some(1, first=2_000))

    mirror(topic)

    wanted = kafka.read(topic)
    assert len(wanted) < 20 < wanted[-1].offset
    assert here(cluster, topic) == wanted
    assert cluster.describe(topic).config["cleanup.policy"].value == "compact"


def test_types_of_timestamps_that_change_are_kept(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    topic = kafka.create(1, {"message.timestamp.type": "LogAppendTime"})
    kafka.write(topic, some(5, timestamp=1_000))
    kafka.alter(topic, {"message.timestamp.type": "CreateTime"})
    kafka.write(topic, some(5, first=5, timestamp=2_000))
    kafka.alter(topic, {"message.timestamp.type": "LogAppendTime"})
    kafka.write(topic, some(5, first=10, timestamp=3_000))

    mirror(topic)

    wanted = kafka.read(topic)
    assert [each.timestamp_type for each in wanted] == [1] * 5 + [0] * 5 + [1] * 5
    assert here(cluster, topic) == wanted


def test_appends_have_at_most_so_many_records_of_a_partition(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(2)
    kafka.write(topic, [{**each, "partition": at % 2} for at, each in enumerate(some(100))])
    report = mirror(topic, max_records=20)
    assert report.done.records == 100
    assert report.done.objects == 2 * 3
    assert here(cluster, topic) == kafka.read(topic)


def test_partitions_that_kafka_adds_are_added(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(5, partition=0))
    mirror(topic)
    kafka.add_partitions(topic, 3)
    kafka.write(topic, some(5, partition=2))
    mirror(topic)
    assert ends(cluster, topic) == [5, 0, 5]
    assert here(cluster, topic) == kafka.read(topic)


def test_config_that_both_know_is_carried_over_and_the_rest_is_listed(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    own = {"retention.ms": "123456789", "max.message.bytes": "2000000", "min.insync.replicas": "1", "segment.ms": "9"}
    topic = kafka.create(3, {**own, "compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
    report = mirror(topic)
    described = cluster.describe(topic)
    assert len(described.partitions) == 3
    assert {key: value.value for key, value in described.config.items() if value.origin == "topic"} == {
        "cleanup.policy": "delete",
        "max.message.bytes": "2000000",
        "message.timestamp.type": "LogAppendTime",
        "retention.bytes": "-1",
        "retention.ms": "123456789",
    }
    assert [note.partition(" is not")[0] for note in report.notes] == [
        f"{topic}: compression.type=gzip",
        f"{topic}: min.insync.replicas=1",
        f"{topic}: segment.ms=9",
    ]


def test_names_and_a_pattern_choose_topics(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    one = kafka.create(1)
    two, three = (kafka.create(1, name=f"{one}.{name}") for name in ("a", "b"))
    for topic in (one, two, three):
        kafka.write(topic, some(3))
    mirror(pattern=f"{one}\\..")
    assert cluster.topics() == [two, three]
    with pytest.raises(NotFound, match="no topic in Kafka matches 'nothing'"):
        mirror(pattern="nothing")
    with pytest.raises(UnknownTopicOrPartition, match="Kafka: "):
        mirror("missing-topic")
    report = mirror("missing-topic", one)
    assert [row.place for row in report.partitions if row.outcome == "failed"] == ["missing-topic-0"]
    assert ends(cluster, one) == [3]
    with pytest.raises(InvalidOption, match="wanted --topic or --pattern"):
        mirror()
    with pytest.raises(InvalidOption, match="wanted a regular expression, found 'a\\['"):
        mirror(pattern="a[")


def test_a_dry_run_says_what_is_due_and_changes_nothing(mirror: Mirror, cluster: Cluster, kafka: KafkaTopics) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(5))
    console = StringIO()
    report = mirror(topic, dry_run=True, console=console)
    assert [row.reason for row in report.partitions] == ["offsets [0, 5) of Kafka"]
    assert cluster.topics() == []


def test_records_that_kafka_removed_before_they_were_copied_are_a_loss_unless_accepted(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(10))
    kafka.delete_records(topic, 0, 4)
    mirror(topic)  # the mirror begins where Kafka's log does
    assert [record.offset for record in here(cluster, topic)] == [*range(4, 10)]
    kafka.write(topic, some(10, first=10))
    kafka.delete_records(topic, 0, 15)
    report = mirror(topic)
    assert report.exit_code == 1
    assert "DATA_LOSS: " in report.partitions[0].messages[0]
    assert "offsets [10, 15)" in report.partitions[0].messages[0]
    assert ends(cluster, topic) == [10]
    assert mirror(topic, fail_on_data_loss=False).done.records == 5
    assert [record.offset for record in here(cluster, topic)] == [*range(4, 10), *range(15, 20)]


def test_a_topic_that_was_created_again_in_kafka_is_another_topic(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(1)
    kafka.write(topic, some(3))
    mirror(topic)
    kafka.delete(topic)
    kafka.create_again(topic)
    kafka.write(topic, some(9, first=100))
    report = mirror(topic)
    assert report.exit_code == 1
    assert "INCONSISTENT_TOPIC_ID: " in report.partitions[0].messages[0]
    assert ends(cluster, topic) == [3]


def test_topics_that_are_no_mirrors_or_not_any_more_are_left_alone(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    own, promoted, fine = (kafka.create(1) for _ in range(3))
    for topic in (own, promoted, fine):
        kafka.write(topic, some(3))
    cluster.create_topic(own, partitions=1)
    cluster.append(own, pa.table({"value": [b"ours"]}))
    mirror(promoted)
    cluster.promote_topic(promoted)
    kafka.write(promoted, some(3, first=3))
    report = mirror(own, promoted, fine)
    failed = {row.topic: row.messages for row in report.partitions if row.outcome == "failed"}
    assert set(failed) == {own, promoted}
    assert all("POLICY_VIOLATION: " in messages[0] for messages in failed.values())
    assert (ends(cluster, own), ends(cluster, promoted), ends(cluster, fine)) == ([1], [3], [3])


def test_a_record_that_is_too_large_here_stops_its_partition_alone(
    mirror: Mirror, cluster: Cluster, kafka: KafkaTopics
) -> None:
    topic = kafka.create(2)
    mirror(topic)
    cluster.alter(topic, config={"max.message.bytes": 1_000})
    kafka.write(topic, [{"value": b"small", "partition": 0}, {"value": b"x" * 5_000, "partition": 1}])
    report = mirror(topic)
    assert ends(cluster, topic) == [1, 0]
    (failed,) = [row for row in report.partitions if row.outcome == "failed"]
    assert failed.partition == 1
    assert "RECORD_TOO_LARGE: " in failed.messages[0]
    cluster.alter(topic, config={"max.message.bytes": 10_000})
    assert mirror(topic).done.records == 1


def test_a_source_shows_no_secrets() -> None:
    source = Source({"bootstrap.servers": "kafka:9092", "sasl.jaas.config": "s3cret"}, ("orders",), "sales.*")
    assert f"{source} {source!r}".count("Source(kafka:9092, ('orders',), 'sales.*')") == 2


@pytest.mark.parametrize(
    ("more", "kind", "text"),
    [
        ({"bootstrap.servers": "127.0.0.1:1"}, RequestTimedOut, "Kafka: "),
        ({"bootstrap.servers": "no address"}, SparklogError, "Kafka: "),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="u" password="s3cret";',
            },
            SparklogError,
            "Kafka: ILLEGAL_SASL_STATE",
        ),
        ({"acks": "s3cret", "security.protocol": "s3cret"}, SparklogError, "Kafka: "),
    ],
)
def test_a_kafka_that_does_not_answer_or_refuses_is_an_error_without_secrets(
    mirror: Mirror, kafka: KafkaTopics, more: dict[str, str], kind: type[SparklogError], text: str
) -> None:
    console = StringIO()
    quick = {"default.api.timeout.ms": "2000", "request.timeout.ms": "1000"}
    with pytest.raises(kind, match=text) as error:
        mirror("orders", console=console, kafka={**quick, **more})
    if "sasl.jaas.config" in more:
        assert "s3cret" not in str(error.value) + console.getvalue()
