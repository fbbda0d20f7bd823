"""What differs between versions of Spark beside streams: each test runs on the versions that it is about."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput
from sparklog.spark.spark_versions import _hashed_to_each, _murmur3, delta_package, repartition_by_id
from tests.spark.conftest import Read
from tests.spark.read.test_batch_reader import rows

PROJECT = Path(__file__).parents[2]
IMPORTS = """
import importlib, sys
absent, *modules = sys.argv[1:]

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in absent.split(","):
            raise ModuleNotFoundError(f"the environments of other Sparks lack {name}")

sys.meta_path.insert(0, Absent())
for module in modules:
    importlib.import_module(module)
"""


def locked(name: str) -> set[str]:
    """The packages of a lock file."""
    return set(re.findall(r"^([a-z0-9-]+)==", (PROJECT / "requirements" / name).read_text("utf-8"), re.MULTILINE))


def test_what_runs_on_each_spark_imports_nothing_that_their_environments_lack() -> None:
    missing = locked("dev.lock") - locked("spark-4.0.lock")
    of = packages_distributions()
    absent = [
        module for module, names in of.items() if {re.sub("[._]", "-", name).lower() for name in names} <= missing
    ]
    assert "uvicorn" in absent
    files = [path for path in PROJECT.glob("tests/**/test_*.py") if "mark.sparks" in path.read_text("utf-8")]
    modules = [".".join(path.relative_to(PROJECT).with_suffix("").parts) for path in files]
    assert "tests.spark.stream.test_on_every_spark" in modules
    command = [sys.executable, "-c", IMPORTS, ",".join(absent), "tests.conftest", *modules]
    found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.spark
@pytest.mark.sparks("latest", since="4.0", before="4.1")
def test_each_action_reads_up_to_what_there_is_then(cluster: Cluster, read: Read) -> None:
    """Spark 4.0 plans each use of a DataFrame anew. Offsets in the options are the same for all of them."""
    cluster.create_topic("t", partitions=1)
    cluster.append("t", rows(["a", "b", "c"]))
    df, fixed = read("t"), read("t", endingOffsets='{"t": {"0": 3}}')
    kept = read("t").persist()
    assert (df.count(), fixed.count(), kept.count()) == (3, 3, 3)
    cluster.append("t", rows(["d", "e"]))
    assert (df.count(), fixed.count(), kept.count()) == (5, 3, 3)
    kept.unpersist()


@pytest.mark.spark
@pytest.mark.sparks("by_partition")
def test_rows_are_shuffled_to_the_task_that_their_number_says(spark: SparkSession) -> None:
    numbered = spark.range(50).select((f.col("id") % 7).cast("int").alias("task"))
    found = repartition_by_id(numbered, 7, f.col("task")).select("task", f.spark_partition_id().alias("at")).collect()
    assert len(found) == 50
    assert all(row.task == row.at for row in found)


@pytest.mark.spark
@pytest.mark.sparks("by_partition")
def test_numbers_are_hashed_as_spark_hashes_them(spark: SparkSession) -> None:
    numbers = [0, 1, 2, 41, 1_000_003, 2**31 - 1]
    hashed = spark.createDataFrame([(number,) for number in numbers], "n int").select("n", f.hash("n").alias("h"))
    assert {row.n: row.h for row in hashed.collect()} == {number: _murmur3(number) for number in numbers}
    assert [_murmur3(number) % 400 for number in _hashed_to_each(400)] == list(range(400))


@pytest.mark.parametrize("spark", ["4.0.2", "4.1.1", "4.2.0"])
def test_delta_lake_has_a_package_for_each_spark(spark: str) -> None:
    assert delta_package(spark) == f"io.delta:delta-spark_{spark[:3]}_2.13:4.4.0"


@pytest.mark.sparks("materialize", since="4.3", also="3.5", refused=True)
def test_a_spark_that_delta_lake_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match=r"wanted Spark 4.0, 4.1, 4.2 for Delta Lake 4.4.0, found Spark (4.3|3.5)"):
        delta_package()


@pytest.mark.spark
@pytest.mark.sparks("update", since="4.0", refused=True)
def test_output_mode_update_is_refused_by_spark(
    spark: SparkSession, cluster: Cluster, read: Read, pytestconfig: pytest.Config
) -> None:
    if pytestconfig.getoption("--columns"):
        pytest.skip("with the JAR, a stream in the mode update appends the rows that changed")
    cluster.create_topic("t", partitions=1)
    records = spark.readStream.format("sparklog").options(cluster=cluster.connection.url, subscribe="t").load()
    counts = records.groupBy("partition").count().selectExpr("cast(count as string) as value")
    query = (
        counts.writeStream.format("sparklog").options(cluster=cluster.connection.url, topic="t").outputMode("update")
    )
    with pytest.raises(PySparkException, match="does not support Update mode"):
        query.option("checkpointLocation", f"{cluster.connection.url}-checkpoint").start().awaitTermination()
