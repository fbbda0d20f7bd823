"""A cluster whose metadata gets lost, on stores that are folders, and what happens to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.restoring import restore_cluster as restore_module
from sparklog.client.restoring.restore_cluster import Restored, restore_cluster
from sparklog.client.stores.add_store import add_store
from sparklog.core.types import StoreId

PARTITIONS = 2


class LostCluster:
    """A cluster on three stores, each a folder, with its metadata in a fourth. `copies` is metadata.copies."""

    def __init__(self, folder: Path, copies: int = 2, stores: str = "abc") -> None:
        self.folder = folder
        self.url, self.new_url = str(folder / "meta-place"), str(folder / "new-place")
        self.stores = {store: str(folder / store) for store in stores}
        init_cluster(self.url, stores=self.stores, config={"metadata.copies": copies})
        with sparklog.connect(self.url) as cluster:
            config = {"retention.ms": -1}
            cluster.create_topic("t", partitions=PARTITIONS, replication_factor=len(stores), config=config)

    def append(self, *values: str, **options: Any) -> None:
        with sparklog.connect(self.url) as cluster:
            for value in values:
                append(cluster, value, **options)

    def add(self, store: str, url: str | None = None) -> None:
        """Add a store to the cluster, or to the one at `url`."""
        self.stores[store] = str(self.folder / store)
        with sparklog.connect(url or self.url) as cluster:
            add_store(cluster.connection, StoreId(store), self.stores[store])

    def lose(self) -> Path:
        """The metadata is gone. Returns where somebody may find it again."""
        away = self.folder / "away"
        Path(self.url).rename(away)
        return away

    def restore(self, *stores: str, **options: Any) -> Restored:
        sources = {store: self.stores[store] for store in stores}
        return restore_cluster(self.new_url, sources, **options)

    def path(self, store: str, *parts: str) -> Path:
        return Path(self.stores[store], *parts)

    def marks(self, *stores: str) -> list[Path]:
        """The marks of restores on these stores."""
        return [mark for store in stores for mark in self.path(store, "OWNER").glob("*")]

    def copied(self, store: str, kind: str) -> list[Path]:
        """The copies of the chain's objects of one kind on a store: log/*, snapshot, chunks or commands."""
        return sorted(path for path in self.path(store, "copies").glob(f"*/{kind}/*") if path.is_file())

    @contextmanager
    def without_copies(self, *stores: str) -> Iterator[None]:
        """Inside the block, these stores take no copies of the metadata."""
        for store in stores:
            self.path(store, "copies").rename(self.folder / f"{store}-copies")
            self.path(store, "copies").write_text("not a folder")
        yield
        for store in stores:
            self.path(store, "copies").unlink()
            (self.folder / f"{store}-copies").rename(self.path(store, "copies"))

    def restored(self) -> Cluster:
        return sparklog.connect(self.new_url)


def append(cluster: Cluster, value: str, **options: Any) -> None:
    table = pa.table({"value": [value] * PARTITIONS, "partition": pa.array(range(PARTITIONS), pa.int32())})
    cluster.append("t", table, **options)


def values(cluster: Cluster, partition: int = 0) -> list[str]:
    rows = cluster.read("t", partition=partition)
    assert rows["offset"].to_pylist() == list(range(rows.num_rows))
    return [value.decode() for value in rows["value"].to_pylist()]


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def die(*args: object) -> None:
    """The process ends here."""
    raise KeyboardInterrupt


@contextmanager
def before_call(
    monkeypatch: pytest.MonkeyPatch, name: str, what: Callable[[], object], call: int = 1
) -> Iterator[list[object]]:
    """Let `what` happen once, before the `call`-th call of a function that restores call. Yields what it returned."""
    original, happened, left = getattr(restore_module, name), [], [call]

    def late(*args: Any, **kwargs: Any) -> object:
        left[0] -= 1
        if left[0] == 0:
            happened.append(what())
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(restore_module, name, late)
        yield happened
