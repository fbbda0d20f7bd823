"""Stores that damage what they hold, one object at a time: for recovery, and for whoever compares stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pyarrow as pa

from sparklog.core.commands import HeldEnd, ReportLoss
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.placement.held_slices import slices_by_object
from sparklog.core.reading.plan import plan_range
from sparklog.core.state_invariants import check
from sparklog.core.types import NamedObject, ObjectNumber, Offset, OffsetRange, Slice, StoreId
from sparklog.log.index import SliceIndex, cut_to_slice
from sparklog.log.read import object_reader
from sparklog.log.read.object_reader import read_index
from sparklog.log.read.scan import scan
from sparklog.maintenance.job_report import JobReport
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.storage.keys import data_key, index_key
from sparklog.storage.object_store import ObjectStore
from tests.agent.agent_world import ReplicatedCluster, replicated_cluster
from tests.kit.silent_console import SILENT


def flip(body: bytes, at: int | None = None) -> bytes:
    """One bit, by default in the middle, inside a batch."""
    at = len(body) // 2 if at is None else at
    return body[:at] + bytes([body[at] ^ 0x10]) + body[at + 1 :]


# How a file can be damaged: its bytes before -> its bytes after, or None if it is gone.
WAYS: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "flipped": flip,
    "cut": lambda body: body[: len(body) * 2 // 3],
    "empty": lambda body: b"",
    "longer": lambda body: body + b"more",
    "lost": lambda body: None,
}


def rewrite_file(store: ObjectStore, key: str, change: Callable[[bytes], bytes | None]) -> None:
    """Change a stored file behind sparklog's back."""
    body = change(bytes(store.get(key)))
    store.delete(key)
    if body is not None:
        store.put_if_absent(key, body)
    object_reader._cache._indexes.clear()  # as in another process


def messages(report: JobReport) -> str:
    return "\n".join(message for row in report.partitions for message in row.messages)


@dataclass
class DamagedStores:
    """Topic "t" on three stores, and what a test does to its objects."""

    world: ReplicatedCluster

    @property
    def url(self) -> str:
        return self.world.cluster.connection.url

    def recover(self, **options: object) -> JobReport:
        """Run the job."""
        console = SILENT
        return run_recovery(self.url, console=console, **options)  # type: ignore[arg-type]

    def point(self, store: str) -> int:
        """The recovery point of a store."""
        return self.world.state.stores[StoreId(store)].recovery_point

    # ---- objects --------------------------------------------------------------------------------

    def named(self, number: int) -> NamedObject:
        """The object with this number."""
        object_ = self.world.state.objects.get(ObjectNumber(number))
        assert object_ is not None
        return NamedObject(ObjectNumber(number), object_)

    def key(self, number: int) -> str:
        """The key of the object with this number."""
        named = self.named(number)
        return data_key(named.object, self.world.state.topics[named.object.topic_id].name)

    def slice_of(self, number: int) -> tuple[Slice, SliceIndex]:
        """The only slice in an object, and the index of that, which store a has."""
        (slice_,) = slices_by_object(self.world.state, [ObjectNumber(number)])[ObjectNumber(number)]
        key = self.key(number)
        return slice_, cut_to_slice(read_index(self.world.store("a"), key, self.named(number)), slice_, key)

    # ---- damage ---------------------------------------------------------------------------------

    def damage(self, store: str, number: int, way: str, *, index: bool = False) -> None:
        """Damage an object, or its index, on one store."""
        key = self.key(number)
        rewrite_file(self.world.store(store), index_key(key) if index else key, WAYS[way])

    def flip_batches(self, store: str, number: int, batches: Collection[int], of: SliceIndex) -> None:
        """Flip a bit in the middle of each of these batches."""

        def flipped(body: bytes) -> bytes:
            for batch in batches:
                body = flip(body, int(of.batches.position[batch] + of.batches.length[batch] // 2))
            return body

        rewrite_file(self.world.store(store), self.key(number), flipped)

    def cut_in_batch(self, store: str, number: int, batch: int, of: SliceIndex) -> None:
        """Cut the object in the middle of this batch."""
        length = int(of.batches.position[batch] + of.batches.length[batch] // 2)
        rewrite_file(self.world.store(store), self.key(number), lambda body: body[:length])

    def report_loss(self, name: str, end: int, partition: int = 0) -> None:
        """As the agent of a store does that finds an object missing or cut: its log ends at `end`."""
        key, store = self.world.key(partition), self.world.state.stores[StoreId(name)]
        held = HeldEnd(key.topic_id, key.partition, Offset(end))
        self.world.submit(ReportLoss(store.store, store.registration, store.incarnation, (held,)))

    def lost(self) -> list[tuple[int, int]]:
        """The records that were given up in either partition."""
        return [(each.start, each.end) for partition in (0, 1) for each in self.world.value(partition).lost]

    # ---- what must hold -------------------------------------------------------------------------

    def scanned(self, partition: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What a reader gets with failOnDataLoss=false."""
        connection = self.world.cluster.connection
        state = connection.newest_state()
        topic, stores = topic_of(state, "t"), connection.stores(state)
        of = partition_of(state, topic, partition)
        plan = plan_range(state, topic, partition, OffsetRange(of.log_start, of.high_watermark))
        return scan(plan, stores, columns, connection.replan, fail_on_data_loss=False)

    def check_same(self) -> None:
        """No store differs from the others."""
        bodies = [{key: bytes(self.world.store(name).get(key)) for key in self.world.objects(name)} for name in "abc"]
        assert bodies[0] == bodies[1] == bodies[2]


@dataclass
class DamagedLog(DamagedStores):
    """`model` is what was written to each partition."""

    model: dict[int, list[str]] = field(default_factory=dict)

    def write(self, count: int, partition: int = 0, on: str = "abc", **more: object) -> None:
        """Records of some size, so that an object has several batches."""
        before = self.model.setdefault(partition, [])
        values = [f"{partition}-{len(before) + number}".ljust(4_000, ".") for number in range(count)]
        self.world.write(*values, on=on, partition=partition, **more)  # type: ignore[arg-type]
        before += values

    def write_batches(self, batches: int, partition: int) -> None:
        """One object with so many batches: records of 400 KB that don't compress, two to a batch or three."""
        before = self.model.setdefault(partition, [])
        values = [Random(number).randbytes(200_000).hex() for number in range(batches * 3)]
        self.world.cluster.alter("t", config={"compression.type": "uncompressed"})
        self.world.write(*values, partition=partition)
        before += values

    def left(self, partition: int) -> list[str]:
        """The records that a reader gets with failOnDataLoss=false."""
        found = self.scanned(partition, ["value"])
        return [value.decode() for batch in found for value in batch.column(0).to_pylist()]

    def check(self) -> None:
        """Everything that was written is readable, and no store differs from the others."""
        for partition, values in self.model.items():
            assert self.world.values(partition) == values
        self.check_same()


def damaged_log(url: str | None = None, **config: object) -> DamagedLog:
    """Objects 0 to 4: two partitions, everything in sync."""
    log = DamagedLog(replicated_cluster(url, partitions=2, **config))
    for count, partition in ((3, 0), (2, 1), (3, 0), (3, 0), (1, 1)):
        log.write(count, partition)
    return log


def logs() -> Iterator[DamagedLog]:
    """For a fixture: a log whose state is checked in the end."""
    log = damaged_log()
    yield log
    check(log.world.state)
    log.world.cluster.close()
