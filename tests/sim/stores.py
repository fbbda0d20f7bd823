"""The stores of a simulated cluster: objects in memory, and what faults have made of them.

`SimStore` is the truth that checks look at. A process reaches a store in two ways, both of which can go wrong
(`faults.py`): by calls on their way (`network.py`), or, in code that works through a store from its first line to its
last, through a `View` that answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from sparklog.core.errors import (
    Damaged,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    SparklogError,
    StoreFull,
    StoreUnavailable,
)
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import Holder, StoreId
from sparklog.log.incarnation import Incarnation
from sparklog.log.store_failures import StoreFailures
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

META = StoreId("meta")  # the place of the chain: no home of replicas
PAPER = Holder(StoreId("paper"), 0)
PAPER_LIFE = "0" * 32


@dataclass(frozen=True, slots=True)
class Call:
    """One operation on a store: put, get, size or delete. `body` is what a put writes."""

    store: StoreId
    operation: str
    key: str
    body: bytes = b""


class SimStore:
    """Objects by key. `put_hook` sees each new object, `delete_hook` each deletion, before it happens.

    `destroyed`: keys whose objects a fault took or damaged, with the newest entry of the chain at that time.
    """

    def __init__(self, name: StoreId) -> None:
        self.name = name
        self.url = f"memory://{name}"
        self.bodies: dict[str, bytes] = {}
        self.destroyed: dict[str, int] = {}
        self.is_down = self.is_full = False
        self.slowness = 1
        self.put_hook: Callable[[str, bytes], None] = lambda key, body: None
        self.delete_hook: Callable[[str], None] = lambda key: None

    def perform(self, call: Call) -> object:
        """The reply to a call that has arrived: a value, or the error that the port would raise."""
        return StoreUnavailable(f"{self.url} is down") if self.is_down else self.do(call)

    def do(self, call: Call) -> object:
        """The reply to a call, whether the store answers anybody else or not."""
        key = call.key
        match call.operation:
            case "put":
                if key in self.bodies:
                    return KeyExists(f"{key} in {self.url}")
                if self.is_full:
                    return StoreFull(f"{self.url} is full")
                self.put(key, call.body)
                return None
            case "delete":
                self.delete_hook(key)
                self.bodies.pop(key, None)
                return None
            case "get" | "size":
                body = self.bodies.get(key)
                if body is None:
                    return KeyNotFound(f"{key} in {self.url}")
                return len(body) if call.operation == "size" else body
            case _:
                raise TypeError(call)

    def put(self, key: str, body: bytes) -> None:
        """Write an object whose key is free."""
        self.bodies[key] = body
        self.destroyed.pop(key, None)
        self.put_hook(key, body)

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, ascending."""
        return sorted(key for key in self.bodies if key.startswith(prefix))

    def holds(self, key: str) -> bool:
        """Whether the object is there, and as it was written."""
        return key in self.bodies and key not in self.destroyed


class RawView:
    """A store without faults, as `sparklog.storage.object_store.ObjectStore`: for checks, and for uploads on paper."""

    read_ahead = 0

    def __init__(self, store: SimStore) -> None:
        self.store = store
        self.url = store.url

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self._do("put", key, bytes(body))

    def upload(self, key: str) -> SimUpload:
        return SimUpload(self, key)

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False

    def get(self, key: str) -> memoryview:
        return memoryview(self._do("get", key))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        body = self.get(key)
        if any(end > len(body) for _, end in ranges):
            raise Damaged(f"{key} in {self.url} ends at byte {len(body)}, wanted {ranges}")
        return [body[start:end] for start, end in ranges]

    def size(self, key: str) -> int:
        return int(self._do("size", key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        return iter([StoredKey(key, len(self.store.bodies[key]), 0) for key in self.store.keys(prefix)])

    def first_key_after(self, prefix: str, key: str) -> str | None:
        return next((each for each in self.store.keys(prefix) if each > key), None)

    def delete(self, key: str) -> None:
        self._do("delete", key)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def free_bytes(self) -> int | None:
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        return 0

    def _do(self, operation: str, key: str, body: bytes = b"") -> Any:
        reply = self.store.do(Call(self.store.name, operation, key, body))
        if isinstance(reply, SparklogError):
            raise reply
        return reply


class View(RawView):
    """A store as a process sees it that works through it in one go: each operation may meet a fault."""

    def __init__(self, store: SimStore, process: Process) -> None:
        super().__init__(store)
        self._process = process

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        self._check("list", prefix)
        return super().list_keys(prefix)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        self._check("list", prefix)
        return super().first_key_after(prefix, key)

    def _do(self, operation: str, key: str, body: bytes = b"") -> Any:
        lost = self._check(operation, key)
        reply = super()._do(operation, key, body)
        if lost:
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


class SimUpload:
    """See `storage.object_store.Upload`."""

    def __init__(self, view: RawView, key: str) -> None:
        self._view = view
        self._key = key
        self._parts: list[bytes] = []

    def write(self, body: Bytes) -> None:
        self._parts.append(bytes(body))

    def publish(self) -> None:
        self._view.put_if_absent(self._key, b"".join(self._parts))

    def abort(self) -> None:
        self._parts.clear()

    def __enter__(self) -> SimUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


class OpenStores:
    """The stores that a process opens, by id: what `log.stores.Stores` is to real ones."""

    def __init__(self, world: World, process: Process | None = None) -> None:
        self._world = world
        self._process = process
        self._failures = StoreFailures(lambda: world.now_ms)

    def get(self, store: StoreId) -> RawView:
        found = self._world.stores[store]
        return RawView(found) if self._process is None else View(found, self._process)

    def check_owner(self, store: StoreId) -> None:
        """No simulated cluster is restored, so nobody else owns its stores."""

    def named(self, store: StoreId) -> str:
        return f"store {store}"

    def holding(self, part: SliceToRead) -> list[StoreId]:
        return sorted(part.stores, key=self._failures.is_recent)

    def note_failure(self, store: StoreId, error: SparklogError) -> None:
        self._failures.note(store, error)


class Paper:
    """One store that takes objects at once and without faults: those of `objects` are to be put by calls then."""

    def __init__(self) -> None:
        self._store = SimStore(PAPER.store)
        self._store.bodies[INCARNATION] = msgspec.json.encode(Incarnation(PAPER_LIFE, ""))

    @property
    def objects(self) -> dict[str, bytes]:
        """What was written, by key, in that order."""
        return {key: body for key, body in self._store.bodies.items() if key != INCARNATION}

    def get(self, store: StoreId) -> RawView:
        assert store == PAPER.store, store
        return RawView(self._store)

    def lanes(self) -> StoreLanes:
        """The way of the code under test to this store: `PAPER` is the holder to name, so nothing needs a thread."""
        return StoreLanes(self, {PAPER.store: PAPER_LIFE}, lag_time_max_ms=0)
