"""Writes by Java whose executors or tasks die: each row is there once, or the write fails and none is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.columns.writing import values
from tests.spark.conftest import SPECULATING, TWO_HOSTS, OneSpark, Write
from tests.spark.stream.keyed_stream import KeyedStream
from tests.spark.stream.killed_driver import run_query

pytestmark = pytest.mark.spark
RECORDS = 400


@pytest.fixture
def two_hosts(one_spark: OneSpark) -> SparkSession:
    """Two executors of one core each, in JVMs of their own, with speculation."""
    return one_spark.session(TWO_HOSTS, spark__jars=str(jar()), **SPECULATING)


@pytest.mark.sparks("failures")
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
    assert len(cluster.connection.newest_state().objects) == 4


@pytest.mark.sparks("killed")
def test_a_micro_batch_whose_executor_is_killed_is_written_once(two_hosts: SparkSession, tmp_path: Path) -> None:
    """It dies with rows that Java has read and not yet written."""
    url = str(tmp_path / "cluster")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        stream = KeyedStream(cluster)
        stream.send(2)
        killing = faulty("kills", tmp_path / "first")
        query = run_query(two_hosts, "sparklog", url, str(tmp_path / "checkpoint"), killing)
        assert (tmp_path / "first").exists()
        stream.check()
    (source,) = query.recentProgress[0]["sources"]
    assert source["description"] == "Sparklog[Subscribe[in]]"  # Java's, not Python's


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
    assert len(cluster.connection.newest_state().objects) == 2


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
