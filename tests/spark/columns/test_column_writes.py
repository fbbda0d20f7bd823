"""Writes by Java: the records and indexes that Python makes, the same errors, and each row once."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import SparklogError
from sparklog.core.types import NamedObject, StoreId
from sparklog.log.index import Index, decode_index, rebuild_index
from sparklog.log.records_schema import HEADERS
from sparklog.log.write.task_objects import LIMITS
from sparklog.options.typed import parse_write_options
from sparklog.spark.planner.write_requests import WRITE_REQUESTS
from sparklog.spark.write.batch_writer import begin_write
from sparklog.storage.keys import INCARNATION, data_key, index_key
from tests.faults.store_folders import StoreFolders
from tests.jar import jar
from tests.servers.hadoop import Hadoop
from tests.spark.columns.conftest import arguments, below_jvm
from tests.spark.conftest import TWO_HOSTS, OneSpark, Write

pytestmark = pytest.mark.spark
STORED = ("key", "value", "headers", "timestamp")
RECORDS = 400


def rows_of_many_kinds(dice: random.Random, count: int) -> pa.Table:
    """Keys of all lengths, empty and null ones, values of many sizes, headers or none, and partitions for some."""
    pairs = [None, [], [{"key": "h", "value": b"x"}], [{"key": "", "value": None}, None, {"key": "é", "value": b""}]]
    keys = [None, b"", *(dice.randbytes(length) for length in range(1, 20))]
    values = [None, "", "v", "wörter", "v" * 700]
    return pa.table(
        {
            "key": pa.array([dice.choice(keys) for _ in range(count)], pa.binary()),
            "value": pa.array([dice.choice(values) for _ in range(count)], pa.string()),
            "headers": pa.array([dice.choice(pairs) for _ in range(count)], HEADERS),
            "partition": pa.array([dice.choice([None, None, 0, 2]) for _ in range(count)], pa.int16()),
            "timestamp": pa.array(
                [1_700_000_000_000_000 + dice.randrange(10**9) for _ in range(count)], pa.timestamp("us", "UTC")
            ),
        }
    )


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_java_writes_what_python_writes(
    cluster: Cluster, columnar: SparkSession, write: Write, compression: str
) -> None:
    """In the same partitions and in the same order, with indexes that can be made again from the objects."""
    for count in (20, 3000):
        rows = rows_of_many_kinds(random.Random(f"{compression} {count}"), count)
        java, python = f"java-{count}", f"python-{count}"
        for topic in (java, python):
            cluster.create_topic(topic, partitions=3)
        frame = columnar.createDataFrame(rows).coalesce(1)
        write(frame, java, compression=compression)
        by_python(cluster, frame, python, compression=compression)
        for partition in range(3):
            assert stored(cluster, java, partition) == stored(cluster, python, partition)
        (java_index,), (python_index,) = (indexes(cluster, topic) for topic in (java, python))
        for column in ("partition", "first_record", "records", "min_timestamp_us", "max_timestamp_us"):
            assert getattr(java_index, column).tolist() == getattr(python_index, column).tolist()


def test_a_write_over_topics_by_tasks(cluster: Cluster, columnar: SparkSession, write: Write) -> None:
    for topic, partitions in (("a", 1), ("b", 4)):
        cluster.create_topic(topic, partitions=partitions)
    state = cluster.connection.follower.newest_state()
    write(columnar.range(0, 1000, 1, 3).selectExpr("if(id % 2 = 0, 'a', 'b') as topic", "cast(id as string) as value"))
    assert cluster.connection.follower.newest_state().n == state.n + 1
    found = {topic: cluster.describe(topic).records for topic in ("a", "b")}
    assert found == {"a": 500, "b": 500}
    assert [len(indexes(cluster, topic)) for topic in ("a", "b")] == [3, 3]


@pytest.mark.parametrize("partitions", [1, 3])
def test_objects_and_batches_keep_to_the_limits(
    cluster: Cluster, columnar: SparkSession, write: Write, partitions: int
) -> None:
    """With one partition they are streamed to the store."""
    cluster.create_topic("t", partitions=partitions)
    frame = columnar.range(0, 60_000, 1, 1).selectExpr(
        "cast(id as string) as key", "rpad(cast(id as string), if(id % 10000 = 7, 700000, 1000), '.') as value"
    )
    write(frame, "t", compression="none")
    whole = indexes(cluster, "t")
    assert len(whole) == 2
    assert sum(int(index.records.sum()) for index in whole) == 60_000
    for index in whole:
        assert int(index.length.sum()) <= LIMITS.object_bytes + LIMITS.largest_batch_bytes * partitions
        assert int(index.length.max()) <= LIMITS.largest_batch_bytes + 4096
    numbers = [
        [int(key) for key in cluster.read("t", partition=partition, columns=["key"])["key"].to_pylist()]
        for partition in range(partitions)
    ]
    assert all(of_partition == sorted(of_partition) for of_partition in numbers)
    assert sorted(number for of_partition in numbers for number in of_partition) == list(range(60_000))


def test_headers_count_even_if_they_are_empty(cluster: Cluster, columnar: SparkSession, write: Write) -> None:
    """Else a batch would have as many of them as rows without a byte: gigabytes, in the memory of the task."""
    for topic in ("java", "python"):
        cluster.create_topic(topic, partitions=1)
    headers = "array_repeat(named_struct('key', '', 'value', X''), 1000) as headers"
    frame = columnar.range(0, 1000, 1, 1).selectExpr("'' as key", "'' as value", headers)
    write(frame, "java", compression="none")
    by_python(cluster, frame, "python", compression="none")
    for topic in ("java", "python"):
        (index,) = indexes(cluster, topic)
        assert int(index.records.sum()) == 1000
        assert int(index.length.max()) < 2 * LIMITS.largest_batch_bytes


def test_objects_that_a_task_streams_at_the_same_time_keep_their_own_slices(
    cluster: Cluster, columnar: SparkSession, write: Write
) -> None:
    for topic, partitions in (("a", 1), ("b", 1), ("c", 2)):
        cluster.create_topic(topic, partitions=partitions)
    frame = columnar.range(0, 9000, 1, 1).selectExpr(
        "element_at(array('a', 'b', 'c'), cast(id % 3 as int) + 1) as topic",
        "cast(id as string) as key",
        "rpad(cast(id as string), 1000, '.') as value",
    )
    write(frame, compression="none")
    for number, topic in enumerate("abc"):
        assert sum(int(index.records.sum()) for index in indexes(cluster, topic)) == 3000
        partitions = range(2 if topic == "c" else 1)
        keys = [key for p in partitions for key in cluster.read(topic, partition=p)["key"].to_pylist()]
        assert sorted(int(key) for key in keys) == list(range(number, 9000, 3))


def test_a_write_by_java_starts_no_python_worker(one_spark: OneSpark, cluster: Cluster, write: Write) -> None:
    one_spark.end()
    session = one_spark.session("local[2]", spark__jars=str(jar()))
    cluster.create_topic("t")
    write(session.range(10).selectExpr("cast(id as string) as value"), "t")
    assert cluster.describe("t").records == 10
    assert below_jvm("sparklog.spark.planner") != []
    assert below_jvm("pyspark.daemon") == []


@pytest.mark.parametrize(
    "select",
    [
        "'a' as value, 1L as partition",
        "'a' as value, null as key",
        "'a' as value, array(named_struct('key', 'a', 'value', '1')) as headers",
    ],
)
def test_rows_of_other_types_are_left_to_python(
    cluster: Cluster, columnar: SparkSession, write: Write, select: str
) -> None:
    cluster.create_topic("t", partitions=2)
    frame = columnar.sql(f"select {select}")
    assert begun(cluster, frame) is None
    write(frame, "t")
    assert cluster.describe("t").records == 1


def test_what_goes_to_several_stores_is_left_to_python(columnar: SparkSession, write: Write, tmp_path: Path) -> None:
    frame = columnar.range(100).selectExpr("cast(id as string) as value")
    with sparklog.connect(StoreFolders.create(tmp_path).url) as cluster:
        cluster.create_topic("t", assignment=["ab", "bc"])
        cluster.create_topic("u", assignment=["a", "b"])
        assert begun(cluster, frame) is None
        assert begun(cluster, frame, topic="u") is not None
        for topic in ("t", "u"):
            save(frame, cluster, topic)
            assert cluster.describe(topic).records == 100


def test_each_partition_goes_to_its_own_store(columnar: SparkSession, tmp_path: Path) -> None:
    frame = columnar.range(100).selectExpr("cast(id as string) as key", "'v' as value")
    folders = StoreFolders.create(tmp_path)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["a", "b", "a"])
        save(frame.coalesce(1), cluster, "t")
        state = cluster.connection.follower.newest_state()
        of = {store: [] for store in "ab"}  # type: ignore[var-annotated]
        for named in state.objects:
            (holder,) = named.object.holders
            (index,) = (found for found in indexes(cluster, "t", named))
            of[holder.store] += sorted(set(index.partition.tolist()))
        assert of == {"a": [0, 2], "b": [1]}
        assert cluster.describe("t").records == 100


def test_java_writes_to_hdfs(columnar: SparkSession, hadoop: Hadoop) -> None:
    url = f"{hadoop.url}/{uuid.uuid4().hex}"
    init_cluster(url, stores={"a": "."})
    rows = columnar.createDataFrame(rows_of_many_kinds(random.Random(5), 1000)).coalesce(1)
    with sparklog.connect(url) as cluster:
        for topic in ("java", "python"):
            cluster.create_topic(topic, partitions=3)
        assert begun(cluster, rows, "java") is not None
        save(rows, cluster, "java")
        by_python(cluster, rows, "python")
        for partition in range(3):
            assert stored(cluster, "java", partition) == stored(cluster, "python", partition)
        assert len(indexes(cluster, "java")) == 1
        read = columnar.read.format("sparklog").options(cluster=url, subscribe="java").load()
        assert preferred_hosts(read) == {"127.0.0.1"}
        state = cluster.connection.follower.newest_state()
        store = cluster.connection.stores(state).get(StoreId("a"))
        assert store.remove_abandoned(before_ms=1 << 50) == 0, "no temporary file is left"
        store.delete(INCARNATION)
        with pytest.raises(Exception, match=r"wanted INCARNATION .* found none"):
            save(rows, cluster, "java")


@pytest.mark.parametrize("trouble", ["another INCARNATION", "no INCARNATION", "a file for a folder"])
def test_a_store_that_fails_is_blamed_in_the_same_words(
    cluster: Cluster, columnar: SparkSession, write: Write, trouble: str
) -> None:
    cluster.create_topic("t", partitions=2)
    frame = columnar.range(10).selectExpr("cast(id as string) as value")
    root = Path(cluster.connection.url.removeprefix("file://"))
    if trouble == "a file for a folder":
        (root / "append").write_bytes(b"")
    elif trouble == "no INCARNATION":
        (root / INCARNATION).unlink()
    else:
        mark = msgspec.json.decode((root / INCARNATION).read_bytes())
        (root / INCARNATION).chmod(0o644)
        (root / INCARNATION).write_bytes(msgspec.json.encode({**mark, "incarnation": "another"}))
    with pytest.raises(SparklogError) as python:
        by_python(cluster, frame, topic="t")
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as java:
        write(frame, "t")
    assert f"{type(python.value).__name__}: {python.value.code}: " in str(java.value)
    if "INCARNATION" in trouble:
        assert str(python.value) in str(java.value)
    assert cluster.describe("t").records == 0
    assert list(root.joinpath(".tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("select", "config"),
    [
        ("repeat('a', 3000) as key, 'v' as value", {"max.message.bytes": 2000}),
        (
            "'k' as key, 'v' as value, array(named_struct('key', 'h', 'value', X'01')) as headers",
            {"max.message.bytes": 2},
        ),
        ("'v' as value", {"cleanup.policy": "compact"}),
        ("'v' as value, timestamp'2000-01-01 00:00:00' as timestamp", {"message.timestamp.before.max.ms": 1000}),
        ("'v' as value, timestamp'2200-01-01 00:00:00' as timestamp", {"message.timestamp.after.max.ms": 1000}),
        ("'v' as value, -1 as partition", {}),
        ("'v' as value, 2 as partition", {}),
    ],
)
def test_a_row_that_is_refused_is_refused_in_the_same_words(
    cluster: Cluster, columnar: SparkSession, write: Write, select: str, config: dict[str, Any]
) -> None:
    cluster.create_topic("t", partitions=2, config=config)
    frame = columnar.sql(f"select {select}")
    assert begun(cluster, frame) is not None
    with pytest.raises(SparklogError) as python:
        by_python(cluster, frame, topic="t")
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as java:
        write(frame, "t")
    said = [f"{type(error.value).__name__}: {error.value}" for error in (python,)]
    # Bounds of timestamps depend on when the write began.
    assert (said[0].partition("on (")[0][:60] if "timestamp" in select else said[0]) in str(java.value)
    assert cluster.describe("t").records == 0


def test_a_topic_that_becomes_compacted_meanwhile_gets_no_record_without_a_key(
    cluster: Cluster, columnar: SparkSession, write: Write
) -> None:
    """The commit refuses it, because the task has said that it wrote some."""
    cluster.create_topic("t")
    url = cluster.connection.url

    def compacted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with sparklog.connect(url) as other:
            other.alter("t", config={"cleanup.policy": "compact"})
        yield from batches

    frame = columnar.range(0, 10, 1, 1).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match=r"InvalidRecord: .*topic t is compacted, so each record needs a key"):
        write(frame.mapInArrow(compacted, "value string"), "t")
    assert cluster.describe("t").records == 0


def test_a_stream_in_the_mode_update_appends_the_rows_that_changed(
    cluster: Cluster, columnar: SparkSession, tmp_path: Path
) -> None:
    """As by Spark's Kafka sink. Without the JAR, Spark refuses the mode: no sink in Python has it."""
    cluster.create_topic("in", partitions=2)
    cluster.create_topic("t", partitions=1)
    options = {"cluster": cluster.connection.url, "subscribe": "in", "startingOffsets": "earliest"}
    source = columnar.readStream.format("sparklog").options(**options).load()
    counts = source.groupBy("partition").count().selectExpr("cast(count as string) as value")
    sink = counts.writeStream.format("sparklog").option("cluster", cluster.connection.url).option("topic", "t")
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).outputMode("update").start()
    try:
        for added in ({0: 3, 1: 2}, {1: 2}):
            for partition, count in added.items():
                cluster.append("in", pa.table({"value": ["v"] * count, "partition": pa.array([partition] * count)}))
            query.processAllAvailable()
    finally:
        query.stop()
    assert values(cluster, 1)[-1] == b"4"
    assert sorted(values(cluster, 1)[:-1]) in ([b"2", b"3"], [b"2", b"2", b"3"])


