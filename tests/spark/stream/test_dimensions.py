"""A topic that a stream is joined with: its records of today, as with Spark's Kafka connector."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster

pytestmark = pytest.mark.spark


@pytest.mark.sparks("latest", since="4.0", before="4.1", also="3.5")
def test_a_topic_joined_with_a_stream_is_read_up_to_its_present_end(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    joined_with_a_topic_that_grows(spark, cluster, tmp_path)


def joined_with_a_topic_that_grows(spark: SparkSession, cluster: Cluster, checkpoint: Path) -> None:
    """Each micro-batch finds the names that were written before it began."""
    for topic in ("orders", "names"):
        cluster.create_topic(topic)
    by_key = "cast(key as string) as key", "cast(value as string) as value"
    names = spark.read.format("sparklog").options(cluster=cluster.connection.url, subscribe="names").load()
    names = names.selectExpr(*by_key).withColumnRenamed("value", "name")
    asked = spark.readStream.format("sparklog").option("cluster", cluster.connection.url)
    orders = asked.option("subscribe", "orders").option("startingOffsets", "earliest").load().selectExpr(*by_key)
    writer = orders.join(names, "key").writeStream.format("memory").queryName("named")
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        for number in range(3):
            cluster.append("names", pa.table({"key": [f"k{number}"], "value": [f"name {number}"]}))
            cluster.append("orders", pa.table({"key": [f"k{at}" for at in range(5)], "value": [f"{number}"] * 5}))
            query.processAllAvailable()
            found = spark.table("named").where(f"value = '{number}'").collect()
            assert sorted(row.name for row in found) == [f"name {at}" for at in range(number + 1)]
    finally:
        query.stop()
        spark.sql("DROP VIEW named")
