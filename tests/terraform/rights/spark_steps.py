"""What roles do by Spark, each step a process: `python spark_steps.py write|read|stream-read|stream-write`.

The cluster is that of SPARKLOG_CLUSTER. Executors take keys and the address of S3 from the environment, as roles do.
"""

from __future__ import annotations

import os
import sys
import tempfile

from pyspark.sql import SparkSession

TOPIC = "orders"


def main(step: str) -> None:
    cluster = os.environ["SPARKLOG_CLUSTER"]
    with tempfile.TemporaryDirectory() as checkpoint:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        try:
            source = {"cluster": cluster, "subscribe": TOPIC}
            sink = {"cluster": cluster, "topic": TOPIC}
            if step == "write":
                rows = spark.range(1_000).selectExpr("cast(id as string) key", "cast(id as string) value")
                rows.write.format("sparklog").options(**sink).mode("append").save()
            elif step == "read":
                read = spark.read.format("sparklog").options(**source, startingOffsets="earliest").load()
                assert read.count() > 1_000
                assert read.selectExpr("max(length(value))").collect()
            elif step == "stream-read":
                read = spark.readStream.format("sparklog").options(**source, startingOffsets="earliest").load()
                written = read.selectExpr("length(value) size").writeStream.format("parquet")
                places = {"checkpointLocation": f"{checkpoint}/state", "path": f"{checkpoint}/data"}
                written.options(**places).trigger(availableNow=True).start().awaitTermination()
            else:
                rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
                written = rows.selectExpr("cast(value as string) value").writeStream.format("sparklog")
                query = written.options(**sink, checkpointLocation=f"{checkpoint}/state").start()
                while query.lastProgress is None and query.exception() is None:
                    query.awaitTermination(1)
                query.stop()
                assert query.exception() is None, query.exception()
        finally:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
