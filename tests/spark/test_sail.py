"""Sail, a server of Spark Connect in Rust, runs the same data source: batch reads and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.client.compacting import mixed_log

PROGRAM = """
import json, sys
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
from sparklog.spark.source import SparklogDataSource

server = SparkConnectServer("127.0.0.1", 0)
server.start()
spark = SparkSession.builder.remote("sc://127.0.0.1:%d" % server.listening_address[1]).getOrCreate()
spark.dataSource.register(SparklogDataSource)
cluster = sys.argv[1]


def read(**options):
    return spark.read.format("sparklog").options(**{"cluster": cluster, "subscribe": "t", **options}).load()


def write(rows, **options):
    writer = rows.write.format("sparklog").options(cluster=cluster, topic="t", **options)
    writer.mode("append").save()


def rows(frame):
    found = frame.selectExpr("partition", "offset", "hex(key)", "hex(value)").orderBy("partition", "offset")
    return [list(row) for row in found.collect()]


def error(act):
    try:
        act()
    except Exception as raised:
        return str(raised)


print(json.dumps({
    "all": rows(read()),
    "range": rows(read(startingOffsets='{"t": {"0": 20}}', endingOffsets='{"t": {"0": 45}}')),
    "where": rows(read().where("offset >= 20 AND offset < 45")),
    "columns": read(columns="value,headers", includeHeaders="true").columns,
    "metadata": spark.read.format("sparklog").options(cluster=cluster, metadata="topics").load().count(),
    "unknown": error(lambda: read(subscribe="x").count()),
    "wrong": error(lambda: write(spark.range(3).selectExpr("id AS value"))),
    "written": [write(spark.range(50).selectExpr("cast(id AS string) AS value"), txnAppId="app", txnVersion="1")
                for _ in range(2)],
}))
spark.stop()
server.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.sparks("connect", since="4.1", before="4.2")
def test_sail_reads_and_writes_batches(tmp_path: Path) -> None:
    pytest.importorskip("pysail", reason="there is no Sail here")
    url = (tmp_path / "cluster").as_uri()
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        mixed_log(cluster)
        before = cluster.read("t", partition=0)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, url], env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-3000:]
        seen = json.loads(ran.stdout.splitlines()[-1])
        offsets = before["offset"].to_pylist()
        assert [row[1] for row in seen["all"]] == offsets
        values = [None if value is None else value.hex().upper() for value in before["value"].to_pylist()]
        assert [row[3] for row in seen["all"]] == values
        assert seen["range"] == seen["where"] == [row for row in seen["all"] if 20 <= row[1] < 45]
        assert seen["columns"] == ["value", "headers"]
        assert seen["metadata"] == 1
        assert "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'x'" in seen["unknown"]
        assert "column 'value': wanted string or binary" in seen["wrong"]
        after = cluster.read("t", partition=0)["value"].to_pylist()
        assert sorted(after[len(offsets) :]) == sorted(b"%d" % at for at in range(50))  # once, though written twice
