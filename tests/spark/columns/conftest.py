"""A session with sparklog's JAR, and reads by both readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparklog.client.cluster import Cluster
from tests.jar import jar
from tests.spark.conftest import OneSpark

Both = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def columnar(one_spark: OneSpark) -> SparkSession:
    """local[2] with the JAR on its class path."""
    return one_spark.session("local[2]", spark__jars=str(jar()))


@pytest.fixture
def frame(columnar: SparkSession, cluster: Cluster) -> Callable[..., DataFrame]:
    """frame(reader, topic, option=value, …) -> the DataFrame."""

    def read(reader: str, topic: str, **options: object) -> DataFrame:
        asked = columnar.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", topic)
        return asked.options(reader=reader, **{name: str(value) for name, value in options.items()}).load()

    return read


@pytest.fixture
def both(frame: Callable[..., DataFrame]) -> Both:
    """both(topic, option=value, …) -> the rows, by partition and offset: the same by both readers, all read by Java."""

    def read(topic: str, **options: object) -> list[tuple[Any, ...]]:
        by_columns, by_rows = (frame(reader, topic, **options) for reader in ("columns", "rows"))
        assert by_columns.schema == by_rows.schema
        rows = sorted_rows(by_columns)
        assert rows == sorted_rows(by_rows)
        assert metric(by_columns, "rangesInPython") == 0
        return rows

    return read


def below_jvm(argument: str) -> list[psutil.Process]:
    """The processes that the JVM of this process has started with this argument, and that run."""
    assert SparkContext._gateway is not None
    below = psutil.Process(SparkContext._gateway.proc.pid).children(recursive=True)
    return [process for process in below if argument in arguments(process)]


def arguments(process: psutil.Process) -> list[str]:
    """The command line of a process; nothing if it has ended."""
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return []


def sorted_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows, in an order that does not depend on tasks."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def metric(frame: DataFrame, name: str) -> int:
    """A metric of the scan of a frame that was collected."""
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(scan.metrics().apply(name).value())


def failure(frame: DataFrame) -> str:
    """sparklog's part of the error of a read that fails."""
    try:
        frame.collect()
    except (PySparkException, Exception) as error:  # a task's error is Py4J's if Java raised it
        text = str(error)
        begin = text.index("sparklog.core.errors.")
        return text[begin:].partition("\n")[0]
    raise AssertionError("the read was expected to fail")
