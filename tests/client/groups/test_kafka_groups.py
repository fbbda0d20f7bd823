"""Committed offsets of groups in Kafka are taken over for mirror topics: what Kafka committed, never more."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import sparklog
from sparklog.cli.main import run
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.groups.kafka_groups import (
    ImportedOffset,
    KafkaGroups,
    import_commands,
    planned_import,
)
from sparklog.client.groups.offsets import committed
from sparklog.core.errors import GroupIdNotFound, InvalidOption, NonEmptyGroup, SparklogError
from sparklog.core.types import KafkaTopic
from tests.servers.kafka_broker import KafkaBroker
from tests.servers.made_once import CannotFetch
from tests.spark.mirror.kafka_topics import client_config

GROUP = "billing"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic t mirrors that of cluster k, and has 100 records in partition 0; topic own is not mirrored."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with sparklog.connect(url) as connected:
        connected.create_topic("t", partitions=2, mirror_of=KafkaTopic("k", "t", "id"))
        connected.create_topic("own", partitions=1)
        append(connected, range(100))
        yield connected


def append(cluster: Cluster, offsets: range) -> None:
    rows = {"partition": [0] * len(offsets), "offset": [*offsets], "value": [b"v"] * len(offsets)}
    cluster.append("t", pa.table(rows), keep_offsets=True)


def planned(cluster: Cluster, *topics: str, back: bool = False, **offsets: int) -> list[ImportedOffset]:
    """The plan for offsets such as t_0=7."""
    places = {(name[:-2], int(name[-1])): offset for name, offset in offsets.items()}
    return planned_import(cluster.connection.newest_state(), "k", GROUP, places, topics, back=back)


def take(cluster: Cluster, rows: list[ImportedOffset]) -> dict[tuple[str, int], int]:
    """Import the rows. Returns what is committed here."""
    for command in import_commands(cluster.connection.newest_state(), rows):
        cluster.submit(command)
    return {place: row.offset for place, row in committed(cluster.connection.newest_state(), GROUP).items()}


def test_offsets_are_taken_over_again_and_again(cluster: Cluster) -> None:
    assert take(cluster, planned(cluster, t_0=7, t_1=0)) == {("t", 0): 7, ("t", 1): 0}
    assert take(cluster, planned(cluster, t_0=9)) == {("t", 0): 9, ("t", 1): 0}
    (row,) = planned(cluster, t_0=9)
    assert (row.before, row.after) == (9, None)


def test_an_offset_beyond_the_mirror_is_its_end_until_it_has_caught_up(cluster: Cluster) -> None:
    rows = planned(cluster, t_0=150)
    assert [(row.after, row.note) for row in rows] == [
        (100, "beyond the end of the mirror: import again after its next run")
    ]
    assert take(cluster, rows) == {("t", 0): 100}
    append(cluster, range(100, 160))
    assert take(cluster, planned(cluster, t_0=150)) == {("t", 0): 150}


def test_an_offset_that_goes_back_is_left_unless_it_is_wanted(cluster: Cluster) -> None:
    take(cluster, planned(cluster, t_0=50))
    (row,) = planned(cluster, t_0=40)
    assert (row.after, row.note) == (None, "kept: the group is further ahead here (--back takes Kafka's offset)")
    assert take(cluster, planned(cluster, t_0=40, back=True)) == {("t", 0): 40}


def test_an_offset_below_the_log_start_is_the_log_start(cluster: Cluster) -> None:
    cluster.delete_records("t", {0: 20})
    (row,) = planned(cluster, t_0=5)
    assert (row.after, row.note) == (20, "the log starts later")


def test_only_topics_that_mirror_this_kafka_or_did_are_taken(cluster: Cluster) -> None:
    cluster.create_topic("u", partitions=1, mirror_of=KafkaTopic("other", "u", "id"))
    rows = planned(cluster, t_0=1, t_5=1, own_0=0, u_0=0, x_0=0)
    assert {(row.topic, row.partition): row.note for row in rows if row.after is None} == {
        ("own", 0): "no mirror of a Kafka topic",
        ("t", 5): "no such partition here: mirror it first",
        ("u", 0): "mirrors Kafka cluster other, this is k",
        ("x", 0): "no such topic here: mirror it first",
    }
    assert planned(cluster, "own", t_0=1)[0].note == "not asked for"
    cluster.promote_topic("t")
    assert planned(cluster, t_0=1)[0].after == 1


def test_a_group_with_members_here_is_refused(cluster: Cluster) -> None:
    with cluster.join_group(GROUP, ["t"]), pytest.raises(NonEmptyGroup):
        planned(cluster, t_0=1)


# ---- a real Kafka -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    try:
        with KafkaBroker(tmp_path_factory.mktemp("kafka"), settings={"offsets.topic.num.partitions": "1"}) as started:
            yield started
    except CannotFetch as error:
        pytest.skip(f"Kafka: {error}")


def commit(broker: KafkaBroker, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit in Kafka, as a consumer would. A broker that has just started is no coordinator yet."""
    consumer = Consumer({**client_config(broker.bootstrap), "group.id": group})
    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    until = time.monotonic() + 60
    while True:
        with suppress(KafkaException):
            consumer.commit(offsets=places, asynchronous=False)
            break
        assert time.monotonic() < until
        time.sleep(0.2)
    consumer.close()


