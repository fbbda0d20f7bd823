"""Read, process, write in Spark: the offsets of a group and what was made from them are one commit, or follow it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput
from sparklog.spark import exactly_once
from tests.spark.stream.agreement import entries_that_agree
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_streams import Sink, Stream, rows_of, sink, stream, values

__all__ = ["sink", "stream"]

pytestmark = pytest.mark.spark

GROUP = "billing"
NUMBERS = [str(number).encode() for number in range(12)]


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    """Topic "in" with ten records in each of its two partitions, topic "out" without."""
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=2)
    for partition in range(2):
        send(cluster, "in", partition, 10)
    return cluster


def consumed(cluster: Cluster) -> dict[tuple[str, int], int]:
    return {place: row.offset for place, row in cluster.committed(GROUP).items()}


def shouted(df: DataFrame) -> DataFrame:
    return df.select("value", "partition")


# M: I-05
@pytest.mark.sparks("groups", since="4.2")
def test_a_sink_commits_what_its_micro_batch_was_made_from(
    filled: Cluster, stream: Stream, sink: Sink, tmp_path: Path
) -> None:
    rows = shouted(stream(maxOffsetsPerTrigger=14, groupId=GROUP))
    first = sink(rows, topic="out", groupId=GROUP)
    assert rows_of(first) == [14, 6]
    assert consumed(filled) == {("in", 0): 10, ("in", 1): 10}
    assert entries_that_agree(filled, GROUP) == 2
    for commit in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        commit.unlink()  # Spark does the last micro-batch again
    filled.commit_offsets(GROUP, {("in", 0): 3})
    assert rows_of(sink(rows, topic="out", groupId=GROUP)) == [6]
    assert consumed(filled) == {("in", 0): 10, ("in", 1): 10}, "the source follows, as it is further"
    assert [values(filled, "out", partition) for partition in range(2)] == [NUMBERS[:10]] * 2


@pytest.mark.campaign  # the page of streams does it once in make test
def test_a_function_for_foreach_batch_does_the_same(filled: Cluster, stream: Stream, tmp_path: Path) -> None:
    def run() -> list[int]:
        write = exactly_once(shouted, group=GROUP, topic="out", cluster=filled.connection.url)
        rows = stream(maxOffsetsPerTrigger=14).where("cast(value as string) != '3'")
        query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        started = query.trigger(availableNow=True).start()
        started.awaitTermination()
        return rows_of(started)

    assert run() == [14, 6], "each record is read once"
    for commit in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        commit.unlink()
    assert run() == [6]
    wanted = [number for number in NUMBERS[:10] if number != b"3"]
    assert [values(filled, "out", partition) for partition in range(2)] == [wanted] * 2
    assert consumed(filled) == {("in", 0): 10, ("in", 1): 10}
    for folder in ("offsets", "commits"):  # a checkpoint from a backup, which lacks the last micro-batch
        for file in (tmp_path / "checkpoint" / folder).glob("*1*"):
            file.unlink()
    send(filled, "in", 0, 2)
    with pytest.raises(StreamingQueryException, match=r"OUT_OF_ORDER_SEQUENCE_NUMBER: version 1 .* something else now"):
        run()
    assert [values(filled, "out", partition) for partition in range(2)] == [wanted] * 2


@pytest.mark.sparks("groups", since="4.2")
def test_with_another_sink_the_group_follows_the_checkpoint(filled: Cluster, stream: Stream, sink: Sink) -> None:
    seen: list[dict[tuple[str, int], int]] = []
    query = stream(maxOffsetsPerTrigger=14, groupId=GROUP).writeStream
    started = query.foreachBatch(lambda df, _: seen.append(consumed(filled))).trigger(availableNow=True).start()
    started.awaitTermination()
    assert [sum(offsets.values()) for offsets in seen] == [0, 14]
    assert consumed(filled) == {("in", 0): 10, ("in", 1): 10}


def test_a_batch_without_places_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="found no topic and no partition and no offset"):
        exactly_once(shouted, group=GROUP, topic="out")(spark.range(1), 0)
    with pytest.raises(
        InvalidInput, match="wanted to be called by foreachBatch of a streaming query, in its thread, found no query"
    ):
        exactly_once(shouted, group=GROUP)(spark.sql("select 't' topic, 0 partition, 5L offset"), 0)