def test_writes_at_the_same_time_are_all_there(cluster: Cluster, columnar: SparkSession, write: Write) -> None:
    """One planner plans and commits them."""
    cluster.create_topic("t", partitions=2)
    frame = columnar.range(0, 100, 1, 2).selectExpr("cast(id as string) as value")
    with ThreadPoolExecutor(4) as pool:
        for write_done in [pool.submit(write, frame, "t") for _ in range(6)]:
            write_done.result()
    assert sorted(int(value) for value in values(cluster, 2)) == sorted(6 * list(range(100)))


def test_a_planner_that_dies_during_a_write_is_not_missed(
    cluster: Cluster, columnar: SparkSession, write: Write
) -> None:
    """The next one commits what this one planned, and nothing if there are no rows."""
    cluster.create_topic("t")
    state = cluster.connection.follower.newest_state()

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        jvm = psutil.Process(os.getppid()).parent()
        assert jvm is not None
        for process in jvm.children():
            if "sparklog.spark.planner" in arguments(process):
                process.kill()
                process.wait(10)  # a request to a process that is just dying would fail
        yield from batches

    for rows in (0, 10):
        frame = columnar.range(0, rows, 1, 1).selectExpr("cast(id as string) as value")
        write(frame.mapInArrow(killed, "value string"), "t")
        assert cluster.describe("t").records == rows
        assert cluster.connection.follower.newest_state().n == state.n + (rows > 0)