def test_groups_are_imported_by_the_command_line(
    broker: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(client_config(broker.bootstrap))
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    kafka = KafkaGroups({"bootstrap.servers": broker.bootstrap})
    url = f"file://{tmp_path}/cluster"
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic(topic, partitions=2, mirror_of=KafkaTopic(kafka.cluster_id(), topic, "id"))
        rows = {"partition": [0] * 9, "offset": [*range(9)], "value": [b"v"] * 9}
        cluster.append(topic, pa.table(rows), keep_offsets=True)
        commit(broker, GROUP, {(topic, 0): 5, (topic, 1): 0})
        commit(broker, "audit", {(topic, 0): 2})
        words = ["--cluster", url, "group", "import", "--from-kafka", broker.bootstrap, "--format", "json"]

        assert run([*words, GROUP]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert [(row["partition"], row["kafka"], row["before"], row["after"]) for row in plan["rows"]] == [
            (0, 5, None, 5),
            (1, 0, None, 0),
        ]
        assert cluster.connection.newest_state().groups == {}
        with cluster.join_group("audit", [topic]):
            assert run([*words, "--all"]) == 0
            shown = json.loads(capsys.readouterr().out)
            assert (shown["active"], {row["group"] for row in shown["rows"]}) == (["audit"], {GROUP})
            assert run([*words, "audit"]) == NonEmptyGroup.exit_code
        capsys.readouterr()
        assert run([*words, "--all", "--execute"]) == 0
        state = cluster.connection.newest_state()
        assert {place: row.offset for place, row in committed(state, GROUP).items()} == {(topic, 0): 5, (topic, 1): 0}
        assert {place: row.offset for place, row in committed(state, "audit").items()} == {(topic, 0): 2}


def test_a_group_that_kafka_does_not_know_and_wrong_settings_are_errors(broker: KafkaBroker) -> None:
    kafka = KafkaGroups({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(GroupIdNotFound, match="Kafka has no group nobody"):
        kafka.offsets(["nobody"])
    with pytest.raises(InvalidOption, match="wanted settings of librdkafka"):
        KafkaGroups({"bootstrap.servers": broker.bootstrap, "sasl.passwort": "s3cret"})


def test_a_kafka_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparklog.client.groups.kafka_groups.TIMEOUT_S", 1.0)
    with pytest.raises(SparklogError, match="Kafka: "):
        KafkaGroups({"bootstrap.servers": "127.0.0.1:1"}).cluster_id()
