"""Writes by Java to an HDFS that fails at each of its calls: each row is there once, or the write fails and none is."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.types import StoreId
from sparklog.maintenance.verify.verify_job import run_verify
from tests.jar import jar
from tests.jvm.java_program import classes
from tests.kit.silent_console import SILENT
from tests.servers.hadoop import Hadoop
from tests.spark.columns.writing import indexes, save
from tests.spark.conftest import OneSpark

pytestmark = pytest.mark.spark
ALWAYS = 1 << 30
ROWS = 40
STREAMED = 80_000  # bytes of a row: together they are more than a task holds before it writes to the store


@pytest.fixture
def faulty(one_spark: OneSpark) -> SparkSession:
    """A session whose HDFS has faults, once `begin` of io.sparklog.FaultyHdfs was called."""
    return one_spark.session(
        "local[1]",
        spark__jars=str(jar()),
        spark__driver__extraClassPath=str(classes()),
        spark__hadoop__fs__AbstractFileSystem__hdfs__impl="io.sparklog.FaultyHdfs",
    )


@pytest.fixture
def on_hdfs(hadoop: Hadoop) -> Iterator[Cluster]:
    """A cluster on HDFS."""
    url = f"{hadoop.url}/{uuid.uuid4().hex}"
    init_cluster(url, stores={"a": "."})
    with sparklog.connect(url) as cluster:
        yield cluster


def rows_of(cluster: Cluster, partitions: int) -> list[int]:
    """The numbers in the values of the topic."""
    tables = [cluster.read("t", partition=partition) for partition in range(partitions)]
    return sorted(int(value[:8]) for table in tables for value in table["value"].to_pylist())


def failure_of(frame: DataFrame, cluster: Cluster) -> str | None:
    """Write the rows of a frame. Return the error, or None."""
    try:
        save(frame, cluster, "t")
    except PySparkException as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("kind", "partitions", "width"),
    [
        ("before", 2, 8),
        ("after", 2, 8),
        ("for good", 2, 8),
        ("before", 1, STREAMED),
        pytest.param("after", 1, STREAMED, marks=pytest.mark.campaign),
        pytest.param("for good", 1, STREAMED, marks=pytest.mark.campaign),
    ],
)
def test_a_fault_at_each_call_of_the_store(
    faulty: SparkSession, on_hdfs: Cluster, kind: str, partitions: int, width: int
) -> None:
    """A call fails without effect, or only its reply is lost, or all fail from then on.

    A single failure costs at most another object. If a part of an object was already streamed to the store, it costs
    the write.
    """
    on_hdfs.create_topic("t", partitions=partitions, config={"compression.type": "uncompressed"})
    faults = faulty._jvm.io.sparklog.FaultyHdfs
    landed: list[int] = []
    failures = faulty_writes = 0
    for at in range(1, ALWAYS):
        numbers = range(at * ROWS, at * ROWS + ROWS)
        values = f"rpad(lpad(id, 8, '0'), {width}, '.') as value"
        frame = faulty.range(numbers.start, numbers.stop, 1, 1).selectExpr("cast(id as string) as key", values)
        faults.begin(at, ALWAYS if kind == "for good" else at, kind == "after")
        failure = failure_of(frame, on_hdfs)
        if failure is None:
            landed += numbers
        else:
            assert re.search("StoreUnavailable: KAFKA_STORAGE_ERROR: .* a fault ", failure)
            failures += 1
        faulty_writes += faults.faults() > 0
        is_last = faults.calls() < at
        faults.begin(0, 0, False)
        assert rows_of(on_hdfs, partitions) == landed
        if is_last:
            break
    assert at > 12, "create, write, close and rename of two files, and the check; more if a folder is new"
    assert at - 2 <= faulty_writes <= at - 1, "a rename to a folder that is not there fails anyway"
    assert failures == (0 if kind != "for good" and partitions > 1 else faulty_writes)
    assert landed[-ROWS:] == list(numbers), "without a fault there is no failure"
    state = on_hdfs.connection.newest_state()
    assert len(indexes(on_hdfs, "t")) == len(state.objects) == at - failures
    assert run_verify(on_hdfs.connection.url, console=SILENT).differences == ()
    store = on_hdfs.connection.stores(state).get(StoreId("a"))
    assert not any(".tmp" in stored.key for stored in store.list_keys(""))
