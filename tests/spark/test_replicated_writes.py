"""DataFrames into topics with replicas on three stores: stores that fail, leaders that change, acks and replication."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, StructType

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.commands import Election, ElectLeaders
from sparklog.core.errors import InvalidRequiredAcks, RequestTimedOut
from sparklog.core.types import PartitionIndex, StoreId, TopicId
from sparklog.spark.write.batch_writer import BatchWriter
from sparklog.storage.keys import INCARNATION
from tests.core.replication.example_partition import ends, roles
from tests.spark.write.test_batch_writer import batch, ran
from tests.spark.write.test_batch_writer import begun as begun_of

TOPIC = TopicId(1)


def begun(cluster: Cluster, schema: StructType | None = None, **options: object) -> BatchWriter:
    return begun_of(cluster, schema or StructType().add("value", "string"), **options)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster on a disk, with stores a, b and c beside it."""
    for name in "abc":
        (tmp_path / name).mkdir()
    init_cluster(str(tmp_path / "root"), stores={name: str(tmp_path / name) for name in "abc"})
    with sparklog.connect(str(tmp_path / "root")) as connected:
        yield connected


def replicas(cluster: Cluster, partition: int = 0) -> str:
    state = cluster.connection.newest_state()
    value = state.partitions_of(state.topics[TOPIC])[partition].replication
    return f"{roles(value)} {ends(value)}"


def objects(tmp_path: Path, name: str) -> list[str]:
    return sorted(each.name for each in (tmp_path / name).rglob("*.arrow"))


def elect(cluster: Cluster, leader: str) -> None:
    committer = cluster.connection.committer
    election = Election(TOPIC, PartitionIndex(0), StoreId(leader))
    committer.submit(committer.begin(ElectLeaders((election,))))


# M: P-03 S-01
@pytest.mark.spark
@pytest.mark.sparks("replicas")
def test_a_job_goes_on_without_a_store_that_was_wiped(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", assignment=[["a", "b"], ["b", "c"], ["c", "a"]])
    (tmp_path / "b" / INCARNATION).unlink()
    df = spark.range(0, 300, 1, 3).select(F.col("id").cast("string").alias("key"), F.lit("v").alias("value"))
    df.write.format("sparklog").mode("append").options(cluster=cluster.connection.url, topic="t").save()
    found = [cluster.read("t", partition=partition).num_rows for partition in range(3)]
    assert sum(found) == 300
    assert replicas(cluster, 0) == f"a:a a{found[0]} b0"
    assert replicas(cluster, 1) == f"c:c b0 c{found[1]}", "led by the store that has the records"
    assert replicas(cluster, 2) == f"c:ca c{found[2]} a{found[2]}"


def test_the_driver_warns_once_of_a_store_that_no_task_could_write_to(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("t", assignment=[["a", "b"]])
    (tmp_path / "b" / INCARNATION).unlink()
    writer = begun(cluster)
    writer.commit([ran(writer, batch("x"), task=task) for task in range(3)])
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith(f"store b did not take the write: KAFKA_STORAGE_ERROR: wanted {INCARNATION} ")
    assert warning.endswith("; it leaves the ISR of 1 partition until it has caught up")


# M: L-04
def test_a_leader_that_changed_while_tasks_wrote_costs_no_upload(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", assignment=[["a", "b", "c"]])
    writer = begun(cluster, txnAppId="job", txnVersion=1)
    message = ran(writer, batch("a", "b"))
    before = [objects(tmp_path, name) for name in "abc"]
    elect(cluster, "c")
    for _ in range(2):
        writer.commit([message])
    assert [objects(tmp_path, name) for name in "abc"] == before
    assert len(before[0]) == 1
    assert replicas(cluster) == "c:abc a2 b2 c2"


# M: P-03
def test_acks_0_and_1_are_for_one_partition_on_the_leaders_store(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", assignment=[["a", "b"], ["b", "a"]])
    routed = StructType().add("value", "string").add("partition", IntegerType())
    (tmp_path / "b" / INCARNATION).unlink()
    for count, acks in enumerate("01", start=1):
        with pytest.raises(InvalidRequiredAcks, match=f"acks={acks} writes to one partition, found 2"):
            begun(cluster, acks=acks)
        writer = begun(cluster, routed, acks=acks)
        writer.commit([ran(writer, batch("x", partition=pa.array([0], pa.int32())))])
        assert replicas(cluster) == f"a:ab a{count} b0"


# M: P-04
def test_a_pulled_write_waits_for_the_followers(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", assignment=[["a", "b"]])
    writer = begun(cluster, replication="pull", timeoutMs=1)
    message = ran(writer, batch("x"))
    assert [len(objects(tmp_path, name)) for name in "abc"] == [1, 0, 0]
    with pytest.raises(RequestTimedOut, match="the records are written"):
        writer.commit([message])
    assert replicas(cluster) == "a:ab a1 b0"
    cluster.create_topic("u", assignment=[["a", "b"]] * 2)
    with pytest.raises(InvalidRequiredAcks, match=r"replication=pull writes to one partition.*use replication=push"):
        begun(cluster, topic="u", replication="pull")
