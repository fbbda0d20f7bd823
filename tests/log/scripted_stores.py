"""Stores of a replicated write that are slow, hang or fail as a test says, and the clock of such a write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from sparklog.core.errors import SparklogError
from sparklog.core.types import StoreId
from sparklog.log.incarnation import Incarnation
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.keys import INCARNATION
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import Bytes, Upload
from tests.kit.hand_clock import HandClock

LAG_MS = 30_000


@dataclass
class ScriptedStore(MemoryStore):
    """A store in memory. `before`: called with "write", "publish", "put" or "get" and the key; may wait or raise."""

    before: Callable[[str, str], None] = lambda call, key: None
    calls: list[tuple[str, str]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(f"memory://{uuid.uuid4().hex}")

    def mark(self, incarnation: str) -> None:
        super().put_if_absent(INCARNATION, msgspec.json.encode(Incarnation(incarnation, "chain")))

    def keys(self) -> list[str]:
        return [each.key for each in self.list_keys("") if each.key != INCARNATION]

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self._call("put", key)
        super().put_if_absent(key, body)

    def get(self, key: str) -> memoryview:
        self._call("get", key)
        return super().get(key)

    def upload(self, key: str) -> ScriptedUpload:  # type: ignore[override]
        return ScriptedUpload(self, key, super().upload(key))

    def _call(self, call: str, key: str) -> None:
        self.calls.append((call, key))
        self.before(call, key)


@dataclass(eq=False)
class ScriptedUpload:
    store: ScriptedStore
    key: str
    inner: Upload
    done: bool = False

    def write(self, body: Bytes) -> None:
        self.store._call("write", self.key)
        self.inner.write(body)

    def publish(self) -> None:
        self.store._call("publish", self.key)
        self.inner.publish()
        self.done = True

    def abort(self) -> None:
        if not self.done:
            self.store.aborted.append(self.key)
        self.inner.abort()

    def __enter__(self) -> ScriptedUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()


@dataclass
class Hanging:
    """A call that hangs until the test lets it go on. `reached` is set once it hangs."""

    call: str
    suffix: str = ""
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, call: str, key: str) -> None:
        if call == self.call and key.endswith(self.suffix):
            self.reached.set()
            assert self.go_on.wait(60)


def raising(error: SparklogError, call: str, suffix: str = "") -> Callable[[str, str], None]:
    """Each such call raises the error."""

    def raise_it(called: str, key: str) -> None:
        if called == call and key.endswith(suffix):
            raise error

    return raise_it


@dataclass
class LagClock(HandClock):
    """Time passes only while a task waits for stores that are behind, `step_ms` at a time, and only if `ready` says so.

    Without it, nothing is too slow.
    """

    at_ms: int = 0
    step_ms: int = LAG_MS
    ready: Callable[[], bool] = lambda: False
    waits: list[int] = field(default_factory=list)

    def wait(self, changed: threading.Condition, longest_ms: int) -> None:
        self.waits.append(longest_ms)
        assert len(self.waits) < 1_000, "it waits for ever"
        if not self.ready():
            changed.wait()
            return
        self.at_ms += min(longest_ms, self.step_ms)


@dataclass
class ScriptedStores:
    """Three stores, a, b and c, as registered."""

    stores: dict[StoreId, ScriptedStore] = field(default_factory=dict)
    clock: LagClock = field(default_factory=LagClock)

    def __post_init__(self) -> None:
        for name in "abc":
            store = self.stores[StoreId(name)] = ScriptedStore()
            store.mark(f"life of {name}")

    def get(self, store: StoreId) -> ScriptedStore:
        return self.stores[store]

    def __getitem__(self, name: str) -> ScriptedStore:
        return self.stores[StoreId(name)]

    def lanes(self) -> StoreLanes:
        return StoreLanes(self, {store: f"life of {store}" for store in self.stores}, LAG_MS, self.clock)


def let_end(*hanging: Hanging) -> None:
    """Let the calls go on, and wait until every lane has ended."""
    for each in hanging:
        each.go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("sparklog-store-"):
            thread.join(60)
            assert not thread.is_alive()
