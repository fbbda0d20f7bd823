"""Lets Spark find `format("sparklog")` by itself: Spark imports the top-level packages that begin with "pyspark_"."""

from sparklog.spark.source import SparklogDataSource as DefaultSource

__all__ = ["DefaultSource"]
