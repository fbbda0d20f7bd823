"""Planners that die: a read is not wrong, and a write is there once, or fails and none of it is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sparklog.cli.main import run
from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.columns.conftest import arguments
from tests.spark.columns.writing import values
from tests.spark.conftest import OneSpark, Write
from tests.spark.rewriting import roll_and_delete

pytestmark = pytest.mark.spark


def test_a_planner_that_dies_during_a_write_is_not_missed(
    cluster: Cluster, columnar: SparkSession, write: Write
) -> None:
    """The next one commits what this one planned, and nothing if there are no rows."""
    cluster.create_topic("t")
    state = cluster.connection.newest_state()

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
        assert cluster.connection.newest_state().n == state.n + (rows > 0)


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
            time.sleep(15)  # longer than Java waits for its end
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
    state = cluster.connection.newest_state()
    left.write_text(str(deaths))
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as value")
    if deaths == 1:
        write(frame, "t")
    else:
        version = {"txnAppId": "app", "txnVersion": "1"}
        unknown = (
            r"COMMIT_OUTCOME_UNKNOWN: write \S+ may have landed: run it again with the same txnAppId 'app' .*, or look"
        )
        with pytest.raises(AnalysisException, match=unknown):
            write(frame, "t", **version)
        write(frame, "t", **version)  # a repeat adds nothing
    assert left.read_text() == "0"
    assert cluster.describe("t").records == 10
    assert cluster.connection.newest_state().n == state.n + 1


def test_a_commit_of_unknown_outcome_is_looked_up_by_its_id(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path
) -> None:
    spark, left = session_of_planner(one_spark, tmp_path, DIES_AFTER_COMMIT)
    cluster.create_topic("t")
    left.write_text("3")
    with pytest.raises(AnalysisException, match="COMMIT_OUTCOME_UNKNOWN") as raised:
        write(spark.range(10).selectExpr("cast(id as string) as value"), "t")
    found = re.search("look the write up with 'sparklog chain write (.+?)' before it is run again", str(raised.value))
    assert found is not None
    assert run(["--cluster", cluster.connection.url, "chain", "write", found[1]]) == 0


def test_a_planner_may_die_at_each_step_of_a_commit(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path
) -> None:
    """A step: it opens, links or removes a file of the cluster, or looks at one."""
    url = cluster.connection.url.removeprefix("file://")
    spark, left = session_of_planner(one_spark, tmp_path, DIES_DURING_COMMIT.replace("{folder!r}", repr(url)))
    cluster.create_topic("t")
    n = cluster.connection.newest_state().n
    for step in range(1, 1000):
        left.write_text(str(step))
        write(spark.range(step * 10, step * 10 + 10, 1, 2).selectExpr("cast(id as string) as value"), "t")
        assert sorted(int(value) for value in values(cluster, 1)) == list(range(10, step * 10 + 10))
        assert cluster.connection.newest_state().n == n + step
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


DIES_IN_PLAN = """
def dies_in_plan(name):
    answer = planner._REQUESTS[name]

    def die(payload):
        if left.read_text() == name:
            left.write_text("0")
            os._exit(9)
        return answer(payload)

    planner._REQUESTS[name] = die

for name in ("columns", "stores", "plan_read", "plan_write", "topic", "topics", "create_topic"):
    dies_in_plan(name)
"""
DIES_BETWEEN_BATCHES = """
batches = 0
answer = planner.OpenReaders.answer

def few(readers, name, payload):
    global batches
    batches += name == "next"
    if batches == 3 and left.read_text() == "1":
        left.write_text("0")
        os._exit(9)
    return answer(readers, name, payload)

planner.OpenReaders.answer = few
"""


@pytest.mark.parametrize("request_name", ["columns", "stores", "plan_read", "plan_write"])
def test_what_is_only_planned_is_planned_by_the_next_planner(
    cluster: Cluster, one_spark: OneSpark, write: Write, tmp_path: Path, request_name: str
) -> None:
    spark, left = session_of_planner(one_spark, tmp_path, DIES_IN_PLAN)
    cluster.create_topic("t")
    left.write_text(request_name)
    write(spark.range(10).selectExpr("cast(id as string) as value"), "t")
    read = spark.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    assert read.load().count() == 10
    assert left.read_text() == "0"


def test_a_topic_may_have_been_created_by_a_planner_that_died(
    cluster: Cluster, one_spark: OneSpark, tmp_path: Path
) -> None:
    """The statement is not repeated: it would say that the topic is there already."""
    spark, left = session_of_planner(one_spark, tmp_path, DIES_IN_PLAN)
    spark.conf.set("spark.sql.catalog.log", "io.sparklog.LogCatalog")
    spark.conf.set("spark.sql.catalog.log.cluster", cluster.connection.url)
    left.write_text("topics")
    assert spark.sql("SHOW TABLES IN log").collect() == []
    left.write_text("create_topic")
    with pytest.raises(AnalysisException, match="COMMIT_OUTCOME_UNKNOWN: the statement may have changed topic new"):
        spark.sql("CREATE TABLE log.new")
    assert left.read_text() == "0"


def test_a_planner_may_die_between_the_batches_of_a_read(cluster: Cluster, one_spark: OneSpark, tmp_path: Path) -> None:
    """The objects of the plan have gone, so Python reads."""
    spark, left = session_of_planner(one_spark, tmp_path, DIES_BETWEEN_BATCHES)
    cluster.create_topic("t")
    for first in range(0, 60, 10):
        cluster.append("t", pa.table({"value": [f"{first + at:0100000}" for at in range(10)]}))
    read = spark.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    read = read.option("maxBytesPerPartition", str(1 << 30))
    frame = read.load().selectExpr("cast(cast(value as string) as int) as number")
    frame._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()  # planned
    roll_and_delete(cluster, "t")
    left.write_text("1")
    assert [row.number for row in frame.collect()] == list(range(60))
    assert left.read_text() == "0"
