"""Heap that a task needs: the smallest heap of a Spark JVM in which one task after the other writes or reads a topic.

python -m bench.heaps                        prints a line per write and read
python -m bench.heaps FOLDER HEAP_MIB RUN    runs one of them in a session with that heap
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import sparklog
from bench.paired import Comparison
from bench.session import session
from sparklog.client.bootstrap import init_cluster

RECORDS, VALUE_BYTES = 640_000, 500
PARTITIONS = 100
STORES = "abc"
SMALLEST_MIB, STEP_MIB, LARGEST_MIB = 192, 32, 1024
WITHIN_S = 120  # in a heap that is nearly full, collections follow each other, and nothing fails
# Without the first setting, Spark refuses a heap of less than 450 MiB.
ONE_SMALL_TASK = {"spark.testing.reservedMemory": "1", "spark.master": "local[1]"}


def heaps(folder: Path) -> tuple[list[Comparison], list[tuple[str, str]]]:
    """No comparison, and figures: (what was run, the smallest heap in which it succeeds)."""
    init_cluster(str(folder / "log"), stores={store: str(folder / store) for store in STORES})
    with sparklog.connect(str(folder / "log")) as cluster:
        cluster.create_topic("read", partitions=PARTITIONS)
        keys = [str(number) for number in range(RECORDS)]
        values = [key * (VALUE_BYTES // len(key)) for key in keys]
        cluster.append("read", pa.table({"key": keys, "value": values}), compression="none")
    figures = []
    for run in RUNS:
        figures.append((run, _smallest(folder, run)))
        print(f"{run}: {figures[-1][1]}", flush=True)
    return [], figures


def _smallest(folder: Path, run: str) -> str:
    """By bisection, in steps of STEP_MIB. Raises RuntimeError if the largest heap is not enough either."""
    if not _succeeds(folder, LARGEST_MIB, run):
        raise RuntimeError(f"{run}: fails with {LARGEST_MIB} MiB, too; see why: python -m bench.heaps FOLDER …")
    too_small, enough = SMALLEST_MIB - STEP_MIB, LARGEST_MIB
    while enough - too_small > STEP_MIB:
        heap = too_small + (enough - too_small) // STEP_MIB // 2 * STEP_MIB
        if _succeeds(folder, heap, run):
            enough = heap
        else:
            too_small = heap
    return f"{enough} MiB" + (" or less" if enough == SMALLEST_MIB else "")


def _succeeds(folder: Path, heap_mib: int, run: str) -> bool:
    command = [sys.executable, "-m", "bench.heaps", str(folder), str(heap_mib), run]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(WITHIN_S) == 0
        except subprocess.TimeoutExpired:
            process.terminate()
            return False


def _drop_rows(spark: SparkSession, folder: Path) -> None:
    _drop(_rows(spark))


def _write_parquet(spark: SparkSession, folder: Path) -> None:
    _rows(spark).write.mode("overwrite").option("compression", "none").parquet(str(folder / "parquet"))


def _read_parquet(spark: SparkSession, folder: Path) -> None:
    _drop(spark.read.parquet(str(folder / "parquet")))


def _write(partitions: int, factor: int, spark: SparkSession, folder: Path) -> None:
    """To a new topic, whose partitions have their replicas on `factor` of the stores."""
    topic = f"{partitions}-{factor}-{spark.conf.get('spark.driver.memory')}"
    assignment = [[STORES[(first + at) % len(STORES)] for at in range(factor)] for first in range(partitions)]
    with sparklog.connect(str(folder / "log")) as cluster:
        cluster.create_topic(topic, assignment=assignment)
    writer = _rows(spark).write.format("sparklog").option("cluster", str(folder / "log")).option("topic", topic)
    writer.option("compression", "none").mode("append").save()


def _read(spark: SparkSession, folder: Path) -> None:
    _drop(spark.read.format("sparklog").option("cluster", str(folder / "log")).option("subscribe", "read").load())


def _rows(spark: SparkSession) -> DataFrame:
    """Made by one task. Neighbours have different partitions by their keys."""
    repeated = "repeat(cast(id as string), 500 div length(cast(id as string)))"
    return spark.range(0, RECORDS, 1, 1).selectExpr("cast(id as string) as key", f"{repeated} as value")


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


RUNS: Mapping[str, Callable[[SparkSession, Path], None]] = {
    "the rows alone, dropped": _drop_rows,
    "write to a Parquet file": _write_parquet,
    "write to one partition": partial(_write, 1, 1),
    f"write to {PARTITIONS} partitions": partial(_write, PARTITIONS, 1),
    f"write to {PARTITIONS} partitions, each on three stores": partial(_write, PARTITIONS, 3),
    "read the Parquet file": _read_parquet,
    f"read {PARTITIONS} partitions, all columns": _read,
}


def main() -> None:
    if len(sys.argv) > 1:
        folder, heap_mib, run = sys.argv[1:]
        RUNS[run](session(Path(folder), {**ONE_SMALL_TASK, "spark.driver.memory": f"{heap_mib}m"}), Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="sparklog-bench-") as name:
        heaps(Path(name))


if __name__ == "__main__":
    main()