PLANNER = """
import os, pathlib, runpy, sys, time
from sparklog.spark.planner import planner

left = pathlib.Path({left!r})
{program}
runpy.run_module("sparklog.spark.planner", run_name="__main__", alter_sys=True)
"""
DIES_AFTER_COMMIT = """
commit = planner._REQUESTS["commit_write"]

def commit_and_die(payload):
    answer, deaths = commit(payload), int(left.read_text())
    if deaths:
        left.write_text(str(deaths - 1))
        os._exit(9)
    return answer

planner._REQUESTS["commit_write"] = commit_and_die
"""
DIES_DURING_COMMIT = """
commit = planner._REQUESTS["commit_write"]
steps = None

def step(event, arguments):
    global steps
    if steps is None or not (event == "open" or event.startswith("os.")) or {folder!r} not in str(arguments[:1]):
        return
    steps -= 1
    if steps == 0:
        left.write_text("0")
        os._exit(9)

def commit_and_die(payload):
    global steps
    steps = int(left.read_text())
    return commit(payload)

sys.addaudithook(step)
planner._REQUESTS["commit_write"] = commit_and_die
"""
LONG_ANSWERS = """
import msgspec

plan_read = planner._REQUESTS["plan_read"]

def long_plan(payload):
    plan = msgspec.json.decode(plan_read(payload))
    plan["warnings"] = ["long" * 6_000_000]
    return msgspec.json.encode(plan)

planner._REQUESTS["plan_read"] = long_plan
"""
DEAF_AFTER_PLAN = """
class Requests:
    begun = False

    def read(self, length):
        if self.begun and left.read_text() == "1":
            left.write_text("0")
            os.close(0)
            time.sleep(5)
            return b""
        payload = sys.__stdin__.buffer.read(length)
        self.begun = b'"name":"plan_write"' in payload
        return payload

serve = planner.serve
planner.serve = lambda requests, *others, **named: serve(Requests(), *others, **named)
"""


