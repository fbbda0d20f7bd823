"""The stores of a simulated cluster: objects in memory, and what faults have made of them.

`SimStore` is the truth that checks look at. A process reaches a store in two ways, both of which can go wrong
(`faults.py`): by calls on their way (`network.py`), or, in code that works through a store from its first line to its
last, through a `View` that answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sparklog.core.errors import (
    Damaged,
    KeyNotFound,
    OutcomeUnknown,
    SparklogError,
    StoreFull,
    StoreUnavailable,
)
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import Holder, StoreId
from sparklog.host.recent_failures import RecentFailures
from sparklog.log.incarnation import Incarnation
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.keys import INCARNATION
from tests.kit.dict_store import DictStore
from tests.kit.store_around import StoreAround

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

META = StoreId("meta")  # the place of the chain: no home of replicas
PAPER = Holder(StoreId("paper"), 0)
PAPER_LIFE = "0" * 32
OPERATIONS = {  # by the methods of the port that are calls
    "put_if_absent": "put",
    "publish": "put",
    "get": "get",
    "get_ranges": "get",
    "size": "size",
    "list_keys": "list",
    "first_key_after": "list",
    "delete": "delete",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One operation on a store: put, get, size or delete. `body` is what a put writes."""

    store: StoreId
    operation: str
    key: str
    body: bytes = b""


class SimStore(DictStore):
    """The objects of a store. `put_hook` sees each new object, `delete_hook` each deletion, before it happens.

    `destroyed`: keys whose objects a fault took or damaged, with the newest entry of the chain at that time.
    """

    def __init__(self, name: StoreId) -> None:
        super().__init__(f"memory://{name}", {})
        self.name = name
        self.destroyed: dict[str, int] = {}
        self.is_down = self.is_full = False
        self.slowness = 1
        self.put_hook: Callable[[str, bytes], None] = lambda key, body: None
        self.delete_hook: Callable[[str], None] = lambda key: None

    def perform(self, call: Call) -> object:
        """The reply to a call that has arrived: a value, or the error that the port would raise."""
        if self.is_down:
            return StoreUnavailable(f"{self.url} is down")
        try:
            match call.operation:
                case "put":
                    self.put_if_absent(call.key, call.body)
                    return None
                case "delete":
                    self.delete(call.key)
                    return None
                case "get":
                    return self.body(call.key)
                case "size":
                    return self.size(call.key)
                case _:
                    raise TypeError(call)
        except SparklogError as error:
            return error

    def add(self, key: str, body: bytes) -> bool:
        if key in self.bodies:
            return False
        if self.is_full:
            raise StoreFull(f"{self.url} is full")
        self.bodies[key] = body
        self.destroyed.pop(key, None)
        self.put_hook(key, body)
        return True

    def drop(self, key: str) -> None:
        self.delete_hook(key)
        super().drop(key)

    def holds(self, key: str) -> bool:
        """Whether the object is there, and as it was written."""
        return key in self.bodies and key not in self.destroyed


class View(StoreAround):
    """A store as a process sees it that works through it in one go: each operation may meet a fault."""

    def __init__(self, store: SimStore, process: Process) -> None:
        super().__init__(store)
        self.store = store
        self._process = process

    def call(self, method: str, key: str, perform: Callable[[], Any]) -> Any:
        operation = OPERATIONS.get(method)
        if operation is None:
            return perform()
        lost = self._check(operation, key)
        reply = perform()
        if lost and operation != "list":
            raise OutcomeUnknown(key) if operation == "put" else StoreUnavailable(key)
        return reply

    def _check(self, operation: str, key: str) -> bool:
        """Raise the fault that the operation meets. True: it is performed, and the reply is lost."""
        self._process.world.note(self._process.name, operation, self.store.name, key)
        fault = self._process.world.faults.of_call(self._process, self.store, operation)
        if fault in ("throttled", "store-down"):
            raise StoreUnavailable(f"{self.store.url}: {fault}")
        if fault in ("partition", "late-put", "request-delayed"):
            raise OutcomeUnknown(key) if operation == "put" else StoreUnavailable(f"{self.store.url}: {fault}")
        return fault == "reply-lost"


class OpenStores:
    """The stores that a process opens, by id: what `log.stores.Stores` is to real ones."""

    def __init__(self, world: World, process: Process | None = None) -> None:
        self._world = world
        self._process = process
        self._failures = RecentFailures(lambda: world.now_ms)

    def get(self, store: StoreId) -> DictStore | View:
        found = self._world.stores[store]
        return found if self._process is None else View(found, self._process)

    def check_owner(self, store: StoreId) -> None:
        """No simulated cluster is restored, so nobody else owns its stores."""

    def named(self, store: StoreId) -> str:
        return f"store {store}"

    def holding(self, part: SliceToRead) -> list[StoreId]:
        return sorted(part.stores, key=self._failures.is_recent)

    def note_failure(self, store: StoreId, error: SparklogError) -> None:
        if not isinstance(error, KeyNotFound | Damaged):
            self._failures.note(store)


class Paper:
    """One store that takes objects at once and without faults: those of `objects` are to be put by calls then."""

    def __init__(self) -> None:
        self._store = SimStore(PAPER.store)
        self._store.bodies[INCARNATION] = msgspec.json.encode(Incarnation(PAPER_LIFE, ""))

    @property
    def objects(self) -> dict[str, bytes]:
        """What was written, by key, in that order."""
        return {key: body for key, body in self._store.bodies.items() if key != INCARNATION}

    def get(self, store: StoreId) -> DictStore:
        assert store == PAPER.store, store
        return self._store

    def lanes(self) -> StoreLanes:
        """The way of the code under test to this store: `PAPER` is the holder to name, so nothing needs a thread."""
        return StoreLanes(self, {PAPER.store: PAPER_LIFE}, lag_time_max_ms=0)
