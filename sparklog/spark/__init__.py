"""sparklog as a data source of Spark: `format("sparklog")`. The only package, with `jobs/`, that imports pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["by_partition", "register"]


def register(spark: SparkSession) -> None:
    """Make `format("sparklog")` known to a session that does not find it by itself; harmless where it does.

    Spark finds the source where the wheel is installed in the Python of the driver (under Connect: of the server).
    Where the package comes by `--py-files` or `--archives` this call is needed first.
    """
    from sparklog.spark.source import SparklogDataSource

    if not _is_known(spark, SparklogDataSource.name()):
        spark.dataSource.register(SparklogDataSource)


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether the session finds the source: to register it again makes Spark warn that it was replaced. A Connect
    client can't ask; there the server keeps the warning to itself.
    """
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(session.sessionState().dataSourceManager().dataSourceExists(name))


def by_partition(df: DataFrame, topic: str, tasks: int | None = None, cluster: str | None = None) -> DataFrame:
    """Rows of `df` shuffled so that each task writes to few partitions; see `sparklog.spark.partitioning`."""
    from sparklog.spark.partitioning import by_partition as shuffled

    return shuffled(df, topic, tasks, cluster)
