"""The stores of a cluster, with something of a test's own before each call: to count it, or to let it fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.object_store import ObjectStore
from tests.kit.faulty_store import WRITES, Before, FaultyStore
from tests.kit.hand_clock import HandClock


@dataclass
class StoreCalls:
    """`before[store]` is that of its FaultyStore. `written` are the (store, key) of writes."""

    before: dict[str, Before] = field(default_factory=dict)
    written: list[tuple[str, str]] = field(default_factory=list)

    def between(self, get: Callable[[Stores, StoreId], ObjectStore]) -> Callable[[Stores, StoreId], ObjectStore]:
        """A `Stores.get` whose stores are FaultyStores."""
        return lambda stores, store: FaultyStore(get(stores, store), partial(self._called, store))

    def _called(self, store: str, call: str, key: str) -> object:
        found = self.before[store](call, key) if store in self.before else None
        if call in WRITES:
            self.written.append((store, key))
        return found

    def objects(self) -> set[str]:
        """The names of data objects that were written, whichever stores they went to."""
        return {key for _, key in self.written if key.endswith(".arrow")}


def interfere(monkeypatch: pytest.MonkeyPatch, **before: Before) -> StoreCalls:
    """From now on, the stores of clusters are opened with `StoreCalls` before them."""
    calls = StoreCalls(before)
    monkeypatch.setattr(Stores, "get", calls.between(Stores.get))
    return calls


def failing(error: Exception) -> Before:
    """Whatever is written raises the error."""

    def fail(call: str, key: str) -> None:
        if call in (*WRITES, "upload"):
            raise error

    return fail


def dead(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"{name} does not answer")


def tick(cluster: Cluster, *events: Callable[[], object]) -> HandClock:
    """The commits of this cluster pause by this clock."""
    clock = HandClock(0, list(events))
    cluster.connection.committer.clock = clock
    return clock
