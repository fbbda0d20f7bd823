"""Spark 3.5, which has no data sources in Python: sparklog's JAR does all, or says what to do instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sparklog.spark
from sparklog.client.cluster import Cluster
from sparklog.core.commands import AgentUp
from sparklog.core.errors import InvalidInput
from sparklog.core.types import StoreId
from sparklog.spark.jar import add_jar_unless_there
from sparklog.storage.keys import INCARNATION
from tests.faults.store_folders import StoreFolders
from tests.jar import jar
from tests.spark.columns.writing import save
from tests.spark.conftest import OneSpark, Read, Write
from tests.spark.rewriting import roll_and_delete

pytestmark = pytest.mark.spark


@pytest.mark.sparks("metadata", before="4.0", refused=True)
def test_the_logs_own_state_is_refused_by_name(cluster: Cluster, read: Read) -> None:
    with pytest.raises(
        PySparkException, match=r"INVALID_OPTION: metadata: topics: this Spark has no .* use the command"
    ):
        read(metadata="topics")


@pytest.mark.sparks("table", before="4.0", refused=True)
@pytest.mark.sparks("insert", before="4.0", refused=True)
def test_a_table_of_sparks_own_catalog_is_refused_by_spark(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    spark.sql(f"CREATE TABLE orders USING sparklog OPTIONS (cluster '{cluster.connection.url}', subscribe 't')")
    try:
        for statement in ("SELECT * FROM orders", "INSERT INTO orders SELECT 'a' AS value"):
            with pytest.raises(Exception, match="sparklog is not a valid Spark SQL Data Source"):
                spark.sql(statement)
    finally:
        spark.sql("DROP TABLE orders")


@pytest.mark.sparks("wrong", before="4.0")
def test_what_only_python_writes_or_reads_is_refused_by_name(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=1)
    with pytest.raises(
        PySparkException, match=r"INVALID_OPTION: reader: wanted auto or columns, found rows: this Spark"
    ):
        read("t", reader="rows")
    with pytest.raises(
        PySparkException, match=r"column 'partition': wanted int or smallint or tinyint, found bigint: "
    ):
        write(spark.sql("SELECT 'a' AS value, 0L AS partition"), "t")
    assert cluster.describe("t").records == 0


@pytest.mark.sparks("replicas", before="4.0")
def test_what_java_cannot_write_is_written_by_planners(spark: SparkSession, tmp_path: Path) -> None:
    """A store that is catching up stands for all stores of other kinds."""
    folders = StoreFolders.create(tmp_path)
    frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as key", "repeat('x', 5000) as value")
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["ab", "ab"])
        (folders.at("b") / INCARNATION).rename(folders.at("b") / "away")
        save(frame, cluster, "t")
        (folders.at("b") / "away").rename(folders.at("b") / INCARNATION)
        registration = folders.state().stores[StoreId("b")].registration
        cluster.connection.committer.submit(cluster.connection.committer.begin(AgentUp(StoreId("b"), registration)))
        save(frame, cluster, "t")
        for partition in range(2):
            keys = cluster.read("t", partition=partition)["key"].to_pylist()
            assert keys[: len(keys) // 2] == keys[len(keys) // 2 :], "the rows of a task keep their order"
        assert cluster.describe("t").records == 2000


@pytest.mark.sparks("planner", before="4.0")
def test_the_planner_has_a_python_of_its_own(one_spark: OneSpark, cluster: Cluster, tmp_path: Path) -> None:
    """Driver and workers of PySpark 3.5 may run one that is too old for sparklog: here there is none at all."""
    cluster.create_topic("t", partitions=1)
    python, started = tmp_path / "python", tmp_path / "started"
    python.write_text(f'#!/bin/sh\necho x >> {started}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    own = {"spark__pyspark__python": "/no/python", "spark__sparklog__python": str(python)}
    spark = one_spark.session("local-cluster[2,1,1024]", spark__executor__memory="512m", **own)
    try:
        save(spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value"), cluster, "t")
        asked = spark.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
        values = asked.load().select("value")
        values._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()  # planned
        roll_and_delete(cluster, "t")  # so that an executor's planner reads
        assert len(values.collect()) == 100
    finally:
        one_spark.stop()
    assert len(started.read_text().split()) >= 2


@pytest.mark.sparks("py_files", before="4.0")
def test_register_adds_the_jar(one_spark: OneSpark, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a JVM that has never seen it. Where there is none, the error says how it is given."""
    one_spark.stop()
    monkeypatch.setattr(one_spark, "with_jar", False)
    spark = one_spark.session("local[2]")
    try:
        cluster.create_topic("t", partitions=1)
        cluster.append("t", pa.table({"value": [b"v"] * 3}))
        monkeypatch.setattr("sparklog.spark.jar._JAR", jar().with_name("none"))
        with pytest.raises(InvalidInput, match=r"wanted .*none, found none: .* start Spark with --jars"):
            sparklog.spark.register(spark)
        monkeypatch.setattr("sparklog.spark.jar._JAR", jar())
        sparklog.spark.register(spark)
        asked = spark.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
        assert asked.load().count() == 3
        monkeypatch.setattr("sparklog.spark.jar.add_jar", None)
        add_jar_unless_there(spark)
    finally:
        one_spark.end()
