"""Spark's stress test of its Kafka source, in our terms: random steps of a running query, and exact numInputRows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sparklog.client.cluster import Cluster
from tests.spark.stream.driven_stream import send

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

STEPS = 50
KINDS = (*["data"] * 5, "topic", "partition", "restart", "check")


@contextmanager
def running(spark: SparkSession, cluster: Cluster, checkpoint: Path, seen: list[object]) -> Iterator[StreamingQuery]:
    """The query, which keeps (topic, partition, offset) of each record in `seen`."""

    def keep(df: DataFrame, batch_id: int) -> None:
        seen.extend((row["topic"], row["partition"], row["offset"]) for row in df.collect())

    source = spark.readStream.format("sparklog").option("cluster", cluster.connection.url)
    rows = source.option("subscribePattern", "t.*").option("startingOffsets", "earliest")
    rows = rows.option("maxOffsetsPerTrigger", 20)
    query = rows.load().writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(3))
def test_random_steps(spark: SparkSession, cluster: Cluster, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    sizes = {("t0", 0): 0}
    cluster.create_topic("t0", partitions=1)
    seen: list[object] = []
    steps = [dice.choice(KINDS) for _ in range(STEPS)]
    while steps:
        before = len(seen)
        with running(spark, cluster, tmp_path / "checkpoint", seen) as query:
            while steps and (kind := steps.pop()) != "restart":
                if kind == "data":
                    place, count = dice.choice(sorted(sizes)), dice.randrange(1, 50)
                    send(cluster, *place, count)
                    sizes[place] += count
                elif kind == "topic":
                    name = f"t{len({topic for topic, _ in sizes})}"
                    cluster.create_topic(name, partitions=1)
                    sizes[name, 0] = 0
                elif kind == "partition":
                    topic, _ = dice.choice(sorted(sizes))
                    total = sum(name == topic for name, _ in sizes) + 1
                    cluster.add_partitions(topic, total)
                    sizes[topic, total - 1] = 0
                else:
                    query.processAllAvailable()
            query.processAllAvailable()
            read = sum(progress["numInputRows"] for progress in query.recentProgress)
            assert read == len(seen) - before
        wanted = [(*place, offset) for place, size in sizes.items() for offset in range(size)]
        assert sorted(seen) == sorted(wanted)  # type: ignore[type-var]
