"""A store is lost in the middle of a Spark write; another one is filled by the replication job."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sparklog
from sparklog.maintenance.replication_job import run_replication
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.cli.conftest import Cli
from tests.faults.store_folders import StoreFolders

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TASKS = 2
BATCHES = 12  # of a task
BATCH_BYTES = 1 << 20
PATIENCE_S = 90  # for tasks to get to the middle


# M: P-03 P-06 P-11 I-03 N-02 L-03 S-01 (loses)
def test_a_write_goes_on_without_a_lost_store_and_the_job_fills_another(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks have streamed a part of their objects to the store when it goes; it leads the partition."""
    folders = StoreFolders.create(tmp_path, config={"replica.lag.time.max.ms": 20_000})
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["abc"], config={"min.insync.replicas": 2, "retention.ms": -1})
    with socket.create_server(("127.0.0.1", 0)) as meeting, ThreadPoolExecutor(1) as pool:
        meeting.settimeout(PATIENCE_S)
        port = meeting.getsockname()[1]
        frame = spark.range(TASKS, numPartitions=TASKS).mapInArrow(_values(port), "value binary")
        writing = frame.write.format("sparklog").mode("append").option("cluster", folders.url).option("topic", "t")

        def lose_in_the_middle() -> None:
            waiting = [meeting.accept()[0] for _ in range(TASKS)]
            folders.lose("a")
            for task in waiting:
                task.close()

        losing = pool.submit(lose_in_the_middle)
        writing.save()
        losing.result()
    assert folders.replication("t").isr == ("b", "c")
    assert folders.replication("t").leader == "b"

    cli = Cli(folders.url, capsys, monkeypatch)
    for command in ("store fence a", "store add d=../d", "replica move --off a"):
        assert cli(*command.split()).code == 0
    report = run_replication(folders.url, tasks=SparkTasks(spark))
    assert report.exit_code == 0
    value = folders.replication("t")
    assert sorted(value.isr) == sorted(value.replicas) == ["b", "c", "d"]
    assert folders.complaints() == []
    with folders.only("d"):
        read = spark.read.format("sparklog").option("cluster", folders.url).option("subscribe", "t").load()
        first = read.selectExpr("cast(substring(value, 1, 12) as string) as name").collect()
    assert sorted(row.name for row in first) == sorted(
        _name(task, at) for task in range(TASKS) for at in range(BATCHES)
    )


def _name(task: int, batch: int) -> str:
    return f"{task:04d}-{batch:07d}"


def _values(port: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A record of a megabyte in each batch; in the middle, tasks connect to the test and wait until it hangs up."""

    def values(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (task,) in [batch.column("id").to_pylist() for batch in tasks if batch.num_rows]:
            for at in range(BATCHES):
                if at == BATCHES // 2:
                    with socket.create_connection(("127.0.0.1", port)) as test:
                        test.recv(1)
                body = f"{task:04d}-{at:07d}".encode() + os.urandom(BATCH_BYTES // 2)
                yield pa.RecordBatch.from_pydict({"value": pa.array([body], pa.binary())})

    return values
