"""Writes by Java whose planners, executors or tasks die: each row is there once, or the write fails and none is."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.columns.conftest import arguments
from tests.spark.columns.writing import values
from tests.spark.conftest import SPECULATING, TWO_HOSTS, OneSpark, Write

pytestmark = pytest.mark.spark
RECORDS = 400


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
    return one_spark.session(TWO_HOSTS, spark__jars=str(jar()), **SPECULATING)


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
