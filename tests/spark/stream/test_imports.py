"""Spark starts a Python process for each thing that it asks of a source or a sink, and each imports what it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sparklog.client.cluster import Cluster
from tests.spark.conftest import PROJECT
from tests.spark.stream.driven_stream import send

_HTTP, _COMPUTE, _CLUSTER = "urllib3", "pyarrow.compute", "sparklog.client.connection"
_SCAN, _WRITES = "sparklog.log.scan", "sparklog.client.write_rows"

# What a process does, and what it can do without.
_STEPS = {
    "the schema": ("source.schema()", {_HTTP, _COMPUTE, _CLUSTER, _SCAN, _WRITES}),
    "the reader for tasks": ("save(stream_reader())", {_HTTP, _COMPUTE, _CLUSTER, _SCAN, _WRITES}),
    "a micro-batch": (
        "reader = stream_reader(); start = reader.initialOffset(); end = reader.latestOffset(start)\n"
        "save((reader, reader.partitions(start, end)))",
        {_HTTP, _COMPUTE, _WRITES},
    ),
    "a task that reads": (
        "reader, partitions = saved()\nassert sum(batch.num_rows for batch in reader.read(partitions[0])) == 3",
        {_HTTP, _COMPUTE, _CLUSTER, _WRITES},
    ),
    "the writer for tasks": ("save(source.streamWriter(StructType([StructField('value', BinaryType())]), False))",
        {_HTTP, _COMPUTE, _SCAN, _WRITES}),
    "a task that writes": ("saved(); import sparklog.client.write_rows", {_HTTP, _CLUSTER, _SCAN}),
}  # fmt: skip

_PROGRAM = """
import pickle, sys
from pathlib import Path
import pyspark.sql.worker.plan_data_source_read
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, StructField, StructType
from sparklog.spark.source import SparklogDataSource
reading = {"subscribe": "in", "startingOffsets": "earliest"}
source = SparklogDataSource(CaseInsensitiveDict({"cluster": sys.argv[1], **({"topic": "in"} if WRITES else reading)}))
def stream_reader():
    return source.streamReader(source.schema())
def save(value):
    Path(sys.argv[2]).write_bytes(pickle.dumps(value))
def saved():
    return pickle.loads(Path(sys.argv[2]).read_bytes())
"""


def test_planning_and_reading_import_only_what_they_need(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("in", partitions=1)
    send(cluster, "in", 0, 3)
    for what, (step, without) in _STEPS.items():
        program = f"WRITES = {'writ' in what}{_PROGRAM}{step}\nprint(*sys.modules)"
        run = [sys.executable, "-c", program, cluster.connection.url, str(tmp_path / "kept")]
        ended = subprocess.run(run, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert not without & set(ended.stdout.split()), what
