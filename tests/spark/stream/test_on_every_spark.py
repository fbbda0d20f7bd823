"""Streams on every Spark. 4.0 and 4.1 say neither where a micro-batch begins nor which trigger the query has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sparklog.client.cluster import Cluster
from sparklog.core.reading.stream_positions import from_json
from sparklog.options.streams import parse_stream_read_options
from sparklog.spark.read.stream_reader import StreamReader
from sparklog.spark.schema import records_schema
from tests.spark.stream.agreement import entries_that_agree
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_consumed import GROUP, NUMBERS, consumed, filled, shouted
from tests.spark.stream.test_streams import Sink, Stream, rows_of, sink, stream, uploads, values

__all__ = ["filled", "sink", "stream"]


@pytest.mark.spark
@pytest.mark.sparks("limits", since="4.0", before="4.2")
def test_a_run_for_what_is_available_ends_after_one_micro_batch_of_the_limits(
    cluster: Cluster, stream: Stream, sink: Sink, pytestconfig: pytest.Config
) -> None:
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 30)
    limited = stream(maxOffsetsPerTrigger=12).select("value")
    by_java = [[12, 12, 6], [], [], []]
    by_python = [[12], [12], [6], []]
    wanted = by_java if pytestconfig.getoption("--columns") else by_python
    assert [rows_of(sink(limited, topic="out")) for _ in range(4)] == wanted
    send(cluster, "in", 0, 30)
    assert rows_of(sink(stream().select("value"), topic="out")) == [30], "all there is, without limits"
    assert values(cluster, "out") == [str(number).encode() for number in range(60)]


@pytest.mark.spark
@pytest.mark.sparks("limits", since="4.0", before="4.2", also="3.5")
def test_a_query_that_runs_on_keeps_the_limits_from_its_first_micro_batch_on(
    cluster: Cluster, stream: Stream, tmp_path: Path
) -> None:
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 10)

    def run(more: int) -> list[int]:
        rows = stream(maxOffsetsPerTrigger=4).select("value").writeStream.format("sparklog").option("topic", "out")
        rows = rows.options(cluster=cluster.connection.url, checkpointLocation=str(tmp_path / "checkpoint"))
        query = rows.start()
        try:
            query.processAllAvailable()
            send(cluster, "in", 0, more)
            query.processAllAvailable()
        finally:
            query.stop()
        return rows_of(query)

    assert run(5) == [4, 4, 2, 4, 1]
    assert run(6) == [4, 2], "also after a restart"
    assert values(cluster, "out") == [str(number).encode() for number in range(21)]


@pytest.mark.spark
@pytest.mark.sparks("once")
def test_a_stream_is_written_once_over_a_restart_and_a_replay(
    spark: SparkSession, cluster: Cluster, stream: Stream, sink: Sink, tmp_path: Path
) -> None:
    for topic in ("in", "even", "odd"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 30)
    number = f.col("value").cast("string").cast("int")
    parted = stream().select("value", f.when(number % 2 == 0, "even").otherwise("odd").alias("topic"))
    assert rows_of(sink(parted)) == [30]
    before = uploads(cluster)
    for commit in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        commit.unlink()  # Spark forgets that the micro-batch was done
    assert rows_of(sink(parted)) == [30]
    assert uploads(cluster) == before, "a replay adds and uploads nothing"
    send(cluster, "in", 0, 2)
    assert rows_of(sink(parted)) == [2]
    wanted = {topic: [str(n).encode() for n in range(begin, 32, 2)] for topic, begin in (("even", 0), ("odd", 1))}
    assert {topic: values(cluster, topic) for topic in wanted} == wanted
    for folder in ("offsets", "commits"):  # a checkpoint from a backup, which lacks the last micro-batch
        for file in (tmp_path / "checkpoint" / folder).glob("*1*"):
            file.unlink()
    send(cluster, "in", 0, 5)
    with pytest.raises(StreamingQueryException, match=r"OUT_OF_ORDER_SEQUENCE_NUMBER: version 1 .* something else now"):
        sink(parted)
    assert {topic: values(cluster, topic) for topic in wanted} == wanted


@pytest.mark.spark
@pytest.mark.sparks("groups")
def test_a_sink_commits_what_its_micro_batches_were_made_from(filled: Cluster, stream: Stream, sink: Sink) -> None:
    rows = shouted(stream(maxOffsetsPerTrigger=14, groupId=GROUP))
    runs = [rows_of(sink(rows, topic="out", groupId=GROUP)) for _ in range(3)]
    assert [count for run in runs for count in run] == [14, 6], "in one run, or in two"
    assert consumed(filled) == {("in", 0): 10, ("in", 1): 10}
    assert entries_that_agree(filled, GROUP) == 2
    assert [values(filled, "out", partition) for partition in range(2)] == [NUMBERS[:10]] * 2


@pytest.mark.spark
@pytest.mark.sparks("groups")
def test_with_another_sink_the_group_follows_one_micro_batch_behind(
    filled: Cluster, stream: Stream, tmp_path: Path
) -> None:
    seen: list[int] = []

    def run() -> None:
        def keep(df: DataFrame, _: int) -> None:
            seen.append(sum(consumed(filled).values()))

        query = stream(maxOffsetsPerTrigger=14, groupId=GROUP).writeStream.foreachBatch(keep)
        query.option("checkpointLocation", str(tmp_path / "own")).trigger(availableNow=True).start().awaitTermination()

    run()
    run()
    run()
    assert seen == [0, 14]
    assert sum(consumed(filled).values()) == 20


def test_a_restart_goes_on_where_the_partitions_of_before_ended(cluster: Cluster) -> None:
    """The calls of Spark 4.0 and 4.1, as they were seen: in a first run latestOffset comes before initialOffset."""
    cluster.create_topic("in", partitions=1)
    send(cluster, "in", 0, 10)
    given = {
        "cluster": cluster.connection.url,
        "subscribe": "in",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
    }

    def begin() -> StreamReader:
        return StreamReader(parse_stream_read_options(given), records_schema(["value"]))

    def offset(position: dict[str, object]) -> int:
        (at,) = from_json(position).at.values()
        return at.offset

    reader = begin()
    end = reader.latestOffset()
    start = reader.initialOffset()
    assert (offset(start), offset(end)) == (0, 4)
    assert len(reader.partitions(start, end)) == 1
    assert offset(reader.latestOffset()) == 8
    again = begin()
    assert again.partitions(end, end) == []
    assert offset(again.latestOffset()) == 8
