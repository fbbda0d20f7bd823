"""Fixtures of the tests of replicas; files that need another cluster have a fixture `cluster` of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.client.cluster import Cluster
from tests.client.interfered_stores import StoreCalls, interfere
from tests.client.replicated_cluster import write
from tests.kit.log import new_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Topic "t" with a partition on a, b and c; offsets [0, 3) are on all of them."""
    with new_cluster("abc") as made:
        made.create_topic("t", assignment=["abc"], config={"file.delete.delay.ms": 0, "retention.ms": -1})
        write(made, "0", "1", "2")
        yield made


@pytest.fixture
def calls(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> StoreCalls:
    """What the stores of the cluster are asked from now on."""
    cluster.connection._stores = None
    return interfere(monkeypatch)
