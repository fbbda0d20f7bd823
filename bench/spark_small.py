"""Small reads and appends, and many shuffle tasks: what the log's own planning and commits cost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import sparklog
from bench.paired import Comparison, compare
from bench.spark_bulk import _drain, rows
from sparklog.chain.snapshot.snapshot_writer import SNAPSHOT_EVERY
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import AlterTopic
from sparklog.spark import by_partition

OTHER_PARTITIONS = 10_000


def large_cluster(folder: Path) -> tuple[str, Cluster]:
    """A cluster of 10,000 partitions, with nearly 1,000 entries after its snapshot."""
    url = str(folder / "large")
    init_cluster(url)
    cluster = sparklog.connect(url)
    cluster.create_topic("other", partitions=OTHER_PARTITIONS)
    cluster.create_topic("t", partitions=1, config={"retention.ms": -1})
    cluster.connection.committer.snapshots.write()
    topic_id = cluster.describe("other").topic_id
    for number in range(SNAPSHOT_EVERY - 100):
        cluster.submit(AlterTopic(topic_id, {"retention.ms": str(number + 1)}))
    return url, cluster


def small(spark: SparkSession, folder: Path) -> Iterator[Comparison]:
    """1,000 records from the middle of 3 million, and an append of 1,000 by one task: goal <= the peer + 40 ms."""
    url, cluster = large_cluster(folder)
    frame = rows(spark, 100, 3_000_000)
    frame.write.format("sparklog").option("cluster", url).option("topic", "t").mode("append").save()
    few = spark.createDataFrame(frame.limit(1000).toArrow()).coalesce(1).persist()
    few.count()
    bare_path = str(folder / "bare-few")
    read = spark.read.format("sparklog").option("cluster", url).option("subscribe", "t")
    read = read.option("startingOffsets", '{"t":{"0":1500000}}').option("endingOffsets", '{"t":{"0":1501000}}')
    read.load().coalesce(1).write.format("bare").option("path", bare_path).mode("append").save()

    def append() -> None:
        few.write.format("sparklog").option("cluster", url).option("topic", "t").mode("append").save()

    def bare_append() -> None:
        path = str(folder / f"bare-{uuid.uuid4().hex}")
        few.write.format("bare").option("path", path).mode("append").save()

    # What planning costs more in a process that has not opened the cluster before.
    yield compare(
        "open the cluster cold: snapshot of 10,000 partitions, 900 entries",
        "catch up with it",
        "",
        lambda: sparklog.connect(url).close(),
        lambda: cluster.topics(),
        rounds=5,
    )
    yield compare(
        "read 1,000 records from the middle of 3 million",
        "bare Arrow reader of 1,000",
        "<= peer + 40 ms",
        lambda: _drain(read.load()),
        lambda: _drain(spark.read.format("bare").option("path", bare_path).load()),
        rounds=15,
        warm_up=3,
    )
    yield compare(
        "append 1,000 records by one task",
        "bare Arrow writer",
        "<= peer + 40 ms",
        append,
        bare_append,
        rounds=15,
        warm_up=3,
    )
    few.unpersist()
    frame.unpersist()
    cluster.close()


def shuffled(spark: SparkSession, folder: Path) -> Iterator[Comparison]:
    """200 shuffle tasks into 100 partitions: with `by_partition`, beside without it."""
    url = str(folder / "shuffled")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=100, config={"retention.ms": -1})
    frame = rows(spark, 100, 1_000_000)
    spread = frame.repartition(200, f.col("value"))

    def plain() -> None:
        spread.write.format("sparklog").option("cluster", url).option("topic", "t").mode("append").save()

    def grouped() -> None:
        by_partition(frame, "t", tasks=4, cluster=url).write.format("sparklog").option("cluster", url).option(
            "topic", "t"
        ).mode("append").save()

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield compare(
        "write by_partition into 100 partitions", "200 shuffle tasks without it", "", grouped, plain, rounds=3
    )
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    frame.unpersist()
