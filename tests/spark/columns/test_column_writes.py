"""Writes by Java: the records and indexes that Python makes, the same errors, and each row once."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import SparklogError
from sparklog.core.types import StoreId
from sparklog.log.stored_schema import HEADERS
from sparklog.log.write.task_memory import LIMITS
from sparklog.storage.keys import INCARNATION
from tests.faults.store_folders import StoreFolders
from tests.jar import jar
from tests.servers.hadoop import Hadoop
from tests.spark.columns.conftest import below_jvm
from tests.spark.columns.writing import begun, by_python, indexes, preferred_hosts, save, stored, values
from tests.spark.conftest import OneSpark, Write

pytestmark = pytest.mark.spark


def rows_of_many_kinds(dice: random.Random, count: int) -> pa.Table:
    """Keys of all lengths, empty and null ones, values of many sizes, headers or none, and partitions for some."""
    pairs = [None, [], [{"key": "h", "value": b"x"}], [{"key": "", "value": None}, {"key": "é", "value": b""}]]
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
    state = cluster.connection.newest_state()
    write(columnar.range(0, 1000, 1, 3).selectExpr("if(id % 2 = 0, 'a', 'b') as topic", "cast(id as string) as value"))
    assert cluster.connection.newest_state().n == state.n + 1
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


def test_each_partition_goes_to_its_own_store(columnar: SparkSession, tmp_path: Path) -> None:
    frame = columnar.range(100).selectExpr("cast(id as string) as key", "'v' as value")
    folders = StoreFolders.create(tmp_path)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["a", "b", "a"])
        save(frame.coalesce(1), cluster, "t")
        state = cluster.connection.newest_state()
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
        state = cluster.connection.newest_state()
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
        ("'v' as value, array(named_struct('key', cast(X'61ff' as string), 'value', X'01')) as headers", {}),
        ("'k' as key, 'v' as value, array(named_struct('key', cast(null as string), 'value', X'01')) as headers", {}),
        ("'v' as value, array(cast(null as struct<key: string, value: binary>)) as headers", {}),
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


@pytest.mark.sparks("update", before="4.0")
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
