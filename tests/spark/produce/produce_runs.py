"""Runs of produce in the shared session: fixtures for test files, which import them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.spark.produce.formats.bad_rows import BadRows
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.produce_job import NewTopic, Target, run_produce
from sparklog.spark.produce.produce_report import ProduceReport
from sparklog.spark.produce.rows import RowMapping


class Runs:
    """Produces into topic `t` of a cluster, and reads it back."""

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        self.spark = spark
        self.cluster = cluster
        self.said = io.StringIO()

    def __call__(
        self,
        source: Path | InputSource,
        mapping: RowMapping | None = None,
        *,
        create: NewTopic | None = None,
        transaction: tuple[str, str] | None = None,
        dry_run: bool = False,
        bad_rows: BadRows | None = None,
    ) -> ProduceReport:
        return run_produce(
            source if isinstance(source, InputSource) else InputSource(str(source)),
            mapping or RowMapping(),
            Target(self.cluster.connection.url, "t", create, transaction, bad_rows=bad_rows or BadRows()),
            spark=self.spark,
            dry_run=dry_run,
            console=self.said,
        )

    def rows(self, *columns: str, topic: str = "t") -> list[tuple[Any, ...]]:
        """All records of the topic, by partition and offset."""
        parts = range(len(self.cluster.describe(topic).partitions))
        table = pa.concat_tables([self.cluster.read(topic, partition=each, columns=list(columns)) for each in parts])
        return [tuple(row.values()) for row in table.to_pylist()]

    def values(self) -> list[Any]:
        """The values of all records, from JSON."""
        return [json.loads(value) for (value,) in self.rows("value")]


@pytest.fixture
def produce(spark: SparkSession, cluster: Cluster) -> Runs:
    return Runs(spark, cluster)
