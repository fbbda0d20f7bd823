"""Writes by Java to topics with replicas: each store gets the same bytes, and one that fails or hangs is given up."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.core.commands import AgentUp
from sparklog.core.errors import SparklogError
from sparklog.core.types import StoreId
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.storage.keys import INCARNATION
from tests.core.replication.example_partition import ends, roles
from tests.faults.store_folders import StoreFolders
from tests.kit.silent_console import SILENT
from tests.servers.hadoop import Hadoop
from tests.spark.columns.test_column_writes import rows_of_many_kinds
from tests.spark.columns.writing import begun, by_python, indexes, save, save_by_java, stored

pytestmark = pytest.mark.spark


@pytest.fixture
def folders(tmp_path: Path) -> StoreFolders:
    """The stores a, b and c."""
    return StoreFolders.create(tmp_path)


@pytest.fixture
def cluster(folders: StoreFolders) -> Iterator[Cluster]:
    """A client of their cluster."""
    with sparklog.connect(folders.url) as cluster:
        yield cluster


def some_rows(spark: SparkSession, count: int = 100) -> DataFrame:
    return spark.range(0, count, 1, 1).selectExpr("cast(id as string) as key", "'v' as value")


def hang(folders: StoreFolders, stores: str) -> None:
    """Let each reader of their INCARNATION wait. A task waits for half a second for a store that is behind."""
    with sparklog.connect(folders.url) as cluster:
        cluster.alter_cluster({"replica.lag.time.max.ms": 500})
    for store in stores:
        (folders.at(store) / INCARNATION).unlink()
        os.mkfifo(folders.at(store) / INCARNATION)


def release(folders: StoreFolders, stores: str) -> None:
    """Let these readers go on."""
    for store in stores:
        os.close(os.open(folders.at(store) / INCARNATION, os.O_RDWR))


def replicas(folders: StoreFolders, topic: str, partitions: int) -> list[str]:
    """Leader, ISR and log end offsets of each partition."""
    values = [folders.replication(topic, partition) for partition in range(partitions)]
    return [f"{roles(value)} {ends(value)}" for value in values]


def test_every_store_gets_what_python_writes(cluster: Cluster, folders: StoreFolders, columnar: SparkSession) -> None:
    frame = columnar.createDataFrame(rows_of_many_kinds(random.Random(3), 2000)).coalesce(1)
    for topic in ("java", "python"):
        cluster.create_topic(topic, assignment=["ab", "bc", "ca"])
    save_by_java(frame, cluster, "java")
    by_python(cluster, frame, "python")
    assert folders.differences() == []
    assert replicas(folders, "java", 3) == replicas(folders, "python", 3)
    for partition in range(3):
        assert stored(cluster, "java", partition) == stored(cluster, "python", partition)
    for index in indexes(cluster, "java"):
        assert int(index.records.sum()) > 0
    assert not [left for store in "abc" for left in (folders.at(store) / ".tmp").iterdir()]


def test_stores_on_hdfs_beside_a_disk(columnar: SparkSession, hadoop: Hadoop, tmp_path: Path) -> None:
    """They get what Python writes, and one that was wiped is given up."""
    on_hdfs = {store: f"{hadoop.url}/{uuid.uuid4().hex}" for store in "ab"}
    folders = StoreFolders.create(tmp_path, elsewhere=on_hdfs)
    frame = columnar.createDataFrame(rows_of_many_kinds(random.Random(4), 500)).coalesce(1)
    with sparklog.connect(folders.url) as cluster:
        for topic in ("java", "python"):
            cluster.create_topic(topic, assignment=["abc", "bca", "cab"])
        for is_wiped in (False, True):
            if is_wiped:
                cluster.connection.stores(folders.state()).get(StoreId("b")).delete(INCARNATION)
            save_by_java(frame, cluster, "java")
            by_python(cluster, frame, "python")
            assert replicas(folders, "java", 3) == replicas(folders, "python", 3)
            for partition in range(3):
                assert stored(cluster, "java", partition) == stored(cluster, "python", partition)
        holders = ["".join(sorted(holder.store for holder in each.object.holders)) for each in folders.state().objects]
        assert holders == ["abc", "abc", "ac", "ac"]
        assert len(indexes(cluster, "java")) == 2
        assert [each.object for each in run_verify(folders.url, console=SILENT).differences] == [INCARNATION]


@pytest.mark.parametrize("trouble", ["wiped", "a file for a folder", "away"])
def test_a_store_that_fails_is_given_up(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession, trouble: str
) -> None:
    """The others lead and stay in sync, as in a write by Python."""
    for topic in ("java", "python"):
        cluster.create_topic(topic, assignment=["ab", "bc", "ca"])
    if trouble == "wiped":
        (folders.at("b") / INCARNATION).unlink()
    elif trouble == "away":
        folders.take_away("b")
    else:
        (folders.at("b") / "append").write_bytes(b"")
    frame = some_rows(columnar)
    save_by_java(frame, cluster, "java")
    by_python(cluster, frame, "python")
    assert replicas(folders, "java", 3) == replicas(folders, "python", 3)
    assert sum(cluster.read("java", partition=partition).num_rows for partition in range(3)) == 100
    assert all("b" not in str(named.object.holders) for named in folders.state().objects)


@pytest.mark.timeout(120)
def test_a_store_that_hangs_delays_a_task_for_a_limited_time(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession
) -> None:
    """It hangs where a writer looks for its INCARNATION, so it may have the object, but no commit says so."""
    cluster.create_topic("t", assignment=["ab"])
    hang(folders, "b")
    try:
        save_by_java(some_rows(columnar), cluster, "t")
    finally:
        release(folders, "b")
    assert replicas(folders, "t", 1) == ["a:a a100 b0"]
    assert cluster.read("t", partition=0).num_rows == 100


def test_a_store_that_fails_and_one_that_hangs_are_left_out_of_all_later_objects(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession
) -> None:
    """The third one is enough; the task waits for the hanging one once."""
    cluster.create_topic("t", assignment=["abc"], config={"compression.type": "uncompressed"})
    (folders.at("b") / "append").write_bytes(b"")
    hang(folders, "c")
    frame = columnar.range(0, 150_000, 1, 1).selectExpr("rpad(cast(id as string), 1000, '.') as value")
    try:
        save_by_java(frame, cluster, "t")
    finally:
        release(folders, "c")
    named = folders.state().objects
    assert len(named) > 2
    assert [[holder.store for holder in each.object.holders] for each in named] == [["a"]] * len(named)
    assert len(list(folders.at("c").glob("append/*/*.arrow"))) == 1
    assert replicas(folders, "t", 1) == ["a:a a150000 b0 c0"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("interrupts", [False, True])
def test_a_task_that_waits_for_all_its_stores_can_be_killed(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession, interrupts: bool
) -> None:
    """No limit applies to it: none of its stores is ahead."""
    cluster.create_topic("t", assignment=["ab"])
    hang(folders, "ab")
    context = columnar.sparkContext

    def write() -> None:
        context.setJobGroup("waiting", "waits for its stores", interruptOnCancel=interrupts)
        with pytest.raises(Exception, match="cancelled part of cancelled job group waiting"):
            save_by_java(some_rows(columnar), cluster, "t")

    writing = InheritableThread(target=write)
    writing.start()
    try:
        while not all(list(folders.at(store).glob("append/*/*.index")) for store in "ab"):
            time.sleep(0.01)
        context.cancelJobGroup("waiting")
        writing.join()
        while any(executor.numRunningTasks() for executor in context._jsc.sc().statusTracker().getExecutorInfos()):
            time.sleep(0.01)
    finally:
        release(folders, "ab")
    assert cluster.describe("t").records == 0


def test_a_store_that_is_wiped_meanwhile_holds_none_of_the_tasks_objects(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession
) -> None:
    """Nor the object that it took before."""
    cluster.create_topic("t", assignment=["ab"], config={"compression.type": "uncompressed"})
    mark = folders.at("b") / INCARNATION

    def wiping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            yield batch
            rows += batch.num_rows
            if rows > 60_000:  # the first object is full
                mark.unlink(missing_ok=True)

    frame = columnar.range(0, 80_000, 1, 1).selectExpr("rpad(cast(id as string), 1000, '.') as value")
    save_by_java(frame.mapInArrow(wiping, "value string"), cluster, "t")
    named = folders.state().objects
    assert len(named) > 1
    assert [[holder.store for holder in each.object.holders] for each in named] == [["a"]] * len(named)
    assert len(list(folders.at("b").glob("append/*/*.arrow"))) > 1, "the first one, too"
    assert replicas(folders, "t", 1) == ["a:a a80000 b0"]


def test_if_no_store_takes_the_rows_one_error_names_all(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession
) -> None:
    cluster.create_topic("t", assignment=["ab"])
    (folders.at("a") / INCARNATION).unlink()
    (folders.at("b") / "append").write_bytes(b"")
    frame = some_rows(columnar)
    with pytest.raises(SparklogError) as python:
        by_python(cluster, frame, topic="t")
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as java:
        save_by_java(frame, cluster, "t")
    assert f"{type(python.value).__name__}: {str(python.value).split('(')[0]}" in str(java.value)
    for store in "ab":
        assert f"store {store}: " in str(java.value)
    assert cluster.describe("t").records == 0


def test_a_store_that_is_catching_up_is_left_to_python(
    cluster: Cluster, folders: StoreFolders, columnar: SparkSession
) -> None:
    cluster.create_topic("t", assignment=["ab"])
    frame = some_rows(columnar)
    (folders.at("b") / INCARNATION).rename(folders.at("b") / "away")
    save(frame, cluster, "t")
    (folders.at("b") / "away").rename(folders.at("b") / INCARNATION)
    registration = folders.state().stores[StoreId("b")].registration
    cluster.connection.committer.submit(cluster.connection.committer.begin(AgentUp(StoreId("b"), registration)))
    assert begun(cluster, frame) is None
    save(frame, cluster, "t")
    assert replicas(folders, "t", 1) == ["a:a a200 b0"], "it has the newest records, and lacks the ones before"
    assert cluster.read("t", partition=0).num_rows == 200
