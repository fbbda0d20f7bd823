"""Streams in Spark itself: what it asks of reader and writer, in which order, and what a restart replays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from sparklog.client.cluster import Cluster
from tests.spark.conftest import PROJECT
from tests.spark.stream.driven_stream import send

pytestmark = pytest.mark.spark

Stream = Callable[..., DataFrame]
Sink = Callable[..., StreamingQuery]


@pytest.fixture
def stream(spark: SparkSession, cluster: Cluster) -> Stream:
    """stream(option=value, …) -> the streaming DataFrame of topic "in", from earliest on."""

    def dataframe(**options: object) -> DataFrame:
        reader = spark.readStream.format("sparklog").option("cluster", cluster.connection.url)
        given = {"subscribe": "in", "startingOffsets": "earliest", **options}
        return reader.options(**{name: str(value) for name, value in given.items()}).load()

    return dataframe


@pytest.fixture
def sink(cluster: Cluster, tmp_path: Path) -> Sink:
    """sink(df, option=value, …) -> the query that wrote everything there was, ended."""

    def run(df: DataFrame, **options: object) -> StreamingQuery:
        writer = df.writeStream.format("sparklog").option("cluster", cluster.connection.url)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        for name, value in options.items():
            writer = writer.option(name, str(value))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return run


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    return cluster.read(topic, partition=partition, columns=["value"])["value"].to_pylist()


def rows_of(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def _offsets(progress: Any, which: str) -> dict[str, dict[str, int]]:
    found = progress["sources"][0][which]  # before Spark 4.2 it is a dict of Python, as text; on 3.5 that dict
    at = json.loads(found.replace("'", '"')) if isinstance(found, str) else found
    offsets: dict[str, dict[str, int]] = at["offsets"]
    return offsets


def uploads(cluster: Cluster) -> set[Path]:
    return set((Path(cluster.connection.url.removeprefix("file://")) / "append").rglob("*.arrow"))


# M: I-02, I-04
@pytest.mark.sparks("limits", since="4.2")
@pytest.mark.sparks("once", since="4.2")
def test_a_stream_goes_through_two_topics_exactly_once_over_a_restart_and_a_replay(
    spark: SparkSession, cluster: Cluster, stream: Stream, sink: Sink, tmp_path: Path
) -> None:
    for topic in ("in", "even", "odd"):
        cluster.create_topic(topic, partitions=2 if topic == "in" else 1)
    send(cluster, "in", 0, 30)
    send(cluster, "in", 1, 10)
    number = f.col("value").cast("string").cast("int")
    parted = stream(maxOffsetsPerTrigger=20).select(
        "value", f.when(number % 2 == 0, "even").otherwise("odd").alias("topic")
    )
    first = sink(parted)
    assert rows_of(first) == [20, 20]
    assert [progress["sink"]["numOutputRows"] for progress in first.recentProgress] == [20, 20]
    assert _offsets(first.recentProgress[0], "latestOffset") == {"in": {"0": 30, "1": 10}}
    wanted = {
        topic: sorted(str(n).encode() for size in (30, 10) for n in range(begin, size, 2))
        for topic, begin in (("even", 0), ("odd", 1))
    }
    assert {topic: sorted(values(cluster, topic)) for topic in wanted} == wanted
    entries = {result.n for _, result in _writes(cluster, first.id)}
    assert len(entries) == 1, "one entry per micro-batch, the last one is remembered"

    # Spark forgets that the last micro-batch was done: it comes again, and adds and uploads nothing.
    before = uploads(cluster)
    for commit in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        commit.unlink()
    again = sink(parted)
    assert rows_of(again) == [20]
    assert {topic: sorted(values(cluster, topic)) for topic in wanted} == wanted
    assert uploads(cluster) == before
    assert again.id == first.id

    send(cluster, "in", 1, 2)
    later = sink(parted)
    assert rows_of(later) == [2]
    assert values(cluster, "even")[-1] == b"10"
    assert values(cluster, "odd")[-1] == b"11"
    assert _runs(cluster, first.id) == [str(later.runId), str(first.runId)]

    # The checkpoint comes from a backup that lacks the last micro-batch: planned again, it has other records.
    for folder in ("offsets", "commits"):
        for file in (tmp_path / "checkpoint" / folder).glob("*2*"):
            file.unlink()
    send(cluster, "in", 1, 5)
    with pytest.raises(StreamingQueryException, match=r"OUT_OF_ORDER_SEQUENCE_NUMBER: version 2 .* something else now"):
        sink(parted)
    assert values(cluster, "even")[-1] == b"10"


def _writes(cluster: Cluster, query_id: object) -> list[tuple[str, Any]]:
    state = cluster.connection.follower.catch_up().state
    return [(app_id, known.result) for app_id, known in state.applications.items() if app_id == str(query_id)]


def _runs(cluster: Cluster, query_id: object) -> list[str]:
    return list(cluster.connection.follower.catch_up().state.applications[str(query_id)].runs)


@pytest.mark.sparks("stream")
def test_a_running_query_sees_new_partitions_and_all_columns_are_exact(
    spark: SparkSession, cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    cluster.create_topic("in", partitions=1)
    send(cluster, "in", 0, 3)
    seen: list[tuple[int, list[tuple[int, int]]]] = []

    def keep(df: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, sorted((row["partition"], row["offset"]) for row in df.collect())))

    query = stream(includeHeaders="true").writeStream.foreachBatch(keep).start()
    try:
        query.processAllAvailable()
        cluster.add_partitions("in", 2)
        send(cluster, "in", 1, 2)
        query.processAllAvailable()
        assert [rows for _, rows in seen if rows] == [[(0, 0), (0, 1), (0, 2)], [(1, 0), (1, 1)]]
        assert sum(progress["numInputRows"] for progress in query.recentProgress) == 5
        assert query.lastProgress is not None
        assert _offsets(query.lastProgress, "endOffset") == {"in": {"0": 3, "1": 2}}
    finally:
        query.stop()


@pytest.mark.campaign
def test_output_mode_complete_appends_all_rows_and_update_those_that_changed(
    cluster: Cluster, stream: Stream, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """The connector's cases with an aggregation: how many records each partition has. Update needs the JAR."""
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=2)
    for partition, count in ((0, 3), (1, 3)):
        send(cluster, "in", partition, count)

    def run(mode: str) -> StreamingQuery:
        counts = stream().groupBy("partition").count().selectExpr("cast(count as string) as value")
        query = counts.writeStream.format("sparklog").option("cluster", cluster.connection.url).option("topic", "out")
        query = query.option("checkpointLocation", str(tmp_path / mode)).outputMode(mode)
        started = query.trigger(availableNow=True).start()
        started.awaitTermination()
        return started

    first = run("complete")
    assert sum(progress["sink"]["numOutputRows"] for progress in first.recentProgress) == 2
    send(cluster, "in", 0, 2)
    run("complete")
    counted = [b"3", b"3", b"3", b"5"]
    assert sorted(values(cluster, "out", 0) + values(cluster, "out", 1)) == counted
    if not pytestconfig.getoption("--columns"):
        with pytest.raises(StreamingQueryException, match="sparklog does not support Update mode"):
            run("update")
        return
    run("update")
    send(cluster, "in", 1, 1)
    run("update")
    assert sorted(values(cluster, "out", 0) + values(cluster, "out", 1)) == sorted([*counted, b"5", b"3", b"4"])


