"""Tasks that read and check objects of a store, and restore missing or damaged indexes of whole objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.lookup import registered_store
from sparklog.core.types import NamedObject, Slice, StoreId
from sparklog.log.check.index_repair import mend_index
from sparklog.log.check.object_check import ObjectCheck, check_object
from sparklog.log.cluster_stores import StoreAddresses, Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.log.read.object_reader import read_index
from sparklog.log.read.ranged_reads import RANGED_READ_BYTES
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.task_runner import packs
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore

TASK_BYTES: Final = 64 << 20  # small objects share a task up to this many bytes …
TASK_OBJECTS: Final = 64  # … and this many objects
_FIXED_REQUESTS: Final = 2  # the index, and the length of the object


class ObjectToCheck(msgspec.Struct, frozen=True, array_like=True):
    """An object to check. `topic` is the topic name in its key. `slices`, if given, are compared with its index."""

    named: NamedObject
    topic: str
    slices: tuple[Slice, ...] = ()

    @property
    def key(self) -> str:
        """The key of the object."""
        return data_key(self.named.object, self.topic)

    @property
    def size_bytes(self) -> int:
        """The size of the object and its index."""
        return self.named.object.total_bytes

    @property
    def requests(self) -> int:
        """The number of requests to read the object and its index."""
        return _FIXED_REQUESTS + -(-self.named.object.size_bytes // RANGED_READ_BYTES)


class CheckOrder(msgspec.Struct, frozen=True):
    """The work of one task: objects of a store to check.

    With `mend`, the index of a whole object is restored if it is missing or damaged. The store's INCARNATION is
    compared with `incarnation` before and after an index is restored, and if there is damage. If an object with
    `slices` is damaged and its index too, the index on another store shows which batches are damaged.
    """

    addresses: StoreAddresses
    store: StoreId
    incarnation: str
    objects: tuple[ObjectToCheck, ...]
    mend: bool = False


class CheckOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The result of checking one object. If it could not be checked, `check` is None and `error` is the reason.

    `mended`: the object's index was missing or damaged, and has been restored. `check` is from before that.
    """

    check: ObjectCheck | None
    error: str = ""
    mended: bool = False

    @property
    def is_whole(self) -> bool:
        """True if the object and its index are whole, or the object was whole and its index has been restored."""
        return self.check is not None and (self.check.is_whole or self.mended)


def check_objects(payload: bytes) -> bytes:
    """Task: check the objects of a CheckOrder, and return a list of CheckOutcome.

    After the store has failed to answer once, it is not asked for the remaining objects.
    """
    order = msgspec.msgpack.decode(payload, type=CheckOrder)
    stores = Stores(order.addresses)
    outcomes: list[CheckOutcome] = []
    silent = ""
    for object_ in order.objects:
        if silent:
            outcomes.append(CheckOutcome(None, silent))
            continue
        try:
            outcomes.append(_checked(order, object_, stores))
        except StoreUnavailable as error:
            silent = str(error)
            outcomes.append(CheckOutcome(None, silent))
        except Exception as error:  # of any kind: check the other objects of the task
            outcomes.append(CheckOutcome(None, str(error) or repr(error)))
    return msgspec.msgpack.encode(_of_this_life(order, outcomes, stores))


def checked(
    frame: JobFrame, store: StoreId, packs: Sequence[Sequence[ObjectToCheck]], *, mend: bool
) -> list[tuple[ObjectToCheck, CheckOutcome]]:
    """Check objects of a store, with a task for each pack. Return each object with its outcome, in order.

    Raises BrokerIdNotRegistered, and errors of running tasks.
    """
    state = frame.connection.newest_state()
    addresses, incarnation = frame.connection.addresses(state), registered_store(state, store).incarnation
    orders = [CheckOrder(addresses, store, incarnation, tuple(pack), mend) for pack in packs]
    bodies = frame.tasks.run(check_objects, [msgspec.msgpack.encode(order) for order in orders])
    outcomes: list[tuple[ObjectToCheck, CheckOutcome]] = []
    for order, body in zip(orders, bodies, strict=True):
        outcomes += zip(order.objects, msgspec.msgpack.decode(body, type=list[CheckOutcome]), strict=True)
    return outcomes


def packed(objects: Iterable[ObjectToCheck]) -> Iterator[tuple[ObjectToCheck, ...]]:
    """Distribute objects over tasks, in order. A task has at most TASK_OBJECTS and TASK_BYTES, or one larger object."""
    return packs(objects, (lambda object_: object_.size_bytes, TASK_BYTES), (lambda _: 1, TASK_OBJECTS))


def _checked(order: CheckOrder, object_: ObjectToCheck, stores: Stores) -> CheckOutcome:
    store, key = stores.get(order.store), object_.key
    check = check_object(store, key, object_.named, object_.slices)
    if check.is_whole:
        return CheckOutcome(check)
    others = _others(order.store, stores)
    if check.object_is_whole:
        if not order.mend:
            return CheckOutcome(check)
        stores.check_owner(order.store)
        check_incarnation(store, order.incarnation)
        mended = mend_index(store, key, object_.named.object, others)
        if mended:
            check_incarnation(store, order.incarnation, (key,))
        return CheckOutcome(check, mended=mended)
    if not object_.slices:
        return CheckOutcome(check)
    for other in others:
        try:
            index = read_index(other, key, object_.named)
        except SparklogError:
            continue
        return CheckOutcome(check_object(store, key, object_.named, object_.slices, index))
    return CheckOutcome(check)


def _of_this_life(order: CheckOrder, outcomes: list[CheckOutcome], stores: Stores) -> list[CheckOutcome]:
    """Replace the outcomes of damaged objects by an error if the store was unmounted, wiped or swapped.

    Then another store was read than the one that is registered, so the damage says nothing about the registered one.
    """
    if all(outcome.check is None or outcome.is_whole for outcome in outcomes):
        return outcomes
    try:
        check_incarnation(stores.get(order.store), order.incarnation)
    except SparklogError as error:
        unknown = CheckOutcome(None, str(error))
        return [outcome if outcome.is_whole else unknown for outcome in outcomes]
    return outcomes


def _others(store: StoreId, stores: Stores) -> list[ObjectStore]:
    opened = []
    for other in stores.addresses.urls:
        if other != store:
            try:
                opened.append(stores.get(other))
            except SparklogError:
                continue
    return opened
