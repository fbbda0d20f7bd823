"""The package where it is not installed: by --py-files alone, and behind a Spark Connect server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.spark.spark_versions import HAS_PYTHON_SOURCES
from tests.jar import jar
from tests.servers.made_once import CannotFetch
from tests.servers.maven import fetch_jars
from tests.spark_classes import short_lived_spark
from tests.spark_home import SCALA_OF_3_5, spark_home

pytestmark = pytest.mark.spark

# PySpark has it since 4.0; 3.5.8 and 3.5.9 are not served.
CONNECT = f"org.apache.spark:spark-connect_{SCALA_OF_3_5}:3.5.7"
WITHOUT = [f"org.apache.spark:spark-{part}_{SCALA_OF_3_5}" for part in ("sql", "core", "catalyst")]
PACKAGE = Path(sparklog.__file__).parent
QUIET = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
}

ROUND_TRIP = """
frame = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as key", "cast(id as string) as value")
routed = sparklog.spark.by_partition(frame, "t", 2, url)
routed.write.format("sparklog").mode("append").option("cluster", url).option("topic", "t").save()
read = spark.read.format("sparklog").option("cluster", url).option("subscribe", "t").load()
assert read.selectExpr("sum(cast(cast(value as string) as long)) as s").collect()[0].s == 4950
"""

BY_PY_FILES = """
import sys
from pyspark.sql import SparkSession
import sparklog, sparklog.spark
assert ".zip" in sparklog.__file__, sparklog.__file__
url = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
try:
    spark.read.format("sparklog").option("cluster", url).option("subscribe", "t").load()
    if hasattr(spark, "dataSource"):  # else it was submitted with the JAR
        raise SystemExit("the source was found without registration: this Python has the package installed")
except Exception as error:
    assert "DATA_SOURCE_NOT_FOUND" in str(error), error
sparklog.spark.register(spark)
"""

BY_CONNECT = """
import sys
import pyspark
from pyspark.sql import SparkSession
import sparklog.spark
from sparklog.core.errors import InvalidInput
url = sys.argv[1]
builder = SparkSession.builder.remote("local[2]")
for setting in sys.argv[2:]:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
"""

MORE_BY_CONNECT = """
frame.write.format("sparklog").mode("append").option("cluster", url).option("topic", "t").save()
kept = read.where("offset < 5")
assert kept.union(kept).count() == 2 * kept.count() > 0
read.createOrReplaceTempView("v")
try:
    sparklog.spark.register(spark)
except InvalidInput as error:  # of 3.5: whether the server has the JAR can't be seen
    assert "start its server with --jars" in str(error), error
wanted = 200 if pyspark.__version__ < "4.1" else 100  # before 4.1, each use of a view is planned anew
assert spark.sql("select count(*) as n from v").collect()[0].n == wanted
"""

AT_THE_END = """
spark.stop()
print("all is well")
"""


def surroundings(scratch: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))}
    short = {"SPARK_SUBMIT_OPTS": " ".join(short_lived_spark()), "SPARK_HOME": str(spark_home())}
    return kept | short | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(scratch)} | more


def python_without_the_package(scratch: Path) -> tuple[Path, str]:
    """A Python that sees everything installed but the package itself, and its PYTHONPATH.

    Without `site` the editable install's path file is not read; the folder of the other packages is named instead.
    """
    wrapper = scratch / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    wrapper.chmod(0o755)
    return wrapper, sysconfig.get_path("purelib")


@pytest.mark.sparks("py_files")
def test_package_by_py_files_alone_works_after_register(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=2)
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", PACKAGE.parent, PACKAGE.name)
    script = tmp_path / "job.py"
    script.write_text(BY_PY_FILES + ROUND_TRIP + AT_THE_END)
    python, path = python_without_the_package(tmp_path)
    settings = [part for name, value in QUIET.items() for part in ("--conf", f"{name}={value}")]
    if not HAS_PYTHON_SOURCES:
        settings += ["--jars", str(jar())]
    spark_submit = str(Path(path) / "pyspark" / "bin" / "spark-submit")
    ran = subprocess.run(
        [spark_submit, "--master", "local[2]", *settings, "--py-files", archive, str(script), cluster.connection.url],
        cwd=tmp_path,
        env=surroundings(tmp_path, PYSPARK_PYTHON=str(python), PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "all is well" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-6000:]


@pytest.mark.sparks("connect")
def test_spark_connect_reads_and_writes(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    cluster.create_topic("t", partitions=2)
    script = tmp_path / "job.py"
    script.write_text(BY_CONNECT + ROUND_TRIP + MORE_BY_CONNECT + AT_THE_END)
    try:
        jars = [] if HAS_PYTHON_SOURCES else [jar(), *fetch_jars("spark-connect", [CONNECT], WITHOUT)]
    except CannotFetch as error:
        pytest.skip(str(error))
    submitted = {"PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, jars))} pyspark-shell"} if jars else {}
    ran = subprocess.run(
        [sys.executable, str(script), cluster.connection.url, *(f"{name}={value}" for name, value in QUIET.items())],
        cwd=tmp_path,
        # Otherwise a local server always takes port 15002, and two of them at once collide.
        env=surroundings(tmp_path, PYSPARK_PYTHON=sys.executable, SPARK_TESTING="1", **submitted),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "all is well" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-6000:]
