"""What a query that comes from Spark's Kafka connector meets: the rows of docs/migrate-from-kafka.md on streams."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from sparklog.client.cluster import Cluster
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_streams import Sink, Stream, rows_of, sink, stream, values

__all__ = ["sink", "stream"]

pytestmark = pytest.mark.spark

_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.python"


def test_a_write_creates_no_topic_and_says_how(
    spark: SparkSession, cluster: Cluster, stream: Stream, sink: Sink
) -> None:
    cluster.create_topic("in", partitions=1)
    send(cluster, "in", 0, 1)
    advice = "no write creates a topic: sparklog topic create elsewhere"
    with pytest.raises(StreamingQueryException, match=advice):
        sink(stream(), topic="elsewhere")
    batch = spark.sql("SELECT 'a' AS value").write.format("sparklog").option("cluster", cluster.connection.url)
    with pytest.raises(AnalysisException, match=advice):
        batch.option("topic", "elsewhere").mode("append").save()
    assert cluster.topics() == ["in"]


def test_a_listener_sees_rows_offsets_and_descriptions(
    spark: SparkSession, cluster: Cluster, stream: Stream, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 3)
    seen: list[tuple[str, Any]] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
            seen.append(("started", event.name))

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            seen.append(("progress", event.progress))

        def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
            seen.append(("idle", None))

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
            seen.append(("terminated", event.exception))

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        writer = stream().select("value").writeStream.format("sparklog").option("cluster", cluster.connection.url)
        writer = writer.option("topic", "out").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.queryName("copy").trigger(availableNow=True).start().awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
    finally:
        spark.streams.removeListener(listener)
    assert [what for what, _ in seen] == ["started", "progress", "terminated"]
    assert (seen[0][1], seen[-1][1]) == ("copy", None)
    progress = seen[1][1]
    (source,) = progress.sources
    assert (progress.numInputRows, progress.sink.numOutputRows) == (3, 3)
    for offsets in (source.endOffset, source.latestOffset):
        assert json.loads(offsets)["offsets"] == {"in": {"0": 3}}
    assert progress.sink.metrics == {}
    if pytestconfig.getoption("--columns"):
        assert "maxOffsetsBehindLatest" in source.metrics, "Java has Spark's metrics of a Kafka source"
        assert source.description == "Sparklog[Subscribe[in]]"
    else:
        assert source.metrics == {}
        assert source.description.startswith(f"{_PACKAGE}.PythonMicroBatchStream")
    assert progress.sink.description.startswith(f"{_PACKAGE}.PythonTable")


def test_a_small_micro_batch_is_one_task_unless_options_split_it(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    cluster.create_topic("in", partitions=4)
    for partition in range(4):
        send(cluster, "in", partition, 10)

    def tasks(**options: int) -> list[int]:
        counts: list[int] = []

        def count(batch: DataFrame, batch_id: int) -> None:
            counts.append(batch.rdd.getNumPartitions())

        query = stream(**options).writeStream.foreachBatch(count).option("checkpointLocation", mkdtemp(dir=tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()
        return counts

    assert tasks() == [1]
    assert tasks(minPartitions=4) == [4]
    assert tasks(minPartitions=8) == [8]
    assert tasks(maxRecordsPerPartition=5) == [8]


def test_a_run_begins_without_waiting_for_the_least_number_of_offsets(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    cluster.create_topic("in", partitions=1)
    for _ in range(2):
        send(cluster, "in", 0, 3)
        writer = stream(minOffsetsPerTrigger=100).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
            assert rows_of(query) == [3]
        finally:
            query.stop()


def test_a_query_goes_on_without_a_topic_that_is_deleted_while_it_runs(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    for topic in ("in", "out", "gone"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 1)
    send(cluster, "gone", 0, 2)
    rows = stream(subscribe="in,gone", failOnDataLoss="false").selectExpr("topic || offset AS value")
    writer = rows.writeStream.format("sparklog").option("cluster", cluster.connection.url).option("topic", "out")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        cluster.delete_topic("gone")
        send(cluster, "in", 0, 1)
        query.processAllAvailable()
        assert sorted(values(cluster, "out")) == [b"gone0", b"gone1", b"in0", b"in1"]
        cluster.create_topic("gone", partitions=1)
        send(cluster, "gone", 0, 1)
        query.processAllAvailable()
        assert sorted(values(cluster, "out")) == [b"gone0", b"gone0", b"gone1", b"in0", b"in1"]
        assert query.isActive
    finally:
        query.stop()


def test_spark_has_no_continuous_trigger_for_sources_in_python(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    cluster.create_topic("in", partitions=1)
    writer = stream().writeStream.format("console").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="sparklog does not support continuous processing"):
        writer.trigger(continuous="1 second").start()
