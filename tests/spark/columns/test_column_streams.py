"""Streams by Java: planned by the planner of the driver, with checkpoints and errors that are those of Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sparklog.client.cluster import Cluster
from tests.spark.columns.conftest import arguments, below_jvm
from tests.spark.columns.test_dying_planners import session_of_planner
from tests.spark.conftest import OneSpark
from tests.spark.stream.agreement import entries_that_agree
from tests.spark.stream.driven_stream import send
from tests.spark.stream.test_consumed import filled, test_a_sink_commits_what_its_micro_batch_was_made_from
from tests.spark.stream.test_streams import (
    rows_of,
    sink,
    stream,
    test_a_running_query_sees_new_partitions_and_all_columns_are_exact,
    test_a_stream_goes_through_two_topics_exactly_once_over_a_restart_and_a_replay,
    test_mistakes_are_found_before_anything_runs,
    uploads,
    values,
)

__all__ = [  # tests of streams that each run also does by Java; `make test-columns` does all
    "filled",
    "sink",
    "stream",
    "test_a_running_query_sees_new_partitions_and_all_columns_are_exact",
    "test_a_sink_commits_what_its_micro_batch_was_made_from",
    "test_a_stream_goes_through_two_topics_exactly_once_over_a_restart_and_a_replay",
    "test_mistakes_are_found_before_anything_runs",
]

pytestmark = pytest.mark.spark
Run = Callable[..., StreamingQuery]


@pytest.fixture
def spark(columnar: SparkSession) -> SparkSession:
    return columnar


@pytest.fixture
def new_jvm(one_spark: OneSpark) -> None:
    """End the JVM, with the Python processes that Spark keeps for other tests."""
    one_spark.end()


@pytest.fixture
def topics(cluster: Cluster) -> Cluster:
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    return cluster


@pytest.fixture
def run(columnar: SparkSession, topics: Cluster, tmp_path: Path) -> Run:
    """run(by, option=value, …) -> the ended query that copied what there was; `by`: "java" or "python", on both sides.

    Python writes the type of the column "partition" that Java leaves to it.
    """

    def copy(by: str = "java", **options: object) -> StreamingQuery:
        given = {"subscribe": "in", "startingOffsets": "earliest", **options}
        given["reader"] = "columns" if by == "java" else "rows"
        reader = columnar.readStream.format("sparklog").option("cluster", topics.connection.url)
        rows = reader.options(**{name: str(value) for name, value in given.items()}).load()
        rows = rows.selectExpr("value", f"cast(0 as {'int' if by == 'java' else 'bigint'}) as partition")
        return ended(written(rows, topics, tmp_path / "checkpoint"))

    return copy


def written(rows: DataFrame, cluster: Cluster, checkpoint: Path) -> StreamingQuery:
    writer = rows.writeStream.format("sparklog").option("cluster", cluster.connection.url).option("topic", "out")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def ended(query: StreamingQuery) -> StreamingQuery:
    query.awaitTermination()
    return query


def processes() -> set[str]:
    """The Python programs that run below the JVM of this process."""
    assert SparkContext._gateway is not None
    below = psutil.Process(SparkContext._gateway.proc.pid).children(recursive=True)
    return {part for process in below for part in arguments(process) if part.startswith(("pyspark", "sparklog"))}


@pytest.mark.usefixtures("new_jvm")
def test_a_stream_needs_no_process_but_the_planner(topics: Cluster, run: Run) -> None:
    send(topics, "in", 0, 3)
    assert rows_of(run()) == [3]
    assert values(topics, "out") == [b"0", b"1", b"2"]
    assert processes() == {"sparklog.spark.planner"}


@pytest.mark.sparks("limits")
def test_available_now_takes_as_many_micro_batches_as_its_limits_need(topics: Cluster, run: Run) -> None:
    send(topics, "in", 0, 30)
    assert rows_of(run(maxOffsetsPerTrigger=12)) == [12, 12, 6]
    assert values(topics, "out") == [str(number).encode() for number in range(30)]


def test_a_checkpoint_continues_by_java_and_by_python(topics: Cluster, run: Run, tmp_path: Path) -> None:
    for number, by in enumerate(["python", "java", "python", "java"]):
        send(topics, "in", 0, 2)
        assert rows_of(run(by)) == [2], (number, by)
    assert values(topics, "out") == [str(number).encode() for number in range(8)]
    logged = [(tmp_path / "checkpoint" / "offsets" / str(n)).read_text().splitlines()[-1] for n in range(4)]
    assert len({re.sub(r'"offsets": {[^}]*}}', "", line) for line in logged}) == 1, "the same text but for the offsets"
    before = uploads(topics)
    for by in ("python", "java"):
        for commit in (tmp_path / "checkpoint" / "commits").glob("*3*"):
            commit.unlink()
        assert rows_of(run(by)) == [2], "Spark forgot that the last micro-batch was done"
    assert uploads(topics) == before
    assert len(values(topics, "out")) == 8


def test_a_failed_stream_says_why(topics: Cluster, run: Run) -> None:
    send(topics, "in", 0, 3)
    run()
    topics.delete_topic("in")
    topics.create_topic("in", partitions=1)
    wanted = "DATA_LOSS: in-0: the stream is at offset 3, the topic was deleted and created again"
    texts = []
    for by in ("java", "python"):
        with pytest.raises(StreamingQueryException, match=wanted) as failed:
            run(by)
        texts.append(re.findall(r"sparklog\.core\.errors\..*", str(failed.value))[0].split(" SQLSTATE")[0])
    assert texts[0] == texts[1]


DIES_ONCE_IN_EACH_REQUEST = """
import hashlib