def session_of_planner(one_spark: OneSpark, folder: Path, program: str) -> tuple[SparkSession, Path]:
    """A session whose planners run this program first, and the file that such a program reads."""
    left, file, python = folder / "left", folder / "planner.py", folder / "python"
    left.write_text("0")
    file.write_text(PLANNER.format(left=str(left), program=program))
    planner = f'case "$2" in sparklog.spark.planner) exec {sys.executable} {file} "$3";; esac'
    python.write_text(f'#!/bin/sh\n{planner}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return one_spark.session("local[2]", spark__jars=str(jar()), spark__pyspark__python=str(python)), left


@pytest.mark.parametrize("deaths", [1, 3])
def test_a_commit_whose_planner_dies_lands_once(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path, deaths: int
) -> None:
    """It dies after the commit and before the answer: the next one is asked, and then the outcome is unknown."""
    spark, left = session_of_planner(one_spark, tmp_path, DIES_AFTER_COMMIT)
    cluster.create_topic("t")
    state = cluster.connection.follower.newest_state()
    left.write_text(str(deaths))
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as value")
    if deaths == 1:
        write(frame, "t")
    else:
        version = {"txnAppId": "app", "txnVersion": "1"}
        with pytest.raises(AnalysisException, match="COMMIT_OUTCOME_UNKNOWN: the rows may have been written"):
            write(frame, "t", **version)
        write(frame, "t", **version)  # a repeat adds nothing
    assert left.read_text() == "0"
    assert cluster.describe("t").records == 10
    assert cluster.connection.follower.newest_state().n == state.n + 1


def test_a_planner_may_die_at_each_step_of_a_commit(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path
) -> None:
    """A step: it opens, links or removes a file of the cluster, or looks at one."""
    url = cluster.connection.url.removeprefix("file://")
    spark, left = session_of_planner(one_spark, tmp_path, DIES_DURING_COMMIT.replace("{folder!r}", repr(url)))
    cluster.create_topic("t")
    n = cluster.connection.follower.newest_state().n
    for step in range(1, 1000):
        left.write_text(str(step))
        write(spark.range(step * 10, step * 10 + 10, 1, 2).selectExpr("cast(id as string) as value"), "t")
        assert sorted(int(value) for value in values(cluster, 1)) == list(range(10, step * 10 + 10))
        assert cluster.connection.follower.newest_state().n == n + step
        if left.read_text() != "0":
            break
    assert step > 5


def test_an_answer_may_have_long_texts(cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path) -> None:
    """As the plan of a task with a hundred thousand slices: Jackson would take 20,000,000 characters."""
    spark, _ = session_of_planner(one_spark, tmp_path, LONG_ANSWERS)
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": ["v"]}))
    read = spark.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    assert read.option("reader", "columns").load().count() == 1


def test_a_planner_that_reads_no_more_is_replaced(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path
) -> None:
    """It is about to end, so its requests can't be written, but its process is still there."""
    spark, left = session_of_planner(one_spark, tmp_path, DEAF_AFTER_PLAN)
    cluster.create_topic("t")
    left.write_text("1")
    write(spark.range(10).selectExpr("cast(id as string) as value"), "t")
    assert left.read_text() == "0"
    assert cluster.describe("t").records == 10


# ---- attempts ---------------------------------------------------------------------------------------


@pytest.fixture
def two_hosts(one_spark: OneSpark) -> SparkSession:
    """Two executors of one core each, in JVMs of their own, with speculation."""
    return one_spark.session(
        TWO_HOSTS,
        spark__jars=str(jar()),
        spark__executor__memory="512m",
        spark__speculation="true",
        spark__speculation__interval="100ms",
        spark__speculation__quantile="0.5",
        spark__speculation__multiplier="1.1",
        spark__speculation__minTaskRuntime="300ms",
        spark__task__maxFailures="3",
    )


@pytest.mark.parametrize("fault", ["raises", "kills", "stalls"])
def test_each_row_is_there_once_whatever_becomes_of_attempts(
    two_hosts: SparkSession, cluster: Cluster, write: Write, tmp_path: Path, fault: str
) -> None:
    """The first attempt of a task hands over all its rows, and then fails, dies with its executor, or hangs."""
    cluster.create_topic("t", partitions=2)
    frame = two_hosts.range(0, RECORDS, 1, 4).selectExpr("cast(id as string) as value")
    write(frame.mapInArrow(faulty(fault, tmp_path / "first"), "value string"), "t")
    assert (tmp_path / "first").exists()
    assert sorted(int(value) for value in values(cluster, 2)) == list(range(RECORDS))
    assert len(cluster.connection.follower.newest_state().objects) == 4


def test_an_executor_may_be_lost_when_its_task_is_done(
    two_hosts: SparkSession, cluster: Cluster, write: Write, tmp_path: Path
) -> None:
    """Its message has the objects, so the task is not run again."""
    cluster.create_topic("t", partitions=2)
    first, killed = tmp_path / "first", tmp_path / "killed"
    while two_hosts.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver is the third
        time.sleep(0.1)

    def killing_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context, executor = TaskContext.get(), psutil.Process(os.getppid()).ppid()
        assert context is not None
        if context.partitionId() == 0:
            first.write_text(str(executor))
            return
        while not first.exists():
            time.sleep(0.1)
        time.sleep(3)  # its task is done
        if int(first.read_text()) == executor:
            time.sleep(60)  # a speculative attempt beside that task, which dies with its executor
        elif not killed.exists():
            os.kill(int(first.read_text()), signal.SIGKILL)
            killed.touch()

    frame = two_hosts.range(0, RECORDS, 1, 2).selectExpr("cast(id as string) as value")
    write(frame.mapInArrow(killing_first, "value string"), "t")
    assert killed.exists()
    assert sorted(int(value) for value in values(cluster, 2)) == list(range(RECORDS))
    assert len(cluster.connection.follower.newest_state().objects) == 2


def test_what_a_failed_attempt_has_uploaded_is_an_orphan(
    columnar: SparkSession, cluster: Cluster, write: Write, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    frame = columnar.range(0, 60_000, 1, 1).selectExpr("rpad(cast(id as string), 1000, '.') as value")
    with pytest.raises(Exception, match="the first attempt fails"):
        write(frame.mapInArrow(faulty("raises", tmp_path / "first"), "value string"), "t", compression="none")
    root = Path(cluster.connection.url.removeprefix("file://"))
    assert len(list(root.glob("append/*/*.arrow"))) == 1
    assert list(root.joinpath(".tmp").iterdir()) == []
    assert cluster.describe("t").records == 0


def faulty(fault: str, first: Path, task: int = 0) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of a DataFrame's rows that returns them, and then fails, once, in this task."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() != task:
            return
        try:
            first.touch(exist_ok=False)
        except FileExistsError:
            return
        if fault == "raises":
            raise RuntimeError("the first attempt fails")
        if fault == "kills":
            os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
        time.sleep(60)  # until its executor is gone, or Spark has killed it for the sake of another attempt

    return rows


# ---- what is stored ---------------------------------------------------------------------------------


def save(frame: DataFrame, cluster: Cluster, topic: str) -> None:
    writer = frame.write.format("sparklog").mode("append").option("cluster", cluster.connection.url)
    writer.option("topic", topic).save()


def preferred_hosts(frame: DataFrame) -> set[str]:
    """The hosts on which Spark would like to run the first task of a read."""
    rdd = frame._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()
    return set(str(rdd.preferredLocations(rdd.partitions()[0]).mkString(",")).split(","))


def by_python(cluster: Cluster, frame: DataFrame, topic: str, **options: str) -> None:
    """Write the rows of a frame in this process, as one task."""
    given = {"cluster": cluster.connection.url, "topic": topic, **options}
    writer = begin_write(parse_write_options(given), frame.schema)
    writer.commit([writer.write(iter(frame.toArrow().to_batches()))])


def begun(cluster: Cluster, frame: DataFrame, topic: str = "t") -> object:
    """What the planner answers Java; None: it leaves the write to Python."""
    options = {"cluster": cluster.connection.url, "topic": topic}
    request = msgspec.json.encode({"options": options, "schema": frame.schema.json()})
    return msgspec.json.decode(WRITE_REQUESTS["plan_write"](request))


def stored(cluster: Cluster, topic: str, partition: int) -> list[dict[str, Any]]:
    return cluster.read(topic, partition=partition, include_headers=True).select(STORED).to_pylist()


def values(cluster: Cluster, partitions: int) -> list[bytes]:
    return [
        value
        for partition in range(partitions)
        for value in cluster.read("t", partition=partition)["value"].to_pylist()
    ]


def indexes(cluster: Cluster, topic: str, only: NamedObject | None = None) -> list[Index]:
    """The indexes of a topic's objects. Each is what can be made again from its object."""
    state = cluster.connection.follower.newest_state()
    found = []
    for named in state.objects if only is None else [only]:
        if named.object.topic_id != state.topic_ids[topic]:
            continue
        key = data_key(named.object, topic)
        store = cluster.connection.stores(state).get(named.object.holders[0].store)
        index = decode_index(index_key(key), store.get(index_key(key)), named.object)
        assert index == rebuild_index(key, store.get(key), named.object)
        found.append(index)
    return found