@pytest.mark.campaign
def test_a_union_a_join_and_a_watermark_read_each_record_once_for_each_side(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    for topic in ("in", "quiet", "union", "joined", "counted"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 3)
    send(cluster, "quiet", 0, 1)
    source, quiet = stream(), stream(subscribe="quiet")
    windows = source.withWatermark("timestamp", "10 seconds").groupBy(f.window("timestamp", "100000 days")).count()
    dataframes = {
        "union": source.select("value").union(quiet.select("value")),
        "joined": source.alias("a").join(source.alias("b"), f.expr("a.offset = b.offset")).select("a.value"),
        "counted": windows.selectExpr("cast(count as string) as value"),
    }

    def run(topic: str) -> list[int]:
        query = dataframes[topic].writeStream.format("sparklog").option("cluster", cluster.connection.url)
        query = query.option("topic", topic).option("checkpointLocation", str(tmp_path / topic))
        query = query.outputMode("complete" if topic == "counted" else "append")
        started = query.trigger(availableNow=True).start()
        started.awaitTermination()
        return rows_of(started)

    assert [run(topic) for topic in dataframes] == [[4], [6], [3]]
    assert sorted(values(cluster, "union")) == [b"0", b"0", b"1", b"2"]
    assert sorted(values(cluster, "joined")) == [b"0", b"1", b"2"]
    send(cluster, "in", 0, 2)
    assert [run(topic) for topic in dataframes] == [[2], [4], [2]]
    assert sorted(values(cluster, "union")) == [b"0", b"0", b"1", b"2", b"3", b"4"]
    assert sorted(values(cluster, "joined")) == [b"0", b"1", b"2", b"3", b"4"]
    assert values(cluster, "counted")[-1] == b"5"


@pytest.mark.sparks("foreach_batch")
def test_the_page_of_streams(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    page = (PROJECT / "docs" / "streams.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    topics = ("shouted", "shouted-by-group", "shouted-by-hand")
    for topic in ("orders", *topics):
        cluster.create_topic(topic, partitions=1)
    cluster.append("orders", pa.table({"value": ["a", "b"]}))
    script = "".join(snippets).replace("file:///tmp/demo", cluster.connection.url).replace("/tmp/demo-", f"{tmp_path}/")
    exec(script, {"spark": spark})
    assert [values(cluster, topic) for topic in topics] == [[b"A", b"B"]] * 3
    assert cluster.groups() == ["shouting", "shouting-by-hand"]
    applications = cluster.connection.follower.catch_up().state.applications.values()
    digests = [known.result.application.made_of for known in applications if known.result.application is not None]
    assert len(set(digests) - {""}) == 3, "each query says what its last micro-batch was made of"
    assert cluster.describe_group("shouting").lag == cluster.describe_group("shouting-by-hand").lag == 0
    checkpoint = (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    shown = re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0]
    assert list(json.loads(checkpoint)) == list(json.loads(shown))


@pytest.mark.sparks("wrong")
def test_mistakes_are_found_before_anything_runs(stream: Stream, sink: Sink, cluster: Cluster) -> None:
    cluster.create_topic("in", partitions=1)
    with pytest.raises(AnalysisException, match="maxOffsetsPerTrigger: wanted an integer >= 1, found '-1'"):
        stream(maxOffsetsPerTrigger=-1)
    with pytest.raises(StreamingQueryException, match="INVALID_OPTION: txnAppId: a micro-batch is identified by"):
        sink(stream(), topic="in", txnAppId="a")
    with pytest.raises(StreamingQueryException, match="UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'out'"):
        sink(stream(), topic="out")
