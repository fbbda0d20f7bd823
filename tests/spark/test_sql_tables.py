"""Tables of Spark's catalog on a log: made and read in SQL. What Spark can't do is in docs/compat.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

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


@pytest.mark.sparks("table", since="4.0")
def test_a_table_of_a_log_is_made_and_read(database: SparkSession, cluster: Cluster) -> None:
    for topic, value in (("t", "a"), ("u", "b")):
        cluster.create_topic(topic, partitions=2)
        cluster.append(topic, pa.table({"value": [value]}))
    options = f"(cluster '{cluster.connection.url}', subscribe 't', startingOffsets 'earliest')"
    database.sql(f"CREATE TABLE orders USING sparklog OPTIONS {options} COMMENT 'orders' TBLPROPERTIES ('team' = 'x')")
    values = "SELECT cast(value AS string) AS v FROM orders"
    assert [row.v for row in database.sql(values).collect()] == ["a"]
    ended = '(\'endingOffsets\' = \'{"t": {"0": 0, "1": 0}}\')'
    assert database.sql(f"{values} WITH {ended}").collect() == []
    assert [row.v for row in database.sql(f"{values} WITH ('subscribe' = 'u')").collect()] == ["b"]


def test_a_table_of_a_log_is_read_as_a_stream(database: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    for topic, value in (("t", "a"), ("u", "b")):
        cluster.create_topic(topic, partitions=1)
        cluster.append(topic, pa.table({"value": [value]}))
    options = f"(cluster '{cluster.connection.url}', subscribe 't', startingOffsets 'earliest')"
    database.sql(f"CREATE TABLE orders USING sparklog OPTIONS {options}")

    def rows(stream: DataFrame) -> list[str]:
        seen: list[str] = []

        def keep(batch: DataFrame, batch_id: int) -> None:
            seen.extend(row.v for row in batch.selectExpr("cast(value AS string) AS v").collect())

        query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", mkdtemp(dir=tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()
        return seen

    assert rows(database.readStream.table("orders")) == ["a"]
    assert rows(database.readStream.option("startingOffsets", "latest").table("orders")) == []
    assert rows(database.sql("SELECT value FROM STREAM orders WHERE offset = 0")) == ["a"]
    with_options = "SELECT * FROM STREAM orders WITH ('subscribe' = 'u', 'startingOffsets' = 'earliest')"
    assert rows(database.sql(with_options)) == ["b"]

    cluster.create_topic("out", partitions=1)
    database.sql(f"CREATE TABLE written USING sparklog OPTIONS (cluster '{cluster.connection.url}', subscribe 'out')")
    copy = database.readStream.table("orders").select("value").writeStream.trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="INSERT INTO, saveAsTable and toTable can't append to a log"):
        copy.option("checkpointLocation", mkdtemp(dir=tmp_path)).toTable("written").awaitTermination()
    assert cluster.describe("out").records == 0


@pytest.mark.sparks("insert", since="4.0", refused=True)
def test_an_insert_that_spark_sends_without_its_table_is_refused(database: SparkSession, cluster: Cluster) -> None:
    """Spark gives the writer the schema of the rows, at times with what another table keeps: no guess is made."""
    for topic in ("t", "u"):
        cluster.create_topic(topic, partitions=1)
        at = f"(cluster '{cluster.connection.url}', subscribe '{topic}', topic '{topic}')"
        database.sql(f"CREATE TABLE of_{topic} USING sparklog OPTIONS {at}")
    cluster.append("t", pa.table({"value": ["a"]}))
    for insert in (
        "INSERT INTO of_u SELECT * FROM of_t",
        "INSERT INTO of_u (value) VALUES (cast('c' AS binary))",
        "INSERT INTO of_u WITH ('topic' = 'u') (value) SELECT value FROM of_t",
    ):
        # Spark 4.0 itself wants all columns
        with pytest.raises(
            PySparkException, match=r"INSERT INTO, saveAsTable and toTable can't append to a log|CANNOT_FIND_DATA"
        ):
            database.sql(insert)
    with pytest.raises(PySparkException, match="INSERT INTO, saveAsTable and toTable can't append to a log"):
        database.table("of_t").write.mode("append").format("sparklog").saveAsTable("of_u")
    with pytest.raises(PySparkException, match="a log can only be appended to: use"):
        database.sql("INSERT OVERWRITE of_u SELECT * FROM of_t")
    elsewhere = {"cluster": cluster.connection.url, "topic": "u"}
    database.table("of_t").drop("topic").write.format("sparklog").mode("append").options(**elsewhere).save()
    assert (cluster.describe("t").records, cluster.describe("u").records) == (1, 1)


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
    ):
        with pytest.raises(
            PySparkException, match=r"INVALID_OPTION: wanted options .*, found none. Spark passes on the options of a"
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


@pytest.mark.sparks("table", since="4.0")
def test_a_table_whose_columns_were_altered_is_refused_until_it_is_made_again(
    database: SparkSession, cluster: Cluster
) -> None:
    cluster.create_topic("t", partitions=1)
    cluster.append("t", pa.table({"value": ["a"]}))
    create = f"CREATE TABLE orders USING sparklog OPTIONS (cluster '{cluster.connection.url}', subscribe 't')"
    for change, found in (
        ("ADD COLUMNS (x int)", "found key, value, topic, partition, offset, timestamp, timestampType, x: a log's col"),
        ("DROP COLUMN key", "found value, topic, partition, offset, timestamp, timestampType: a log's columns are fix"),
        ("DROP COLUMN timestampType", "if its columns were never altered"),
    ):
        database.sql(create)
        database.sql(f"ALTER TABLE orders {change}")
        with pytest.raises(PySparkException, match=found):
            database.sql("SELECT value FROM orders").collect()
        database.sql("DROP TABLE orders")
    database.sql(create)
    assert database.sql("SELECT value FROM orders").count() == 1
