"""by_partition: the rows that the write would route to a partition, in the tasks that write it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput, UnknownTopicOrPartition
from sparklog.spark import by_partition
from sparklog.spark.write.partitioning import partitions_of
from tests.core.producing.java_murmur2 import partition_for_key
from tests.spark.conftest import Read, Write

pytestmark = pytest.mark.spark


def keyed(spark: SparkSession, tasks: int = 8) -> DataFrame:
    """2,000 rows, every tenth without a key."""
    return spark.range(0, 2_000, 1, tasks).selectExpr(
        "if(id % 10 = 0, null, concat('k', id % 100)) as key", "cast(id as string) as value"
    )


def by_task(df: DataFrame) -> dict[int, set[int]]:
    rows = df.select("partition", F.spark_partition_id().alias("task")).distinct().collect()
    return {task: {row.partition for row in rows if row.task == task} for task in {row.task for row in rows}}


@pytest.mark.sparks("by_partition")
def test_rows_go_where_the_log_would_put_them(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=6)
    routed = by_partition(keyed(spark), "t", cluster=cluster.connection.url).cache()
    for row in routed.where("key is not null").select("key", "partition").distinct().collect():
        assert row.partition == partition_for_key(row.key.encode(), 6)
    assert routed.where("key is null").select("partition").distinct().count() == 6
    assert routed.select("value").distinct().count() == 2_000


@pytest.mark.parametrize("tasks", [1, 4, 10])
@pytest.mark.sparks("by_partition")
def test_tasks_write_whole_partitions_or_shares_of_one(spark: SparkSession, cluster: Cluster, tasks: int) -> None:
    cluster.create_topic("t", partitions=6)
    routed = by_partition(keyed(spark), "t", tasks, cluster.connection.url).cache()
    found = by_task(routed)
    assert routed.rdd.getNumPartitions() == tasks
    assert len(found) == tasks
    assert sum(len(partitions) for partitions in found.values()) == max(tasks, 6)
    of_keys = routed.where("key is not null").select("key", F.spark_partition_id().alias("task")).distinct()
    assert of_keys.count() == of_keys.select("key").distinct().count()


def test_given_partitions_are_kept(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=4)
    df = keyed(spark).withColumn("partition", F.when(F.col("value") < "5", 3))
    routed = by_partition(df, "t", 4, cluster.connection.url).cache()
    assert routed.where("value < '5' and partition != 3").count() == 0
    assert routed.select("partition").distinct().count() == 4


def test_values_alone_are_spread_by_their_content(spark: SparkSession, cluster: Cluster) -> None:
    """By content and not by place: a map task that runs again on reordered rows sends each where it went before."""
    cluster.create_topic("t", partitions=3)
    df = keyed(spark).select("value")
    first, second = (
        by_partition(each, "t", 3, cluster.connection.url).select("value", "partition").orderBy("value").collect()
        for each in (df, df.orderBy(F.desc("value")))
    )
    assert first == second
    assert len({row.partition for row in first}) == 3


@pytest.mark.sparks("by_partition", since="4.0")
def test_a_write_after_it_makes_one_slice_per_partition(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=6)
    write(keyed(spark), "t", writeId="plain")
    write(by_partition(keyed(spark), "t", 3, cluster.connection.url), "t", writeId="shuffled")
    slices = read(metadata="partitions").select("segments").collect()
    assert slices == [(8 + 1,)] * 6
    assert read("t").count() == 4_000


def test_wrong_calls_are_refused(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    with pytest.raises(UnknownTopicOrPartition, match="wanted topic 'u', the cluster has t"):
        by_partition(keyed(spark), "u", cluster=cluster.connection.url)
    with pytest.raises(InvalidInput, match="tasks: wanted 1 or more, found 0"):
        by_partition(keyed(spark), "t", 0, cluster.connection.url)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_keys_of_any_width_go_to_the_same_partition(kind: pa.DataType) -> None:
    """Spark hands over large ones under spark.sql.execution.arrow.useLargeVarTypes."""
    keys = [b"anna", b"ben", None, b"carl", b"dora"]
    found = partitions_of(5)(pa.array(keys, kind)).to_pylist()
    assert found == [None if key is None else partition_for_key(key, 5) for key in keys]
    assert partitions_of(5)(pa.array([], kind)).to_pylist() == []
