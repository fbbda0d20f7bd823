"""Writes by Java to a folder whose disk is full, read-only or wiped: the write fails, and no row is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.maintenance.verify.verify_job import run_verify
from tests.faults.store_folders import StoreFolders
from tests.kit.silent_console import SILENT
from tests.mounts import mount, mount_disk, unmount
from tests.spark.columns.writing import save

pytestmark = pytest.mark.spark


@pytest.fixture
def disk(tmp_path: Path, columnar: SparkSession) -> Iterator[Path]:
    """An empty disk of 16 MiB. Skips the test if the machine allows none."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount_disk(folder, "16m"):
        pytest.skip("this machine allows no mounts")
    yield folder
    unmount(folder)


def rows(session: SparkSession, count: int) -> DataFrame:
    """Rows of a thousand bytes each, which compress badly, from one task."""
    value = "concat_ws('', transform(sequence(1, 16), i -> sha2(cast(id * 100 + i as string), 256)))"
    return session.range(0, count, 1, 1).selectExpr("cast(id as string) as key", f"{value} as value")


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_disk_that_becomes_full(columnar: SparkSession, disk: Path, partitions: int) -> None:
    init_cluster(str(disk))
    with sparklog.connect(str(disk)) as cluster:
        cluster.create_topic("t", partitions=partitions, config={"compression.type": "uncompressed"})
        with pytest.raises(PySparkException, match=r"StoreFull: .*No space left on device"):
            save(rows(columnar, 20_000), cluster, "t")
        check(cluster, disk, 0)
        save(rows(columnar, 2_000), cluster, "t")
        check(cluster, disk, 2_000)


def test_a_disk_that_becomes_read_only(columnar: SparkSession, disk: Path) -> None:
    init_cluster(str(disk / "chain"), stores={"a": str(disk / "a")})
    with sparklog.connect(str(disk / "chain")) as cluster:
        cluster.create_topic("t", partitions=2)

        def read_only(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            mount("-o", "remount,ro", disk)
            yield from batches

        frame = rows(columnar, 10).mapInArrow(read_only, "key string, value string")
        with pytest.raises(PySparkException, match=r"StoreReadOnly: .*Read-only file system"):
            save(frame, cluster, "t")
        mount("-o", "remount,rw", disk)
        check(cluster, disk / "a", 0)
        save(rows(columnar, 10), cluster, "t")
        check(cluster, disk / "a", 10)


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_store_that_is_wiped_during_a_write(columnar: SparkSession, tmp_path: Path, partitions: int) -> None:
    """With one partition, a part of the object may already be there, and then it is its file that is missing first."""
    folders = StoreFolders.create(tmp_path)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["a"] * partitions)
        root = folders.at("a")

        def wiped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(batches):
                if at == 1:
                    shutil.rmtree(root)
                yield batch

        frame = rows(columnar, 12_000).mapInArrow(wiped, "key string, value string")
        with pytest.raises(PySparkException, match=r"wanted INCARNATION .* found none|No such file or directory"):
            save(frame, cluster, "t")
        assert cluster.describe("t").records == 0


def check(cluster: Cluster, store: Path, records: int) -> None:
    """The topic has these records, the store no temporary file, and nothing is damaged."""
    assert cluster.describe("t").records == records
    assert list((store / ".tmp").iterdir()) == []
    assert run_verify(cluster.connection.url, console=SILENT).differences == ()
