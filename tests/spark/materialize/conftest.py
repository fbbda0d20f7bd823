"""A Spark with Delta Lake: its JARs must be there when the JVM starts, so the JVM of the other tests ends first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.bench.peer_jars import delta
from tests.servers.maven import CannotFetch
from tests.spark.conftest import OneSpark


@pytest.fixture(scope="package")
def delta_spark(one_spark: OneSpark) -> Iterator[SparkSession]:
    """local[2]; skips if the JARs can't be had."""
    try:
        jars = delta()
    except CannotFetch as error:
        pytest.skip(f"Delta Lake: {error}")
    one_spark.end()
    yield one_spark.session(
        "local[2]",
        **{
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "1",
        },
    )
    one_spark.end()
