"""Tasks that look at objects on their stores: those of verify, which change nothing, and those of recovery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

import msgspec

from sparklog.core.lookup import registered_store
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.types import StoreId
from sparklog.log.check.sighting import Sighting, look_at
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.task_runner import packs

TASK_BYTES: Final = 64 << 20  # small objects share a task up to this many bytes, on each store …
TASK_OBJECTS: Final = 64  # … and this many objects
THREADS: Final = 4  # of a task: small objects on remote stores mostly wait. Each holds a few reads of 8 MiB
REQUESTS_PER_OBJECT: Final = 2  # beside the reads: its index, and its length
FAILURES_IN_A_ROW: Final = 3  # then a task leaves the store alone

Pack = tuple[ObjectToVerify, ...]
Sightings = tuple[Sighting, ...]


class LookOrder(msgspec.Struct, frozen=True):
    """The work of one task: objects to look at. `silent` and `incarnations` are those of `look_at`."""

    addresses: StoreAddresses
    objects: Pack
    silent: dict[StoreId, str]
    incarnations: dict[StoreId, str] | None


def look_at_objects(payload: bytes) -> bytes:
    """Task: look at the objects of a LookOrder, and return the sightings of each.

    `payload` is the LookOrder in msgpack. The result is a `list[Sightings]` in msgpack, in the order of the objects.

    Once a store was silent for FAILURES_IN_A_ROW objects in a row, the task asks that store for no more objects.
    """
    order = msgspec.msgpack.decode(payload, type=LookOrder)
    stores, silent = Stores(order.addresses), dict(order.silent)
    failed: dict[StoreId, int] = {}

    def look(object_: ObjectToVerify) -> Sightings:
        sightings = look_at(object_, stores, silent, order.incarnations)
        for sighting in sightings:
            failed[sighting.store] = failed.get(sighting.store, 0) + 1 if sighting.silent else 0
            if failed[sighting.store] == FAILURES_IN_A_ROW:
                silent[sighting.store] = sighting.error
        return sightings

    with ThreadPoolExecutor(THREADS) as pool:
        return msgspec.msgpack.encode(list(pool.map(look, order.objects)))


def rounds(frame: JobFrame, objects: Iterable[ObjectToVerify]) -> Iterator[list[Pack]]:
    """Distribute objects over tasks, in order, and yield the packs of the tasks that run at once.

    A task has at most TASK_OBJECTS and TASK_BYTES, or one larger object.
    """
    of_tasks = packs(
        objects, (lambda object_: object_.named.object.total_bytes, TASK_BYTES), (lambda _: 1, TASK_OBJECTS)
    )
    while round_ := list(islice(of_tasks, frame.tasks.tasks_at_once)):
        yield round_


def look(
    frame: JobFrame, round_: Sequence[Pack], *, repair: bool, silent: Mapping[StoreId, str] | None = None
) -> list[tuple[ObjectToVerify, Sightings]]:
    """Look at objects on their stores, with a task for each pack. Return each object with its sightings, in order.

    `repair`: look in order to repair them, as `look_at` does with `incarnations`. This also deletes damaged indexes of
    whole objects, and writes them again. Raises BrokerIdNotRegistered, and errors of running tasks.
    """
    state = frame.connection.newest_state()
    addresses = frame.connection.addresses(state)
    incarnations = None
    if repair:
        asked = {store for pack in round_ for object_ in pack for store in object_.stores}
        incarnations = {store: registered_store(state, store).incarnation for store in asked}
    orders = [LookOrder(addresses, pack, dict(silent or {}), incarnations) for pack in round_]
    bodies = frame.tasks.run(look_at_objects, [msgspec.msgpack.encode(order) for order in orders])
    seen: list[tuple[ObjectToVerify, Sightings]] = []
    for pack, body in zip(round_, bodies, strict=True):
        seen += zip(pack, msgspec.msgpack.decode(body, type=list[Sightings]), strict=True)
    return seen