def dies_once(answer):
    def answer_or_die(payload):
        reply, digest = answer(payload), hashlib.sha256(payload).hexdigest()
        deaths = left.read_text().split()
        if digest not in deaths:
            left.write_text(" ".join([*deaths, digest]))
            os._exit(9)
        return reply

    return answer_or_die

for name, answer in list(planner._REQUESTS.items()):
    planner._REQUESTS[name] = dies_once(answer)
"""


def test_a_stream_is_exact_though_a_planner_dies_after_each_request(
    one_spark: OneSpark, topics: Cluster, tmp_path: Path
) -> None:
    """Each request is done twice, also each commit."""
    spark, left = session_of_planner(one_spark, tmp_path, DIES_ONCE_IN_EACH_REQUEST)
    send(topics, "in", 0, 10)
    reader = spark.readStream.format("sparklog").option("cluster", topics.connection.url).option("subscribe", "in")
    rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="6").load().select("value")
    writer = rows.writeStream.format("sparklog").option("cluster", topics.connection.url).option("topic", "out")
    writer = writer.option("groupId", "g").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert rows_of(ended(writer.trigger(availableNow=True).start())) == [6, 4]
    assert values(topics, "out") == [str(number).encode() for number in range(10)]
    assert entries_that_agree(topics, "g") == 2
    assert len(left.read_text().split()) > 8, "so many planners died"


APPENDS_ONCE_A_STREAM_HAS_BEGUN = """
import pyarrow as pa
import sparklog

start = planner._REQUESTS["stream_start"]

def start_and_append(payload):
    reply = start(payload)
    with sparklog.connect({url!r}) as cluster:
        cluster.append("in", pa.table({{"value": [b"new"]}}))
    return reply

planner._REQUESTS["stream_start"] = start_and_append
"""


def test_latest_is_where_the_first_run_began_whenever_spark_asks(
    one_spark: OneSpark, topics: Cluster, tmp_path: Path
) -> None:
    url = topics.connection.url
    spark, _ = session_of_planner(one_spark, tmp_path, APPENDS_ONCE_A_STREAM_HAS_BEGUN.format(url=url))
    reader = spark.readStream.format("sparklog").option("cluster", url).option("subscribe", "in")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    try:
        query.processAllAvailable()
        assert rows_of(query) == [1]
    finally:
        query.stop()


def test_a_run_survives_the_end_of_its_planner(columnar: SparkSession, topics: Cluster, tmp_path: Path) -> None:
    """A run of AvailableNow ends where the log ended when it began, whatever planner is asked."""
    send(topics, "in", 0, 30)
    seen: list[int] = []

    def kill(rows: DataFrame, _: int) -> None:
        seen.append(rows.count())
        send(topics, "in", 0, 5)
        (planner,) = below_jvm("sparklog.spark.planner")
        planner.kill()
        planner.wait()

    reader = columnar.readStream.format("sparklog").option("cluster", topics.connection.url).option("subscribe", "in")
    rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="12").load()
    writer = rows.writeStream.foreachBatch(kill).option("checkpointLocation", str(tmp_path / "checkpoint"))
    ended(writer.trigger(availableNow=True).start())
    assert seen == [12, 12, 6]


def test_a_query_that_is_stopped_while_the_planner_is_asked_has_not_failed(
    columnar: SparkSession, topics: Cluster, tmp_path: Path
) -> None:
    send(topics, "in", 0, 1)
    reader = columnar.readStream.format("sparklog").option("cluster", topics.connection.url).option("subscribe", "in")
    writer = reader.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start()
    query.processAllAvailable()
    (planner,) = below_jvm("sparklog.spark.planner")
    planner.suspend()
    try:
        query.stop()
    finally:
        planner.resume()
    assert query.exception() is None


def test_progress_describes_source_and_offsets(topics: Cluster, run: Run) -> None:
    send(topics, "in", 0, 3)
    (source,) = run().recentProgress[0]["sources"]
    assert source["description"] == "Sparklog[Subscribe[in]]"
    assert source["metrics"]["maxOffsetsBehindLatest"] == "0"
