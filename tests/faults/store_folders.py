"""A cluster whose chain and stores are folders, which a test takes away and brings back, and what must be true of it.

Does not import pytest, because it is also loaded in processes of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.core.errors import KeyNotFound, SparklogError
from sparklog.core.placement.held_objects import all_held
from sparklog.core.replication.partition import Replication
from sparklog.core.state import ClusterState
from sparklog.core.types import PartitionIndex, StoreId, TopicPartition
from sparklog.storage.keys import data_key, index_key


@dataclass
class StoreFolders:
    """Stores are folders named by their ids. `acknowledged`: topic and partition -> offset -> the value that is there
    for ever; a test notes in it what its writers heard.
    """

    folder: Path
    acknowledged: dict[tuple[str, int], dict[int, str]] = field(default_factory=dict)

    @classmethod
    def create(
        cls, folder: Path, config: Mapping[str, object] | None = None, elsewhere: Mapping[str, str] | None = None
    ) -> StoreFolders:
        """A cluster with the stores a, b and c; those `elsewhere` have these addresses and are no folders."""
        made = cls(folder)
        init_cluster(made.url, stores={each: f"../{each}" for each in "abc"} | dict(elsewhere or {}), config=config)
        return made

    @property
    def url(self) -> str:
        return str(self.folder / "chain")

    def at(self, store: str) -> Path:
        return self.folder / store

    def state(self) -> ClusterState:
        """What the chain says, read anew."""
        with sparklog.connect(self.url) as cluster:
            return cluster.connection.follower.state

    def replication(self, topic: str, partition: int = 0) -> Replication:
        state = self.state()
        return state.partitions[TopicPartition(state.topic_ids[topic], PartitionIndex(partition))].replication

    # ---- stores come and go ---------------------------------------------------------------------

    def take_away(self, store: str) -> None:
        """The folder is gone, as a disk that is not mounted: a writer may begin another one in its place."""
        self.at(store).rename(self._away(store))

    def bring_back(self, store: str) -> None:
        """The folder is back as it was; what was written in its place is gone."""
        shutil.rmtree(self.at(store), ignore_errors=True)
        self._away(store).rename(self.at(store))

    def lose(self, store: str) -> None:
        """The folder is gone for good, with everything in it."""
        self.take_away(store)
        shutil.rmtree(self._away(store), ignore_errors=True)  # a writer may be in it still

    @contextmanager
    def only(self, store: str) -> Iterator[None]:
        """All other stores are away."""
        others = [each for each in self.state().stores if each != store and self.at(each).exists()]
        for other in others:
            self.take_away(other)
        try:
            yield
        finally:
            for other in others:
                self.bring_back(other)

    def _away(self, store: str) -> Path:
        return self.folder / f"{store}-away"

    # ---- what must be true ----------------------------------------------------------------------

    def note(self, topic: str, partition: int, start: int, values: list[str]) -> None:
        """These records were acknowledged, at the offsets from `start` on."""
        offsets = self.acknowledged.setdefault((topic, partition), {})
        offsets.update(zip(range(start, start + len(values)), values, strict=True))

    def complaints(self) -> list[str]:
        """What is wrong: acknowledged records that are not there, objects that a store lacks or has otherwise."""
        return [*self.lost(), *self.differences()]

    def lost(self) -> list[str]:
        """The acknowledged records that can't be read, or are others."""
        wrong = []
        with sparklog.connect(self.url) as cluster:
            for (topic, partition), values in self.acknowledged.items():
                where = f"{topic}-{partition}"
                try:
                    rows = cluster.read(topic, partition=partition)
                except SparklogError as error:
                    wrong.append(f"{where}: {error}")
                    continue
                there = dict(zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True))
                wrong += [
                    f"{where}: offset {offset} was acknowledged as {value!r}, found {there.get(offset)}"
                    for offset, value in values.items()
                    if there.get(offset) != value.encode()
                ]
        return wrong

    def differences(self) -> list[str]:
        """The objects that a store lacks though the chain says it holds them, and those that differ between stores."""
        wrong = []
        first: dict[str, tuple[str, bytes]] = {}
        with sparklog.connect(self.url) as cluster:
            state = cluster.connection.follower.state
            stores = cluster.connection.stores(state)
            for key, store in _said_to_be_held(state):
                try:
                    body = bytes(stores.get(store).get(key))
                except KeyNotFound:
                    wrong.append(f"store {store} lacks {key}, the chain says that it holds it")
                    continue
                other, expected = first.setdefault(key, (store, body))
                if body != expected:
                    wrong.append(f"{key} is another on {store} than on {other}")
        return wrong


def _said_to_be_held(state: ClusterState) -> Iterator[tuple[str, StoreId]]:
    """The names of objects and indexes, with each store that should have them."""
    for partition in state.partitions.values():
        where = TopicPartition(partition.topic_id, partition.partition)
        for store in partition.replication.replicas:
            for held in all_held(state, store, where):
                data = data_key(held.object, held.topic)
                yield data, store
                yield index_key(data), store
