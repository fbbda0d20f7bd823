"""A Spark with Delta Lake, whose JARs must be there when the JVM starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.peer_jars import delta
from tests.servers.made_once import CannotFetch
from tests.spark.conftest import OneSpark
from tests.spark.kills.deaths import Deaths
from tests.spark.kills.running_driver import EXECUTORS


@pytest.fixture(scope="package")
def delta_jars() -> list[Path]:
    """Skips if they can't be had."""
    try:
        return delta()
    except CannotFetch as error:
        pytest.skip(f"Delta Lake: {error}")


@pytest.fixture(scope="package")
def delta_settings(delta_jars: list[Path]) -> Mapping[str, str]:
    """Of a session whose JVM has the JARs."""
    return {
        "spark.jars": ",".join(map(str, delta_jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


@pytest.fixture
def delta_spark(one_spark: OneSpark, delta_settings: Mapping[str, str]) -> SparkSession:
    """local[2]."""
    return one_spark.session("local[2]", **delta_settings)


@pytest.fixture
def delta_executors(one_spark: OneSpark, delta_settings: Mapping[str, str], deaths: Deaths) -> SparkSession:
    """Two executors in JVMs of their own, which die as planned."""
    return one_spark.session(EXECUTORS, **delta_settings, **deaths.settings())
