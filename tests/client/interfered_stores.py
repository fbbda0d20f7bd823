"""The stores of a cluster, with something of a test's own before each call: to count it, or to let it fail."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core.errors import StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.object_store import Bytes, ObjectStore, Upload
from tests.kit.hand_clock import HandClock

Interference = Callable[[str, str], None]


@dataclass
class StoreCalls:
    """`before[store]` is called with the call and the key, and may raise. `written` are the (store, key) of writes."""

    before: dict[str, Interference] = field(default_factory=dict)
    written: list[tuple[str, str]] = field(default_factory=list)

    def called(self, store: str, call: str, key: str) -> None:
        if store in self.before:
            self.before[store](call, key)
        if call in ("put", "publish"):
            self.written.append((store, key))

    def objects(self) -> set[str]:
        """The names of data objects that were written, whichever stores they went to."""
        return {key for _, key in self.written if key.endswith(".arrow")}


@dataclass
class Interfered:
    """A store that asks `calls` before each call."""

    inner: ObjectStore
    name: str
    calls: StoreCalls

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self.calls.called(self.name, "put", key)
        self.inner.put_if_absent(key, body)

    def get(self, key: str) -> memoryview:
        self.calls.called(self.name, "get", key)
        return self.inner.get(key)

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        self.calls.called(self.name, "get", key)
        return self.inner.get_beside(key, others)

    def size(self, key: str) -> int:
        self.calls.called(self.name, "size", key)
        return self.inner.size(key)

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False

    def upload(self, key: str) -> _InterferedUpload:
        self.calls.called(self.name, "upload", key)
        return _InterferedUpload(self, key, self.inner.upload(key))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(eq=False)
class _InterferedUpload:
    store: Interfered
    key: str
    inner: Upload

    def write(self, body: Bytes) -> None:
        self.inner.write(body)

    def publish(self) -> None:
        self.store.calls.called(self.store.name, "publish", self.key)
        self.inner.publish()

    def abort(self) -> None:
        self.inner.abort()

    def __enter__(self) -> _InterferedUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


def interfere(monkeypatch: pytest.MonkeyPatch) -> StoreCalls:
    """From now on, the stores of clusters are opened with `StoreCalls` before them."""
    calls = StoreCalls()
    get = Stores.get
    monkeypatch.setattr(Stores, "get", lambda stores, store: Interfered(get(stores, store), StoreId(store), calls))
    return calls


def failing(error: Exception) -> Interference:
    """Whatever is written raises the error."""

    def fail(call: str, key: str) -> None:
        if call in ("put", "publish", "upload"):
            raise error

    return fail


def dead(name: str) -> StoreUnavailable:
    return StoreUnavailable(f"{name} does not answer")


def tick(cluster: Cluster, *events: Callable[[], object]) -> HandClock:
    """The commits of this cluster pause by this clock."""
    clock = HandClock(0, list(events))
    cluster.connection.committer.clock = clock
    return clock
