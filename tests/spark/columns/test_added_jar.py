"""A session that gets the JAR while it runs. Its JVM keeps JARs for good, so it ends with this test.

This file is the last one of the JVM that the tests without the JAR share.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparklog.spark
from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.columns.writing import save_by_java
from tests.spark.conftest import OneSpark

pytestmark = pytest.mark.spark


@pytest.fixture
def without_jar(one_spark: OneSpark, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """local[2] of a JVM that has never seen the JAR."""
    one_spark.stop()  # with --columns, local[2] has it
    monkeypatch.setattr(one_spark, "with_jar", False)
    yield one_spark.session("local[2]")
    one_spark.end()


def test_a_running_session_gets_the_jar(
    without_jar: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then Python reads, and says what to do if Java is asked for. Then Java reads, and writes."""
    monkeypatch.setattr("sparklog.spark.jar._JAR", jar())
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": [b"v"] * 3}))
    asked = without_jar.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    assert asked.load().count() == 3
    asked = asked.option("reader", "columns")
    with pytest.raises(Exception, match=r"INVALID_OPTION: reader: wanted columns.*call sparklog\.spark\.add_jar"):
        asked.load().collect()
    sparklog.spark.add_jar(without_jar)
    assert asked.load().count() == 3
    save_by_java(without_jar.range(10).selectExpr("cast(id as string) as value"), cluster, "t")
    assert asked.load().count() == 13
