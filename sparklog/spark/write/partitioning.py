"""A shuffle by the log's own partitioner, so that not every task writes a little to every partition.

    by_partition(df, "orders", tasks=8).write.format("sparklog").mode("append").option("topic", "orders").save()

200 shuffle tasks that write to 100 partitions produce up to 20,000 slices. After this shuffle they produce one slice
per task or per partition, whichever is more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name among Spark users

from sparklog.core.errors import InvalidInput
from sparklog.core.lookup import unknown_topic
from sparklog.core.producing.murmur2 import partitions_for_keys
from sparklog.options.given import GivenOptions
from sparklog.options.registry import Side
from sparklog.spark.lazy_connection import default_cluster, shared
from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES, arrow_function, repartition_by_id


def by_partition(df: DataFrame, topic: str, tasks: int | None = None, cluster: str | None = None) -> DataFrame:
    """Fill in the column `partition` of `df`, and shuffle by it into `tasks` tasks (default: one per partition).

    A row keeps the partition that it has in this column. Otherwise it gets the partition of its key's murmur2 hash, as
    in any write. A row without a key gets one by a hash of its content. With fewer tasks than partitions, all rows of a
    partition go to one task. With more, several tasks share a partition, and rows of one key stay together. `cluster`
    defaults to SPARKLOG_CLUSTER. Raises UnknownTopicOrPartition, InvalidInput.
    """
    partitions = _partitions(df, topic, cluster)
    count = partitions if tasks is None else tasks
    if count < 1:
        raise InvalidInput(f"tasks: wanted 1 or more, found {tasks}")
    chosen = _partition(df, partitions)
    routed = df.withColumn("partition", chosen.cast("int"))
    # Partition p gets tasks [p * count / partitions, (p + 1) * count / partitions), or a share of one task.
    first = F.floor(F.col("partition") * count / partitions)
    end = F.floor((F.col("partition") + 1) * count / partitions)
    task = first if count <= partitions else first + F.pmod(_lane(df), end - first)
    return repartition_by_id(routed, count, task.cast("int"))


def _partitions(df: DataFrame, topic: str, cluster: str | None) -> int:
    counts = _counts_of_metadata(df, cluster) if HAS_PYTHON_SOURCES else _counts(cluster)
    if topic not in counts:
        raise unknown_topic(topic, counts)
    return counts[topic]


def _counts_of_metadata(df: DataFrame, cluster: str | None) -> dict[str, int]:
    """Ask Spark, because a client of Spark Connect may not reach the cluster."""
    reader = df.sparkSession.read.format("sparklog").option("metadata", "topics")
    if cluster is not None:
        reader = reader.option("cluster", cluster)
    return {row["topic"]: int(row["partitions"]) for row in reader.load().select("topic", "partitions").collect()}


def _counts(cluster: str | None) -> dict[str, int]:
    given = GivenOptions({} if cluster is None else {"cluster": cluster}, Side.BATCH_READ)
    state = shared(given.cluster(default_cluster()), given.storage()).newest_state()
    return {topic.name: topic.partitions for topic in state.topics.values()}


def _partition(df: DataFrame, partitions: int) -> Column:
    candidates = [F.pmod(_content(df), F.lit(partitions))]
    if "key" in df.columns:
        candidates.insert(0, arrow_function(partitions_of(partitions), "int")(F.col("key").cast("binary")))
    if "partition" in df.columns:
        candidates.insert(0, F.col("partition"))
    return F.coalesce(*candidates)


def _lane(df: DataFrame) -> Column:
    """Return a hash that chooses one of the tasks that share a partition. All rows of a key have the same hash."""
    anywhere = F.xxhash64(_content(df))
    return (
        F.coalesce(F.when(F.col("key").isNotNull(), F.xxhash64("key")), anywhere) if "key" in df.columns else anywhere
    )


def _content(df: DataFrame) -> Column:
    """A hash of the row's content.

    The row's position would spread rows more evenly. But if Spark reran a map task with its rows in another order, rows
    would go to different tasks than before: some would be written twice, others never.
    """
    return F.xxhash64(*(name for name in ("value", "timestamp", "headers") if name in df.columns))


def partitions_of(partitions: int) -> Callable[[pa.Array], pa.Array]:
    """Return a function that maps an Arrow array of keys to an array of their partitions (int32), and null to null.

    The keys may be binary or large_binary. `partitions`: the number of the topic's partitions.
    """

    def partition_of(keys: pa.Array) -> pa.Array:
        keys = keys.cast(pa.binary())  # spark.sql.execution.arrow.useLargeVarTypes makes them large
        chosen = np.empty(0, np.int32)
        if len(keys):
            offsets = np.frombuffer(keys.buffers()[1], np.int32, count=len(keys) + 1, offset=4 * keys.offset)
            body = keys.buffers()[2]
            data = np.empty(0, np.uint8) if body is None else np.frombuffer(body, np.uint8)
            chosen = partitions_for_keys(offsets, data, partitions).astype(np.int32)
        return pa.array(chosen, mask=keys.is_null().to_numpy(zero_copy_only=False))

    return partition_of
