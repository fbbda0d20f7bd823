"""A stream job from one topic to two: valid orders go to one topic, all other records to the other.

spark-submit examples/stream_job.py --cluster URL --from orders --to valid-orders --rejected rejected-orders \\
    --group sorting --checkpoint URL [--continuous]

Each micro-batch is one commit of its records in both topics and of the group's offsets in the input. Kill the job at
any time and start it again: every order ends up in one of the topics, once. By default the job ends when it has read
all records that existed at its start, so that a scheduler can start it repeatedly; with --continuous it keeps running.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import sparklog.spark

ORDER = "id BIGINT, customer STRING, amount DECIMAL(10, 2)"


def sorted_out(orders: DataFrame, valid: str, rejected: str) -> DataFrame:
    """Return the unchanged keys and values, each with its target topic: `valid` or `rejected`."""
    order = f.from_json(f.col("value").cast("string"), ORDER)
    is_valid = order["id"].isNotNull() & (order["amount"] > 0)
    topic = f.when(is_valid, f.lit(valid)).otherwise(f.lit(rejected))
    return orders.select("key", "value", topic.alias("topic"))


def run(spark: SparkSession, given: argparse.Namespace) -> None:
    """Run the query until it has read all that existed at its start; with --continuous, until it is stopped."""
    shared = {"cluster": given.cluster, "groupId": given.group}
    source = spark.readStream.format("sparklog").options(**shared).option("subscribe", given.source)
    orders = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100_000).load()
    sink = sorted_out(orders, given.to, given.rejected).writeStream.format("sparklog").options(**shared)
    sink = sink.option("checkpointLocation", given.checkpoint).queryName("sort orders")
    query = sink.start() if given.continuous else sink.trigger(availableNow=True).start()
    query.awaitTermination()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--from", dest="source", default="orders")
    parser.add_argument("--to", default="valid-orders")
    parser.add_argument("--rejected", default="rejected-orders")
    parser.add_argument("--group", default="sorting")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--continuous", action="store_true")
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.appName("sort orders").getOrCreate()
    sparklog.spark.register(spark)
    run(spark, given)


if __name__ == "__main__":
    main(sys.argv[1:])
