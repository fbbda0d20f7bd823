"""The data source itself: found by name, light to load, and silent about secrets."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import pyspark_sparklog
import sparklog.spark
from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.spark.schema import RECORDS_SCHEMA, records_schema
from sparklog.spark.source import SparklogDataSource
from tests.spark.conftest import Read


def source(**options: str) -> SparklogDataSource:
    return SparklogDataSource(CaseInsensitiveDict(options))


def test_spark_finds_the_source_by_its_package() -> None:
    assert pyspark_sparklog.DefaultSource is SparklogDataSource
    assert SparklogDataSource.name() == "sparklog"


def test_the_package_that_spark_always_imports_loads_neither_pyarrow_nor_numpy() -> None:
    """Spark imports it at the first use of any Python data source, also by jobs that never heard of sparklog."""
    code = (
        "import pyspark_sparklog, sys; sys.exit(sum(name in sys.modules for name in ('pyarrow', 'numpy', 'msgspec')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_registering_where_the_source_is_found_anyway_does_no_harm(
    spark: SparkSession, cluster: Cluster, read: Read
) -> None:
    cluster.create_topic("t", partitions=1)
    sparklog.spark.register(spark)
    sparklog.spark.register(spark)
    assert read("t").count() == 0


def test_the_environment_names_the_cluster_and_the_option_goes_before_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidOption, match="SPARKLOG_CLUSTER"):
        source(subscribe="t").schema()
    monkeypatch.setenv("SPARKLOG_CLUSTER", cluster.connection.url)
    assert source(subscribe="t").schema() == records_schema(RECORDS_SCHEMA.names[:-1])
    with pytest.raises(InvalidOption, match="is a Kafka address"):
        source(subscribe="t", cluster="host:9092").schema()


def test_no_option_travels_to_the_tasks_with_the_source(cluster: Cluster) -> None:
    """Spark pickles the source after `reader`, and sends it to every task."""
    made = source(
        subscribe="t", cluster=cluster.connection.url, **{"storage.local.password": "hush", "cluster.token": "hush"}
    )
    made.reader(made.schema())
    assert not made.options


def test_overwrite_is_refused(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    with pytest.raises(InvalidInput, match=r'a log can only be appended to: use mode\("append"\)'):
        source(topic="t", cluster=cluster.connection.url).writer(RECORDS_SCHEMA, overwrite=True)


def test_secrets_stand_in_no_plan_and_no_error(spark: SparkSession, cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=1)
    secret = {"storage.local.secret_access_key": "hush-hush", "cluster.token": "hush-hush"}
    df = read("t", **secret)
    plan = df._jdf.queryExecution().toString()
    assert "hush-hush" not in plan
    with pytest.raises(Exception, match="did you mean") as raised:
        read("t", includeHeader="x", **secret).collect()
    assert "hush-hush" not in str(raised.value)
