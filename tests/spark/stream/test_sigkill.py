"""SIGKILL for driver and JVM at the steps of a micro-batch: after a restart the output is the input, once, in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from tests.spark.conftest import PROJECT
from tests.spark.stream.driven_stream import send
from tests.spark.stream.killed_driver import run_query
from tests.spark_classes import NO_FOLDER, short_lived_spark

pytestmark = [pytest.mark.spark, pytest.mark.campaign]


def killed_run(cluster: Cluster, folder: Path, place: str, **more: str) -> None:
    """A run of the query that is killed there, over two partitions with ten records each."""
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=2)
    for partition in range(2):
        send(cluster, "in", partition, 10)
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --conf spark.ui.enabled=false --conf spark.local.dir={folder} "
        "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 pyspark-shell",
        "SPARK_SUBMIT_OPTS": f"{' '.join(short_lived_spark())} -Dderby.system.home={folder}",
        "SPARK_CONF_DIR": str(NO_FOLDER),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(PROJECT),
        "PYSPARK_PYTHON": sys.executable,
        "DEADLY": place,
        **more,
    }
    killed = subprocess.run(
        [sys.executable, "-m", "tests.spark.stream.killed_driver", cluster.connection.url, f"{folder}/checkpoint"],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        process_group=0,
        timeout=400,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def restarted(spark: SparkSession, cluster: Cluster, folder: Path) -> list[list[bytes]]:
    """The values in each partition of the output, after another run."""
    run_query(spark, "sparklog", cluster.connection.url, f"{folder}/checkpoint")
    return [cluster.read("out", partition=partition, columns=["value"])["value"].to_pylist() for partition in range(2)]


WANTED = [[str(number).encode() for number in range(10)]] * 2


@pytest.mark.parametrize(
    "place",
    [
        "latestOffset before 3",
        "partitions after 2",
        "write after 0",
        "write after 2",
        "commit before 1",
        "commit after 0",
        "commit after 1",
    ],
)
def test_a_driver_killed_at_any_step_leaves_each_record_once_after_the_next_run(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, place: str
) -> None:
    killed_run(cluster, tmp_path, place)
    assert restarted(spark, cluster, tmp_path) == WANTED


def test_the_same_with_a_sink_that_is_at_least_once_writes_records_twice(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """So the test above can see the fault."""
    killed_run(cluster, tmp_path, "commit after 1", FORGETFUL="1")
    found = restarted(spark, cluster, tmp_path)
    assert found != WANTED
    assert [sorted(set(values)) for values in found] == WANTED
