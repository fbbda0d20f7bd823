"""Whoever writes records that retention takes at once is warned: one time for each topic, on every way of writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.host.clock import now_ms
from tests.kit.log import new_cluster

DAY_MS = 86_400_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with new_cluster() as made:
        for name in ("t", "u"):
            made.create_topic(name, partitions=2, config={"retention.ms": 7 * DAY_MS})
        yield made


def append(cluster: Cluster, topic: str, at_ms: int) -> None:
    times = pa.array([at_ms * 1000] * 2, pa.timestamp("us", tz="UTC"))
    cluster.append(topic, pa.table({"value": [b"a", b"b"], "timestamp": times}))


def send(cluster: Cluster, topic: str, at_ms: int) -> None:
    with cluster.producer() as producer:
        for _ in range(2):
            producer.send(topic, "a", timestamp_ms=at_ms, partition=0)


def send_in_transaction(cluster: Cluster, topic: str, at_ms: int) -> None:
    with cluster.producer() as producer, producer.transaction() as transaction:
        for _ in range(2):
            transaction.send(topic, "a", timestamp_ms=at_ms, partition=0)


@pytest.mark.parametrize("write", [append, send, send_in_transaction])
def test_seconds_for_milliseconds_are_warned_of_once_for_each_topic(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, write: Callable[[Cluster, str, int], None]
) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if "retention" in record.getMessage()]

    write(cluster, "t", now_ms())
    assert warnings() == []
    write(cluster, "t", now_ms() // 1000)
    write(cluster, "t", now_ms() // 1000)
    (warning,) = warnings()
    assert warning.startswith("topic t has retention.ms=604800000 (7 days), and 2 records just written are older: ")
    assert warning.endswith("were seconds given for milliseconds?")
    write(cluster, "u", now_ms() - 8 * DAY_MS)
    assert warnings()[1:] == [warning.replace("topic t", "topic u").partition("; the newest")[0]]
    assert cluster.read("t", partition=0).num_rows + cluster.read("t", partition=1).num_rows == 6, "all were written"


@pytest.mark.parametrize("config", [{"message.timestamp.type": "LogAppendTime"}, {"cleanup.policy": "compact"}])
def test_a_topic_that_does_not_go_by_these_times_causes_no_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, config: dict[str, str]
) -> None:
    cluster.create_topic("v", partitions=1, config={"retention.ms": DAY_MS, **config})
    times = pa.array([1_000_000], pa.timestamp("us", tz="UTC"))
    cluster.append("v", pa.table({"key": [b"k"], "value": [b"a"], "timestamp": times}))
    assert "retention" not in caplog.text


def test_a_slice_stays_as_long_as_its_newest_record(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    times = pa.array([1_000_000, now_ms() * 1000], pa.timestamp("us", tz="UTC"))
    rows = {"value": [b"old", b"new"], "timestamp": times, "partition": pa.array([0, 0], pa.int32())}
    cluster.append("t", pa.table(rows))
    assert "retention" not in caplog.text
