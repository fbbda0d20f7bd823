"""A topic for consumers of a group to read: orders, with three partitions of six records. And such consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sparklog
from sparklog.client.cluster import Cluster
from sparklog.client.consumer.consumer import Consumer
from sparklog.core.types import Place
from tests.kit.hand_clock import HandClock
from tests.kit.log import fill, new_cluster

P0, P1, P2 = (("orders", partition) for partition in range(3))
RECORDS = 6  # in each partition


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic orders with three partitions of 6 records."""
    with new_cluster() as made:
        made.create_topic("orders", partitions=3)
        for partition in range(3):
            fill(made, partition, RECORDS)
        yield made


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
            each._reading.do_periodic_work()
    return [each.assignment() for each in consumers]


def values(reader: Consumer, most: int = 500) -> list[str]:
    return [(record.value or b"").decode() for records in reader.poll(max_records=most).values() for record in records]


def committed(cluster: Cluster) -> dict[Place, int]:
    return {place: row.offset for place, row in cluster.committed("billing").items()}
