"""The Spark session of the benchmarks: the same settings for sparklog and its peers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import sparklog.spark
from bench.bare_source import BareSource
from bench.children import ended_on_failure
from tests.jar import jar


def session(folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """local[2] with 6 GiB, unless `settings` say otherwise; its files below `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = [str(jar()), settings.get("spark.jars", "")]
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config(map={**settings, "spark.jars": ",".join(filter(None, jars))})
    )
    with ended_on_failure():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sparklog.spark.register(spark)
    spark.dataSource.register(BareSource)
    return spark
