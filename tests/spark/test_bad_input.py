"""Clusters and disks that Spark can't work on: a named error, and nothing changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.storage.keys import entry_key
from tests.faults.unchanged_cluster import unchanged
from tests.spark.conftest import PROJECT, Read, Write

pytestmark = pytest.mark.spark


def test_a_cluster_of_a_newer_format_is_named_and_left_alone(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=1)
    newest = Path(cluster.connection.url.removeprefix("file://"), entry_key(1))
    newest.write_bytes(newest.read_bytes().replace(b"entry 1 ", b"entry 2 ", 1))
    refused = r"UNSUPPORTED_VERSION: .*found.* 2"
    with unchanged(cluster.connection.url, ()):
        with pytest.raises(PySparkException, match=refused):
            read("t").collect()
        with pytest.raises(PySparkException, match=refused):
            write(spark.sql("select 'a' as value"), "t")


@pytest.mark.slow
@pytest.mark.usefixtures("can_mount")
def test_a_full_disk_and_a_read_only_one_are_named_and_the_log_stays_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-m", "tests.spark.on_small_disks", str(tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["small"], said["larger"]) == ("", "")
    assert "STORE_FULL: wanted to write" in said["full"]
    assert "STORE_READ_ONLY: " in said["read only"]
    assert said["uploads that were left"] == 0
    assert (said["rows after full"], said["rows after larger"], said["rows after read only"]) == (10, 20_010, 20_010)
