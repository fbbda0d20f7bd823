"""What a writing task needs beyond the barest Python writer: at most 256 MiB, whatever the rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparklog.client.cluster import Cluster
from tests.spark.conftest import OneSpark
from tests.spark.measured_source import MeasuredSource

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MIB = 1 << 20
ALLOWED_BYTES = 256 * MIB


@pytest.fixture
def spark(one_spark: OneSpark) -> SparkSession:
    """One task at a time, each in a new process: what one kept does not count for the next."""
    session = one_spark.session("local[1]", spark__python__worker__reuse="false")
    session.dataSource.register(MeasuredSource)
    return session


def interleaved(spark: SparkSession) -> DataFrame:
    """320 MB in rows of 500 bytes, their keys dealt over 100 partitions."""
    return spark.range(0, 640_000, 1, 1).selectExpr(
        "cast(id as string) as key", "repeat(cast(id as string), 82) as value"
    )


def large(spark: SparkSession) -> DataFrame:
    """320 records of nearly 1 MiB."""
    return spark.range(0, 320, 1, 1).selectExpr("cast(id as string) as key", f"repeat('x', {MIB - 64}) as value")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process's memory is read from /proc")
@pytest.mark.parametrize("rows", [interleaved, pytest.param(large, marks=pytest.mark.campaign)])
def test_a_writing_task_needs_little_more_than_a_bare_writer(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, rows: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uncompressed, so that what waits is as large as it gets."""
    cluster.create_topic("t", partitions=100)
    peaks = {}
    for name, options in {
        "bare": {"path": str(tmp_path / "bare")},
        "sparklog": {"cluster": cluster.connection.url, "topic": "t", "compression": "none"},
    }.items():
        report = tmp_path / f"peaks of {name}"
        report.mkdir()
        writer = rows(spark).write.format("measured").mode("append").option("report", str(report))  # type: ignore[operator]
        writer.options(**options).save()
        peaks[name] = max(int(each.read_text()) for each in report.iterdir())
    with capsys.disabled():
        print(f"\n{rows.__name__}: " + ", ".join(f"{name} {peak / MIB:.0f} MiB" for name, peak in peaks.items()))  # type: ignore[attr-defined]
    assert peaks["sparklog"] <= peaks["bare"] + ALLOWED_BYTES
    assert cluster.describe("t").records == rows(spark).count()  # type: ignore[operator]
