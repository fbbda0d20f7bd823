"""Spark starts a Python process for each thing that it asks of a source or a sink, and each imports what it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sparklog.client.cluster import Cluster
from tests.spark.conftest import PROJECT
from tests.spark.stream.driven_stream import send

# What a process does, and what it can do without.
_PANDAS, _HTTP, _CLUSTER = "pandas", "urllib3", "sparklog.client.connection"
_SCAN, _WRITES = "sparklog.log.read.scan", "sparklog.client.plans.task_upload"
_STEPS = {
    "the schema": ("source(**READ).schema()", {_PANDAS, _HTTP, _CLUSTER, _SCAN, _WRITES}),
    "the reader for tasks": ("save(stream_reader())", {_PANDAS, _HTTP, _CLUSTER, _SCAN, _WRITES}),
    "a micro-batch": (
        "reader = stream_reader(); start = reader.initialOffset(); end = reader.latestOffset(start)\n"
        "save((reader, reader.partitions(start, end)))",
        {_PANDAS, _HTTP, _WRITES},
    ),
    "a task that reads": (
        "reader, partitions = saved()\nassert sum(batch.num_rows for batch in reader.read(partitions[0])) == 3",
        {_PANDAS, _HTTP, _CLUSTER, _WRITES},
    ),
    "the writer for tasks": ("save(stream_writer())", {_PANDAS, _HTTP, _SCAN, _WRITES}),
    "a task that writes": (  # PyArrow imports pandas for Spark's own message, too
        "writer = saved(); rows = pa.record_batch({'value': pa.array([b'a', b'b'])})\n"
        "TaskContext.get = lambda: SimpleNamespace(partitionId=lambda: 0, getLocalProperty=PROPERTIES.get)\n"
        "save(writer.write(iter([rows])))",
        {_HTTP, _CLUSTER, _SCAN},
    ),
    "a commit": ("stream_writer().commit([saved()], 0)", {_PANDAS, _HTTP, _SCAN, _WRITES}),
}

_PROGRAM = """
import pickle, sys
from pathlib import Path
from types import SimpleNamespace
import pyarrow as pa
import pyspark.sql.worker.plan_data_source_read
from pyspark import TaskContext
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType
from sparklog.spark.source import SparklogDataSource
READ = {"subscribe": "in", "startingOffsets": "earliest"}
PROPERTIES = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0", "spark.jobGroup.id": "r"}
def source(**options):
    return SparklogDataSource(CaseInsensitiveDict({"cluster": sys.argv[1], **options}))
def stream_reader():
    return source(**READ).streamReader(source(**READ).schema())
def stream_writer():
    return source(topic="out").streamWriter(StructType([StructField("value", BinaryType())]), False)
def save(value):
    Path(sys.argv[2]).write_bytes(pickle.dumps(value))
def saved():
    return pickle.loads(Path(sys.argv[2]).read_bytes())
"""


def test_planning_and_reading_import_only_what_they_need(cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        cluster.create_topic(topic, partitions=1)
    send(cluster, "in", 0, 3)
    for what, (step, without) in _STEPS.items():
        program = f"{_PROGRAM}{step}\nprint(*sys.modules)"
        run = [sys.executable, "-c", program, cluster.connection.url, str(tmp_path / "kept")]
        ended = subprocess.run(run, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert not without & set(ended.stdout.split()), what
    assert cluster.describe("out").records == 2
