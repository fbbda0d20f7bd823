"""sparklog as a Spark data source: `format("sparklog")`. Only this package and `jobs/` import pyspark.

Read source.py first: it is what Spark calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle
    from sparklog.spark.maintain.spark_tasks import SparkTasks

__all__ = [
    "SparkKeyShuffle",
    "SparkTasks",
    "add_jar",
    "by_partition",
    "check_spark",
    "exactly_once",
    "register",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import SparkTasks and SparkKeyShuffle only when they are used, because their modules import pyspark."""
    if name == "SparkTasks":
        from sparklog.spark.maintain.spark_tasks import SparkTasks

        return SparkTasks
    if name == "SparkKeyShuffle":
        from sparklog.spark.maintain.key_shuffle import SparkKeyShuffle

        return SparkKeyShuffle
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_spark() -> None:
    """Raise InvalidInput unless this Python has a Spark that sparklog supports."""
    import sparklog.spark.spark_versions  # noqa: F401 - its import raises


def register(spark: SparkSession) -> None:
    """Register `format("sparklog")` in a session. Harmless if the session finds the source by itself.

    Spark finds it if the wheel is installed in the driver's Python (under Connect, in the server's). Call this first if
    the package comes by `--py-files` or `--archives`. Spark 3.5 has no data sources in Python: there, this adds
    sparklog's JAR. Raises InvalidInput without a Spark that sparklog supports.
    """
    check_spark()
    from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES

    if not HAS_PYTHON_SOURCES:
        from sparklog.spark.jar import add_jar_unless_there

        add_jar_unless_there(spark)
        return
    from sparklog.spark.source import SparklogDataSource

    if _is_known(spark, SparklogDataSource.name()):
        return
    from pyspark.errors import PySparkException

    try:
        spark.dataSource.register(SparklogDataSource)
    except PySparkException as error:
        if "[DATA_SOURCE_ALREADY_EXISTS]" not in str(error):  # Spark 4.0 refuses a source that it has found by itself
            raise


def _is_known(spark: SparkSession, name: str) -> bool:
    """True if the session already finds the source; False under Connect, where this cannot be checked.

    The caller does not register a source that is already known: Spark would warn that it was replaced. Under Connect,
    this warning goes to the server's log.
    """
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(session.sessionState().dataSourceManager().dataSourceExists(name))


def add_jar(spark: SparkSession) -> None:
    """Add sparklog's JAR to this session, which then reads and writes in Java. See `sparklog.spark.jar.add_jar`."""
    check_spark()
    from sparklog.spark.jar import add_jar as added

    added(spark)


def by_partition(df: DataFrame, topic: str, tasks: int | None = None, cluster: str | None = None) -> DataFrame:
    """Shuffle the rows of `df` into `tasks` tasks (default: one per partition), each of which writes few partitions.

    See `sparklog.spark.write.partitioning.by_partition`.
    """
    check_spark()
    from sparklog.spark.write.partitioning import by_partition as shuffled

    return shuffled(df, topic, tasks, cluster)


def exactly_once(
    transform: Callable[[DataFrame], DataFrame], *, group: str, app_id: str | None = None, **options: str
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the output of `transform` for each micro-batch exactly once.

    The entry of the chain that commits the output also commits the offsets of the micro-batch for `group`.

    `options` are those of a batch write. The option `topic` is required unless the output has a column `topic`. The
    DataFrame that Spark passes to the function must have the source's columns topic, partition and offset, unchanged.
    `app_id` defaults to the id of the query with the group and the topic. Under Spark Connect it must be given, and
    must not change while the checkpoint is in use. Give each function its own `app_id`: a second write of a micro-batch
    under the same `app_id` is refused or adds nothing. See `sparklog.spark.write.foreach_batch`.
    """
    check_spark()
    from sparklog.spark.write.foreach_batch import ExactlyOnce

    return ExactlyOnce(transform, group, app_id, options)


def verify(
    spark: SparkSession,
    cluster: str | None = None,
    *,
    topics: Collection[str] = (),
    stores: Collection[str] = (),
    share: int = 1,
) -> DataFrame:
    """Compare all stored objects of a cluster with its chain, on the executors of this session. Changes nothing.

    This is the verify job: it reads every byte now, not when the DataFrame is used. Returns one row per difference.
    `cluster` defaults to SPARKLOG_CLUSTER. `topics`, `stores`: if given, verify only these. `share` N: verify only one
    of N parts of the objects, a different part each day.
    """
    check_spark()
    from sparklog.spark.maintain.verify_frame import differences

    return differences(spark, cluster, topics=topics, stores=stores, share=share)
