"""sparklog as a Spark data source: `format("sparklog")`. Only this package and `jobs/` import pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["by_partition", "register"]


def register(spark: SparkSession) -> None:
    """Make `format("sparklog")` known to a session that does not find it by itself; harmless if it does.

    Spark finds the source by itself if the wheel is installed in the driver's Python (under Connect, the server's). If
    the package comes by `--py-files` or `--archives`, call this first.
    """
    from sparklog.spark.source import SparklogDataSource

    if not _is_known(spark, SparklogDataSource.name()):
        spark.dataSource.register(SparklogDataSource)


def _is_known(spark: SparkSession, name: str) -> bool:
    """True if the session already finds the source: registering it again makes Spark warn that it was replaced.

    A Connect client cannot ask; there the warning stays in the server's log.
    """
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(session.sessionState().dataSourceManager().dataSourceExists(name))


def by_partition(df: DataFrame, topic: str, tasks: int | None = None, cluster: str | None = None) -> DataFrame:
    """Shuffle the rows of `df` so that each task writes to few partitions; see `sparklog.spark.partitioning`."""
    from sparklog.spark.partitioning import by_partition as shuffled

    return shuffled(df, topic, tasks, cluster)
