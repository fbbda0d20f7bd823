"""Runs of materialize, and what their tables have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from sparklog.client.cluster import Cluster
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.materialize.materialize_job import Table, run_materialize
from tests.kit.silent_console import SILENT

_SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32())])


def materialize(
    spark: SparkSession,
    cluster: Cluster,
    table: Path | str,
    *,
    topic: str = "t",
    now_ms: int | None = None,
    **given: Any,
) -> JobReport:
    wanted, said = Table(str(table), **given), SILENT
    return run_materialize(cluster.connection.url, topic, wanted, lambda: spark, console=said, now_ms=now_ms)


def rows_of(spark: SparkSession, table: Path) -> list[Row]:
    return spark.read.format("delta").load(str(table)).collect()


def append(cluster: Cluster, *rows: dict[str, Any], topic: str = "t") -> None:
    cluster.append(topic, pa.Table.from_pylist(list(rows), _SCHEMA))


def numbered(start: int, end: int) -> list[dict[str, Any]]:
    return [{"key": b"%d" % n, "value": b"%d" % n, "partition": n % 2} for n in range(start, end)]


def is_the_topic(spark: SparkSession, cluster: Cluster, table: Path) -> bool:
    """Whether the table has each record of the topic once."""
    log = [
        (partition, row["offset"], row["value"])
        for partition in range(len(cluster.describe("t").partitions))
        for row in cluster.read("t", partition=partition).to_pylist()
    ]
    rows = [(row.partition, row.offset, row.value and bytes(row.value)) for row in rows_of(spark, table)]
    return sorted(rows) == sorted(log)


def tombstone(n: int) -> dict[str, Any]:
    return {"key": b"%d" % n, "value": None, "partition": n % 2}


def is_the_latest(spark: SparkSession, cluster: Cluster, table: Path) -> bool:
    """Whether the table has a row for each key that was not deleted: its last record."""
    latest: dict[bytes, tuple[int, int, bytes | None]] = {}
    for partition in range(len(cluster.describe("t").partitions)):
        for row in cluster.read("t", partition=partition).to_pylist():
            latest[row["key"]] = partition, row["offset"], row["value"]
    rows = [(row.partition, row.offset, bytes(row.value)) for row in rows_of(spark, table)]
    return sorted(rows) == sorted(record for record in latest.values() if record[2] is not None)
