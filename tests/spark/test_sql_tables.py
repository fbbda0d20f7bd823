"""Tables of Spark's catalog on a log: made, read and appended to in SQL. What Spark can't do is in docs/compat.md."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster

pytestmark = pytest.mark.spark


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """A database of its own; at the end nothing of it is left."""
    spark.sql("CREATE DATABASE of_logs")
    spark.sql("USE of_logs")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE of_logs CASCADE")


def test_a_table_of_a_log_is_made_read_and_appended_to(database: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    cluster.append("t", pa.table({"value": ["a", "b"]}))
    options = f"(cluster '{cluster.connection.url}', subscribe 't', topic 't', startingOffsets 'earliest')"
    database.sql(f"CREATE TABLE orders USING sparklog OPTIONS {options} COMMENT 'orders' TBLPROPERTIES ('team' = 'x')")
    database.sql("INSERT INTO orders (value) VALUES (cast('c' AS binary))")
    database.sql("SELECT cast('d' AS binary) AS value").write.mode("append").format("sparklog").saveAsTable("orders")
    rows = database.sql("SELECT cast(value AS string) AS v FROM orders").collect()
    assert sorted(row.v for row in rows) == ["a", "b", "c", "d"]
    ended = '(\'endingOffsets\' = \'{"t": {"0": 0, "1": 0}}\')'
    assert database.sql(f"SELECT * FROM orders WITH {ended}").collect() == []
    with pytest.raises(PySparkException, match="a log is appended to; use"):
        database.sql("INSERT OVERWRITE orders SELECT * FROM orders")


def test_tables_whose_options_spark_keeps_to_itself_are_refused_with_a_reason(
    database: SparkSession, cluster: Cluster
) -> None:
    cluster.create_topic("t", partitions=1)
    options = {"cluster": cluster.connection.url, "topic": "t"}
    database.sql("SELECT 'a' AS value").write.format("sparklog").mode("append").options(**options).saveAsTable("saved")
    in_sql = f"USING sparklog OPTIONS (cluster '{cluster.connection.url}', subscribe 't', topic 't')"
    database.sql(f"CREATE TABLE listed (value binary) {in_sql}")
    for statement in (
        "SELECT * FROM saved",
        "SELECT * FROM listed",
        "INSERT INTO listed VALUES (cast('b' AS binary))",
        f"CREATE TABLE selected {in_sql} AS SELECT 'b' AS value",
    ):
        with pytest.raises(
            PySparkException, match=r"INVALID_OPTION: wanted options .*, found none. Spark hands over those of a t"
        ):
            database.sql(statement).collect()
    assert cluster.describe("t").records == 1


def test_a_table_with_a_secret_is_never_made(database: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    secret = "'storage.local.secret_access_key' 'hush-hush'"
    with pytest.raises(PySparkException, match="a secret can't be one of them") as raised:
        database.sql(
            f"CREATE TABLE bare USING sparklog OPTIONS (cluster '{cluster.connection.url}', subscribe 't', {secret})"
        )
    assert "hush-hush" not in str(raised.value)
    assert not database.catalog.tableExists("bare")
