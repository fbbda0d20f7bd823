"""What roles do by the Python client, each step a process: `python python_steps.py STEP`, a function of this file.

The cluster is that of SPARKLOG_CLUSTER.
"""

from __future__ import annotations

import os
import random
import sys

import pyarrow as pa

import sparklog
from sparklog.client.cluster import Cluster

LARGE_RECORDS, LARGE_BYTES = 20, 900_000
AT_ONCE = {"file.delete.delay.ms": 0, "rewrite.delete.delay.ms": 0}  # the next job deletes what this one replaced


def topics(cluster: Cluster) -> None:
    """As the operator: what is written to, one with many partitions, and one that is compacted."""
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
    whole = {"retention.ms": -1, "segment.bytes": 16_000_000}
    for topic, partitions, config in (("orders", 2, whole), ("wide", 8, {}), ("prices", 1, compacted)):
        cluster.create_topic(topic, partitions=partitions, replication_factor=2, config={**config, **AT_ONCE})


def write(cluster: Cluster) -> None:
    """Appends of a few records, a producer, and at last an append of so many slices that the chain keeps them apart."""
    for number in range(6):
        cluster.append("orders", pa.table({"key": ["anna", "ben"], "value": [f"{number} tea", f"{number} cups"]}))
    keyed(cluster)
    with cluster.producer() as producer:
        producer.send("orders", value=b"forks").result()
    cluster.append("wide", pa.table({"partition": pa.array(range(8), pa.int32()), "value": ["x"] * 8}))


def keyed(cluster: Cluster) -> None:
    """Newer values of the same keys."""
    cluster.append("prices", pa.table({"key": ["tea", "cup", "tea"], "value": ["4", "9", "5"]}))


def large(cluster: Cluster) -> None:
    """An object that is sent in parts."""
    dice = random.Random(1)
    values = [dice.randbytes(LARGE_BYTES) for _ in range(LARGE_RECORDS)]
    partitions = pa.array([0] * LARGE_RECORDS, pa.int32())
    cluster.append("orders", pa.table({"value": values, "partition": partitions}))


def many(cluster: Cluster) -> None:
    """Entries enough for several blocks of the chain."""
    for number in range(50):
        cluster.append("orders", pa.table({"value": [f"{number} forks"]}))


def read(cluster: Cluster) -> None:
    """Whole, by columns, and where a time is."""
    assert cluster.read("orders", partition=0).num_rows
    assert cluster.read("orders", partition=1, columns=["offset"]).num_rows
    cluster.offset_for_time("orders", 0, 1)


def group(cluster: Cluster) -> None:
    """As a group, which commits what it has read."""
    with cluster.consumer("orders", group="billing", auto_offset_reset="earliest") as consumer:
        while not consumer.poll_table(timeout_ms=1_000).num_rows:
            pass
        consumer.commit()


if __name__ == "__main__":
    with sparklog.connect(os.environ["SPARKLOG_CLUSTER"]) as connected:
        {each.__name__: each for each in (topics, write, keyed, large, many, read, group)}[sys.argv[1]](connected)
