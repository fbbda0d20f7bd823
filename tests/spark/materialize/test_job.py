"""materialize, with Spark and Delta Lake: each record once, whatever happens between two steps."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sparklog.client.cluster import Cluster
from sparklog.maintenance.report import JobReport
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.job import Table, run_materialize
from sparklog.spark.materialize.position import Mode
from tests.spark.delta_session import delta_spark as delta_spark

pytestmark = pytest.mark.spark


def materialize(spark: SparkSession, cluster: Cluster, topic: str, name: str, **given: Any) -> JobReport:
    table = Table(name, **given)
    return run_materialize(
        cluster.connection.url, topic, table, lambda: spark, console=Console(file=io.StringIO())
    )


def test_first(delta_spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=2)
    cluster.append("t", [{"key": b"%d" % (n % 7), "value": b"v%d" % n} for n in range(20)])
    table = str(tmp_path / "table")
    import time
    a=time.time()
    report = materialize(delta_spark, cluster, "t", table, records=8)
    print(time.time()-a); a=time.time()
    print(report.to_json())
    rows = delta_spark.read.format("delta").load(table).collect()
    assert len({(row.partition, row.offset) for row in rows}) == len(rows) == 20
    report = materialize(delta_spark, cluster, "t", table, records=8)
    print(time.time()-a); a=time.time()
    print(report.to_json())
    for mode, schema in ((Mode.LATEST, None),(Mode.LATEST, "a int"),(Mode.APPEND,"a int")):
        report = materialize(delta_spark, cluster, "t", table+str(mode)+str(bool(schema)), records=8, layout=Layout(mode, schema))
        print(time.time()-a); a=time.time()
        print(report.to_json()[-500:])
        delta_spark.read.format("delta").load(table+str(mode)+str(bool(schema))).show()
