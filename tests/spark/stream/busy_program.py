"""A program with one stream, from topic "in" to topic "out", as users submit it: python -m … CLUSTER CHECKPOINT"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(cluster: str, checkpoint: str) -> None:
    """Run the query up to what there is, in three micro-batches."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    source = spark.readStream.format("sparklog").option("cluster", cluster).option("subscribe", "in")
    rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4).load()
    sink = rows.select("value").writeStream.format("sparklog").option("cluster", cluster).option("topic", "out")
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
