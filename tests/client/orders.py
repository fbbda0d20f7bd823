"""A topic for consumers of a group to read: orders, with three partitions of six records. And such consumers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.types import Place
from tests.kit.hand_clock import HandClock

P0, P1, P2 = (("orders", partition) for partition in range(3))
RECORDS = 6  # in each partition


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders with three partitions of 6 records."""
    url = f"memory://{uuid.uuid4().hex}"
    init_cluster(url)
    with sparklog.connect(url) as made:
        made.create_topic("orders", partitions=3)
        for partition in range(3):
            fill(made, partition, RECORDS)
        yield made


def fill(cluster: Cluster, partition: int, records: int, *, first: int = 0) -> None:
    values = [f"{partition}-{at}" for at in range(first, first + records)]
    partitions = pa.array([partition] * records, pa.int32())
    cluster.append("orders", pa.table({"value": values, "partition": partitions}))


def consumer(cluster: Cluster, clock: HandClock | None = None, **options: object) -> Consumer:
    """A consumer of the group billing in a process of its own, whose time goes by in pauses only."""
    other = sparklog.connect(cluster.connection.url)
    other.connection.committer.clock = clock or HandClock()
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return other.consumer("orders", group="billing", **given)  # type: ignore[arg-type]


def settle(*consumers: Consumer) -> list[tuple[Place, ...]]:
    """Let each take over its share, without reading."""
    for _ in range(2):
        for each in consumers:
            each._reading._look_due_ms = 0
            each._reading.tend()
    return [each.assignment() for each in consumers]


def values(reader: Consumer, most: int = 500) -> list[str]:
    return [(record.value or b"").decode() for records in reader.poll(max_records=most).values() for record in records]


def committed(cluster: Cluster) -> dict[Place, int]:
    return {place: row.offset for place, row in cluster.committed("billing").items()}
