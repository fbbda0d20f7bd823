"""For spark-submit: a batch read of a topic, then a stream from it to another one, in which an executor is killed.

spark-submit … round_trip.py CLUSTER SOURCE TARGET ROWS FOLDER PLACE

Each row of SOURCE has one of the values 0 to ROWS - 1. It ends with "all is well" if every read gave each of them once.
The driver imports nothing of sparklog; tasks find it at an address with PLACE in it, and only there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

CLUSTER, SOURCE, TARGET, ROWS, FOLDER, PLACE = sys.argv[1:]
KILLED = Path(FOLDER, f"{TARGET}.killed")


def parent_of(process: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(process)], check=True, capture_output=True).stdout)


def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand on the batches. The first task that comes here kills its executor behind the first one, and itself."""
    for batch in batches:
        yield batch
        try:
            KILLED.touch(exist_ok=False)
        except FileExistsError:
            continue
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # a worker's parent is the daemon
        os.kill(os.getpid(), signal.SIGKILL)


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where the package of a task is."""
    import sparklog

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"place": [sparklog.__file__]})


def rows(topic: str) -> DataFrame:
    return spark.read.format("sparklog").option("cluster", CLUSTER).option("subscribe", topic).load()


def check(topic: str) -> None:
    """Each row is there once."""
    found = rows(topic).selectExpr("cast(value as string) as value").collect()
    assert sorted(int(row.value) for row in found) == list(range(int(ROWS))), f"{topic}: {len(found)} rows"


spark = SparkSession.builder.getOrCreate()
found = spark.range(0, 100, 1, 4).mapInArrow(places, "place string").distinct().collect()
assert found
assert all(PLACE in row.place for row in found), found
check(SOURCE)
read = spark.readStream.format("sparklog").option("cluster", CLUSTER).option("subscribe", SOURCE)
stream = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", int(ROWS) // 3 + 1).load()
passed = stream.select("key", "value").mapInArrow(dying, "key binary, value binary")
written = passed.writeStream.format("sparklog").option("cluster", CLUSTER).option("topic", TARGET)
checkpoint = f"{FOLDER}/checkpoint-{uuid.uuid4().hex}"
query = written.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
assert KILLED.exists()
assert len(query.recentProgress) >= 3, query.recentProgress  # micro-batches
check(TARGET)
spark.stop()
print("all is well")
