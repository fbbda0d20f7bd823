"""The heavy part of the verify job: tasks that read objects on all their stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.types import NewObject, StoreId
from sparklog.log.check.replica_check import ReplicaCheck, check_replicas
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.maintenance.job_report import Work
from sparklog.maintenance.task_runner import packs

TASK_BYTES: Final = 256 << 20  # small objects share a task up to this many bytes on all stores together …
TASK_OBJECTS: Final = 256  # … and this many objects
THREADS: Final = 4  # of a task: small objects on remote stores mostly wait. Each holds a few reads of 8 MiB
REQUESTS_PER_OBJECT: Final = 2  # beside the reads: its index, and its length
FAILURES_IN_A_ROW: Final = 3  # then a task leaves the store alone

Done = dict[StoreId, dict[str, Work]]  # by store and topic


class VerifyOrder(msgspec.Struct, frozen=True):
    """The work of one task. The `silent` stores are not asked, because they did not answer earlier tasks."""

    addresses: StoreAddresses
    objects: tuple[ObjectToVerify, ...]
    silent: tuple[StoreId, ...] = ()


class VerifyOutcome(msgspec.Struct, frozen=True):
    """The outcome of one task. `done` is the finished work, by store and topic.

    `differing` has a pair for each object that is damaged or could not be read on some store: its index in
    `VerifyOrder.objects`, and the checks on all its stores.
    """

    done: Done
    differing: tuple[tuple[int, tuple[ReplicaCheck, ...]], ...]


def verify_objects(payload: bytes) -> bytes:
    """Task: verify the objects of a VerifyOrder, and return a VerifyOutcome."""
    order = msgspec.msgpack.decode(payload, type=VerifyOrder)
    return msgspec.msgpack.encode(verified(order, Stores(order.addresses)))


def verified(order: VerifyOrder, stores: Stores) -> VerifyOutcome:
    """Verify the objects of the order on all their stores.

    If an object can't be read on a store, its `ReplicaCheck` for that store has the error. Once FAILURES_IN_A_ROW
    objects in a row could not be read on a store, the task asks that store for no more objects.
    """
    failed: dict[StoreId, int] = {}
    silent = set(order.silent)

    def check(object_: ObjectToVerify) -> tuple[ReplicaCheck, ...]:
        checks = check_replicas(object_, stores, silent)
        for replica in checks:
            failed[replica.store] = 0 if replica.check is not None else failed.get(replica.store, 0) + 1
            if failed[replica.store] == FAILURES_IN_A_ROW:
                silent.add(replica.store)
        return tuple(checks)

    done: Done = {}
    differing = []
    with ThreadPoolExecutor(THREADS) as pool:
        for at, (object_, checks) in enumerate(zip(order.objects, pool.map(check, order.objects), strict=True)):
            for replica in checks:
                if replica.check is not None:
                    records = sum(slice_.records for slice_ in object_.slices)
                    of = done.setdefault(replica.store, {})
                    work = Work(1, records, replica.check.read_bytes, replica.check.requests)
                    of[object_.topic] = of.get(object_.topic, Work()) + work
            if not all(replica.check is not None and replica.check.is_whole for replica in checks):
                differing.append((at, checks))
    return VerifyOutcome(done, tuple(differing))


def packed(objects: Iterable[ObjectToVerify]) -> Iterator[tuple[ObjectToVerify, ...]]:
    """Distribute objects over tasks, in order. A task has at most TASK_OBJECTS and TASK_BYTES, or one larger object.

    An object counts with its bytes on all stores together.
    """
    return packs(objects, (_bytes_on_all_stores, TASK_BYTES), (lambda _: 1, TASK_OBJECTS))


def _bytes_on_all_stores(object_: ObjectToVerify) -> int:
    return stored_bytes(object_.named.object) * len(object_.stores)


def stored_bytes(object_: NewObject) -> int:
    """The size in bytes of the object and its index together, on one store."""
    return object_.size_bytes + object_.index_size_bytes
