"""`sparklog.spark.verify`: the differences of a cluster as a DataFrame, found by tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparklog.spark
from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidOption, UnknownTopicOrPartition
from sparklog.maintenance.task_runner import LocalTasks
from sparklog.maintenance.verify.verify_job import run_verify


# M: F-04
@pytest.mark.sparks("verify")
def test_differences_come_as_a_dataframe(spark: SparkSession, cluster: Cluster) -> None:
    url = cluster.connection.url
    cluster.create_topic("t", partitions=2)
    for _ in range(3):
        numbers = pa.array([0, 1], pa.int32())
        cluster.append("t", pa.table({"value": ["x", "y"], "partition": numbers}))
    assert sparklog.spark.verify(spark, url).count() == 0
    first, second, _ = sorted(Path(url.removeprefix("file://")).glob("append/*/*.arrow"))
    first.unlink()
    second.with_suffix(".index").unlink()
    found = sparklog.spark.verify(spark, url)
    local = run_verify(url, tasks=LocalTasks()).differences
    rows = {(row.kind, row.object, row.topic, row.partition, row.start, row.end) for row in found.collect()}
    assert rows == {(row.kind, row.object, row.topic, row.partition, row.start, row.end) for row in local}
    assert found.where("kind = 'object-missing' and repairable = false").count() == 2, "one row for each partition"
    assert found.where("kind = 'index-missing' and repairable").count() == 1
    assert sparklog.spark.verify(spark, url, topics=["t"], stores=["local"]).count() == 3


def test_what_is_not_there_is_an_error(spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        sparklog.spark.verify(spark, cluster.connection.url, topics=["none"])
    monkeypatch.delenv("SPARKLOG_CLUSTER", raising=False)
    with pytest.raises(InvalidOption, match="SPARKLOG_CLUSTER"):
        sparklog.spark.verify(spark)
