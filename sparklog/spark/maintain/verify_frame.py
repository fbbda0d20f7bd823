"""Verifies a cluster on the executors of a session, and returns the differences as a DataFrame."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from sparklog.core.errors import InvalidOption
from sparklog.core.maintenance.differences import Difference
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.spark.lazy_connection import default_cluster
from sparklog.spark.maintain.spark_tasks import SparkTasks

SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
        StructField("store", StringType()),
        StructField("object", StringType()),
        StructField("kind", StringType()),
        StructField("wanted", StringType()),
        StructField("found", StringType()),
        StructField("repairable", BooleanType()),
        StructField("advice", StringType()),
    ]
)


def differences(
    spark: SparkSession,
    cluster: str | None = None,
    *,
    topics: Collection[str] = (),
    stores: Collection[str] = (),
    share: int = 1,
) -> DataFrame:
    """Run the verify job; return a DataFrame with a row for each difference. See `sparklog.spark.verify`."""
    url = cluster or default_cluster()
    if not url:
        raise InvalidOption("verify: wanted the address of a cluster, found neither `cluster` nor SPARKLOG_CLUSTER")
    report = run_verify(url, stores=stores, share=share, topics=topics or None, tasks=SparkTasks(spark))
    return spark.createDataFrame([_row(difference) for difference in report.differences], SCHEMA)


def _row(difference: Difference) -> tuple[object, ...]:
    values = (getattr(difference, field.name) for field in SCHEMA.fields)
    return tuple(str(value) if isinstance(value, str) else value for value in values)
