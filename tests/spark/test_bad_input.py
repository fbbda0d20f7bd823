"""Clusters and disks that Spark can't work on: a named error, and nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.storage.keys import entry_key
from tests.chain.newer_format import NEWER, make_newer
from tests.faults.unchanged_cluster import unchanged
from tests.mounts import mount, mount_disk, unmount
from tests.spark.conftest import Read, Write

pytestmark = pytest.mark.spark

TWICE_THE_DISK = 20_000  # rows of 200 bytes that do not compress


def test_a_cluster_of_a_newer_format_is_named_and_left_alone(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=1)
    newest = Path(cluster.connection.url.removeprefix("file://"), entry_key(1))
    make_newer(newest)
    refused = rf"UNSUPPORTED_VERSION: .*found.* {NEWER}"
    with unchanged(cluster.connection.url, ()):
        with pytest.raises(PySparkException, match=refused):
            read("t").collect()
        with pytest.raises(PySparkException, match=refused):
            write(spark.sql("select 'a' as value"), "t")


@pytest.fixture
def disk(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """An empty disk of 2 MiB, which Spark sees too."""
    found = tmp_path / "disk"
    found.mkdir()
    if not mount_disk(found, "2m"):
        pytest.skip("this machine does not let its user mount a small disk: that needs Linux and root")
    yield found
    unmount(found)


def test_a_full_disk_and_a_read_only_one_are_named_and_the_log_stays_whole(spark: SparkSession, disk: Path) -> None:
    url = str(disk / "cluster")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=2)

    def write(rows: int) -> None:
        wide = spark.range(rows).selectExpr("concat(sha2(concat('a', id), 512), sha2(concat('b', id), 512)) as value")
        wide.write.format("sparklog").mode("append").option("cluster", url).option("topic", "t").save()

    def rows() -> int:
        return spark.read.format("sparklog").option("cluster", url).option("subscribe", "t").load().count()

    write(10)
    with pytest.raises(PySparkException, match="STORE_FULL: wanted to write"):
        write(TWICE_THE_DISK)
    assert rows() == 10
    assert not any(each.is_file() for each in (disk / "cluster" / ".tmp").rglob("*"))
    mount("-o", "remount,size=16m", disk)
    write(TWICE_THE_DISK)
    assert rows() == 10 + TWICE_THE_DISK
    mount("-o", "remount,ro", disk)
    with pytest.raises(PySparkException, match="STORE_READ_ONLY: "):
        write(10)
    assert rows() == 10 + TWICE_THE_DISK
