"""The coordinator that leads writes checkpoints to the stores, and stops when it leads no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparklog.client.cluster import Cluster
from sparklog.coordinator.leading.checkpointing import Checkpointing
from sparklog.core.describe.checkpoints import HIGH_WATERMARKS
from sparklog.core.errors import StoreUnavailable
from sparklog.core.state import ClusterState
from sparklog.log.checkpoint_files import newest_checkpoint
from sparklog.log.cluster_stores import Stores
from tests.kit.log import new_cluster


def opened(interval_ms: int) -> Iterator[Cluster]:
    """A cluster with one record in one store."""
    with new_cluster(config={"log.flush.offset.checkpoint.interval.ms": interval_ms}) as cluster:
        cluster.create_topic("t", partitions=1)
        cluster.append("t", pa.table({"value": ["0"]}))
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from opened(getattr(request, "param", 60_000))


class Watched:
    """Checkpoints that note when they are written."""

    def __init__(self, cluster: Cluster) -> None:
        self.said: list[str] = []
        self.written = threading.Semaphore(0)
        self.fails = False
        connection = cluster.connection

        def stores(state: ClusterState) -> Stores:
            self.written.release()
            if self.fails:
                raise StoreUnavailable("no store can be opened")
            return connection.stores(state)

        self.checkpoints = Checkpointing(connection.follower, stores, lambda event, text: self.said.append(text))


def high_watermark(cluster: Cluster) -> str:
    follower = cluster.connection.follower
    found = newest_checkpoint(follower.store, follower.state.chain_id, HIGH_WATERMARKS)
    return "" if found is None else found[1]


# M: N-06
@pytest.mark.parametrize("cluster", [5], indirect=True)
def test_checkpoints_are_written_again_and_again_while_it_leads(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.checkpoints.begin()
    for _ in range(3):
        assert watched.written.acquire(timeout=60)
    watched.checkpoints.end()
    for thread in threading.enumerate():
        if thread.name == "sparklog-checkpoints":
            thread.join(60)
            assert not thread.is_alive()
    assert high_watermark(cluster) == "0\n1\nt 0 1\n"
    assert watched.said == []


# M: N-06
def test_a_failure_is_said_once_and_the_next_write_is_tried(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.fails = True
    for _ in range(3):
        watched.checkpoints.write()
    assert len(watched.said) == 1
    assert "no store can be opened" in watched.said[0]
    watched.fails = False
    watched.checkpoints.write()
    assert high_watermark(cluster) == "0\n1\nt 0 1\n"


@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_with_an_interval_of_zero_nothing_is_written(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.checkpoints.begin()
    assert not any(thread.name == "sparklog-checkpoints" for thread in threading.enumerate())
    watched.checkpoints.end()
