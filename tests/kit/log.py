"""A cluster in memory, records that a test appends to one partition, and what a reader finds there."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster


def new_cluster(
    stores: Iterable[str] = "", *, zones: Mapping[str, str] | None = None, config: Mapping[str, object] | None = None
) -> Cluster:
    """A connection to a new cluster, on stores of these names or on one store beside its metadata."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url, stores={name: f"{url}-{name}" for name in stores} or None, zones=zones, config=config)
    return sparklog.connect(url)


def rows(values: Sequence[str | bytes], partition: int | None = None, **more: object) -> pa.Table:
    """Rows for `Cluster.append`; `more` are other columns."""
    where = {} if partition is None else {"partition": pa.array([partition] * len(values), pa.int32())}
    return pa.table({"value": pa.array(values), **where, **more})


def fill(cluster: Cluster, partition: int, records: int, *, first: int = 0, topic: str = "orders") -> None:
    """Append records of which each value is "partition-number"; the numbers begin with `first`."""
    cluster.append(topic, rows([f"{partition}-{at}" for at in range(first, first + records)], partition))


def values(cluster: Cluster, partition: int = 0, topic: str = "t") -> list[str]:
    """The values that a reader finds in a partition, in the order of offsets."""
    found = cluster.read(topic, partition=partition, columns=["value"])
    return [value.decode() for value in found["value"].to_pylist()]
