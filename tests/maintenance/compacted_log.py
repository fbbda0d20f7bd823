"""A compacted topic on three stores, whose objects a test damages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pytest

import sparklog
from sparklog.core.state_invariants import check
from sparklog.core.types import Slice
from sparklog.log.index import SliceIndex
from sparklog.log.read import object_reader
from sparklog.log.write import segments_writer
from sparklog.log.write.task_memory import LIMITS
from sparklog.storage.keys import index_key
from sparklog.storage.memory import MemoryStore
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.faults.crash_places import Objects, objects_of
from tests.maintenance.damaged_log import DamagedStores, rewrite_file
from tests.maintenance.keyed_log import KeyedLog, Row, text_of
from tests.maintenance.maintained_log import MaintainedLog

BATCH_BYTES: Final = 60  # raw bytes of the batches of segments: three records or four

# What is rolled and compacted: a segment each. x and b are replaced within, y is deleted at the end.
COMPACTED: Final = ("x1 x2 a1 b1 c1 x3 d1 x4 e1 f1", "x5 g1 x6 h1 i1 x7 b2 x8 j1 k1", "x9 l1 a2 m1 x0 n1 o1 p1 y1 y")
ROLLED: Final = "c2 t1 u1 v1 w1 z1 g2 A1 B1"
APPENDED: Final = "d2 A2 C1"


@dataclass
class CompactedLog(DamagedStores):
    """Three objects: `compacted` lacks offsets before, inside, between and behind its batches; `rolled`; `appended`.

    `whole` is what a reader found before anything was damaged.
    """

    keyed: KeyedLog
    whole: list[Row]

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of the three objects."""
        return dict(zip(("compacted", "rolled", "appended"), self.world.objects_of(0), strict=True))

    @property
    def compacted(self) -> tuple[int, Slice, SliceIndex]:
        """The number of the compacted object, its slice, and the index of that."""
        number = self.world.objects_of(0)[0]
        return (number, *self.slice_of(number))

    def spoil(self, store: str, what: str, way: str, *, index: bool = False) -> None:
        """As `damage`; `foreign` puts the bytes of another segment there, which has another format."""
        if way != "foreign":
            self.damage(store, self.numbers[what], way, index=index)
            return
        keys = [self.key(self.numbers[each]) for each in (what, "rolled" if what == "compacted" else "compacted")]
        key, other = map(index_key, keys) if index else keys
        body = bytes(self.world.store(store).get(other))
        rewrite_file(self.world.store(store), key, lambda before: body)

    def left(self) -> list[Row]:
        """The records that a reader gets with failOnDataLoss=false."""
        found = self.scanned(0, ["offset", "key", "value"])
        return [
            (offset, text_of(key), text_of(value))
            for batch in found
            for offset, key, value in zip(*batch.to_pydict().values(), strict=True)
        ]

    def check(self) -> None:
        """Everything is as it was before the damage, on all stores."""
        assert self.keyed.read() == self.whole
        self.check_same()


@dataclass(frozen=True)
class FilledLog:
    """The stores of a compacted log as they were when it was filled, by address: many tests begin there."""

    url: str
    stores: Mapping[str, Objects]
    rows: Sequence[Row]
    whole: Sequence[Row]

    def again(self) -> Iterator[CompactedLog]:
        """For a fixture: the log, connected to anew. Its state is checked in the end."""
        for url, objects in self.stores.items():
            store = MemoryStore(url)
            for stored in list(store.list_keys("")):
                store.delete(stored.key)
            for key, body in objects.items():
                store.put_if_absent(key, body)
        object_reader._cache._indexes.clear()  # as in another process
        with small_batches(), sparklog.connect(self.url) as cluster:
            log = CompactedLog(
                ReplicatedCluster(cluster), KeyedLog(MaintainedLog(cluster), list(self.rows)), list(self.whole)
            )
            yield log
            check(log.world.state)


def filled_log(compacted: Sequence[str] = COMPACTED) -> FilledLog:
    """A new log in memory."""
    log = compacted_log(compacted=compacted)
    urls = (log.url, *(log.world.store(name).url for name in "abc"))
    log.world.cluster.close()
    return FilledLog(log.url, {url: objects_of(url) for url in urls}, log.keyed.rows, log.whole)


def compacted_log(url: str | None = None, compacted: Sequence[str] = COMPACTED) -> CompactedLog:
    """A new log: `compacted` are the segments that become the compacted object."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "delete.retention.ms": 0}
    world = replicated_cluster(url, **settings)  # type: ignore[arg-type]
    keyed = KeyedLog(MaintainedLog(world.cluster))
    with small_batches():
        for text in compacted:
            keyed.segment(text)
        for _ in range(2):  # the second one drops the tombstone that the first one passed
            assert keyed.compact().exit_code == 0
        keyed.segment(ROLLED)
    keyed.put(APPENDED)
    return CompactedLog(world, keyed, keyed.read())


@contextmanager
def small_batches() -> Iterator[None]:
    """Let segments have batches of BATCH_BYTES."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments_writer, "LIMITS", replace(LIMITS, full_batch_bytes=BATCH_BYTES))
        yield
