"""Failures in a job with real executors: each leaves exactly the rows it should."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparklog.client.cluster import Cluster
from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES
from sparklog.storage.keys import parse_data_key
from tests.spark.conftest import SPECULATING, TWO_HOSTS, OneSpark, Read, Write
from tests.spark.faulty_source import MEETING, FaultySource
from tests.spark.kills.deaths import Deaths
from tests.spark.rewriting import roll_and_delete

pytestmark = pytest.mark.spark

ROWS = 400


@pytest.fixture
def spark(one_spark: OneSpark, deaths: Deaths) -> SparkSession:
    """Two executors of one core each, in JVMs of their own, with speculation. They die as planned."""
    session = one_spark.session(TWO_HOSTS, **SPECULATING, **deaths.settings())
    if HAS_PYTHON_SOURCES:
        session.dataSource.register(FaultySource)
    return session


def numbers(spark: SparkSession, tasks: int = 4) -> DataFrame:
    return spark.range(0, ROWS, 1, tasks).selectExpr("cast(id as string) as value")


def landed(read: Read) -> list[int]:
    return sorted(int(row.value) for row in read("t").select("value").collect())


def uploads(cluster: Cluster, since: int = 0) -> int:
    """The append objects of writes that began with this entry or later. A speculative task may upload late."""
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    names = [parse_data_key(each.key) for each in store.list_keys("append/")]
    return sum(name is not None and not name.is_index and name.n0 >= since for name in names)


def named(cluster: Cluster) -> int:
    state = cluster.connection.newest_state()
    return len(state.objects)


@pytest.fixture
def meeting_place(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / MEETING)
    return str(tmp_path)


# M: I-03 (loses)
@pytest.mark.sparks("failures", since="4.0")
def test_tasks_that_fail_after_their_upload_leave_each_row_once(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    write(numbers(spark), "t", source="sparklog_faulty", fault="fails at first")
    assert landed(read) == list(range(ROWS))
    # Not 8: on a busy machine a speculative copy may win before the first attempt has uploaded, or upload besides it.
    assert uploads(cluster) > named(cluster) == 4


# M: I-03 (loses)
def test_a_job_that_fails_for_good_leaves_nothing_visible(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    with pytest.raises(PySparkException, match="this task never succeeds"):
        write(numbers(spark), "t", source="sparklog_faulty", fault="fails for good")
    assert uploads(cluster) >= 3
    assert (landed(read), named(cluster)) == ([], 0)
    write(numbers(spark), "t")
    assert landed(read) == list(range(ROWS))


# M: I-03 (loses)
@pytest.mark.sparks("failures", since="4.0")
def test_speculative_attempts_that_both_upload_leave_each_row_once(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write, meeting_place: str
) -> None:
    cluster.create_topic("t", partitions=2)
    write(numbers(spark), "t", source="sparklog_faulty", fault="stalls at first", fault_dir=meeting_place)
    assert landed(read) == list(range(ROWS))
    assert uploads(cluster) > named(cluster) == 4


# M: I-03
def test_commit_that_is_submitted_again_leaves_each_row_once(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    write(numbers(spark), "t", source="sparklog_faulty", fault="submits again")
    assert landed(read) == list(range(ROWS))


# M: I-03 (loses)
def test_a_job_that_failed_after_its_commit_is_run_again_as_a_no_op(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    with pytest.raises(PySparkException, match="the reply of the commit was lost"):
        write(
            numbers(spark), "t", source="sparklog_faulty", fault="fails after the commit", txnAppId="job", txnVersion=1
        )
    assert landed(read) == list(range(ROWS))
    committed = cluster.connection.follower.catch_up().state.n
    write(numbers(spark), "t", txnAppId="job", txnVersion=1)
    assert landed(read) == list(range(ROWS))
    assert uploads(cluster, since=committed) == 0


# M: I-03
def test_without_the_commit_in_the_driver_speculation_would_write_rows_twice(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write, meeting_place: str
) -> None:
    """The guard that the speculation test rests on: with tasks that commit themselves it would fail."""
    cluster.create_topic("t", partitions=2)
    write(numbers(spark), "t", source="sparklog_faulty", fault="commits in its tasks", fault_dir=meeting_place)
    assert len(landed(read)) > ROWS
    assert sorted(set(landed(read))) == list(range(ROWS))


# M: I-03
def test_without_one_command_id_a_second_commit_is_refused_for_its_uploads(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    """The guard that the re-submission test rests on: with an id drawn in `commit` it would fail."""
    cluster.create_topic("t", partitions=2)
    with pytest.raises(Exception, match="DUPLICATE_RESOURCE"):
        write(numbers(spark), "t", source="sparklog_faulty", fault="draws the command id in commit")
    assert landed(read) == list(range(ROWS))


# M: S-09 R-04
@pytest.mark.sparks("latest", since="4.1", also="3.5")
def test_a_dataframe_outlives_the_objects_of_its_plan(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    write(numbers(spark), "t")
    df = read("t", minPartitions=4)
    before = df.orderBy("partition", "offset").collect()
    roll_and_delete(cluster, "t")
    write(numbers(spark), "t")
    assert df.orderBy("partition", "offset").collect() == before
    assert len(before) == ROWS


@pytest.mark.sparks("latest", since="4.1", also="3.5")
def test_a_stream_joins_a_dataframe_over_a_roll(
    spark: SparkSession, one_spark: OneSpark, cluster: Cluster, read: Read, write: Write, tmp_path: Path
) -> None:
    """In Python, the static side is planned once for all micro-batches; its objects are gone after the first."""
    cluster.create_topic("t", partitions=2)
    write(spark.range(10).selectExpr("cast(id as string) as key", "concat('v', id) as value"), "t")
    arrivals = tmp_path / "in"
    arrivals.mkdir()
    names = read("t").selectExpr("cast(key as string) as k", "cast(value as string) as name")
    joined = spark.readStream.schema("k string").json(str(arrivals)).join(names, "k")
    query = (
        joined.writeStream.format("memory")
        .queryName("joined")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        (arrivals / "1.json").write_text('{"k": "3"}\n')
        query.processAllAvailable()
        roll_and_delete(cluster, "t")
        cluster.append("t", pa.table({"key": ["3", "4"], "value": ["late", "late"]}))
        (arrivals / "2.json").write_text('{"k": "3"}\n{"k": "4"}\n')
        query.processAllAvailable()
    finally:
        query.stop()
    late = [("3", "late"), ("4", "late")] if one_spark.with_jar else []  # Java plans it for each
    found = spark.sql("select k, name from joined").collect()
    assert sorted(map(tuple, found)) == sorted([("3", "v3"), ("3", "v3"), ("4", "v4"), *late])
