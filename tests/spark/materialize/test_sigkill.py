"""SIGKILL for driver and JVM at each step of materialize: after the next run, the table is the topic."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from tests.bench.peer_jars import delta
from tests.spark.conftest import PROJECT
from tests.spark.materialize.filled_tables import append, is_the_topic, materialize, numbered
from tests.spark_classes import NO_FOLDER, short_lived_spark

pytestmark = [pytest.mark.spark, pytest.mark.campaign]


@pytest.mark.parametrize(
    ("method", "when", "count"),
    [
        ("create", "before", 1),
        ("create", "after", 1),
        ("append", "before", 1),
        ("append", "after", 1),
        ("append", "before", 2),
        ("append", "after", 2),
    ],
)
def test_a_driver_killed_at_any_step_leaves_a_table_that_the_next_run_completes(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, method: str, when: str, count: int
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 20))
    driver = [sys.executable, "-m", "tests.spark.materialize.killed_driver", method, when, str(count)]
    job = ["--cluster", cluster.connection.url, "--topic", "t", "--table", f"{tmp_path}/d", "--max-records", "8"]
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --jars {','.join(map(str, delta()))} "
        f"--conf spark.ui.enabled=false --conf spark.local.dir={tmp_path} pyspark-shell",
        "SPARK_SUBMIT_OPTS": f"{' '.join(short_lived_spark())} -Dderby.system.home={tmp_path}",
        "SPARK_CONF_DIR": str(NO_FOLDER),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(PROJECT),
    }
    killed = subprocess.run(
        [*driver, *job],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        process_group=0,
        timeout=400,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    append(cluster, *numbered(20, 24))
    assert materialize(delta_spark, cluster, tmp_path / "d", records=8).exit_code == 0
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")
