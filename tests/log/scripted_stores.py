"""Stores of a replicated write, and a clock that moves only while it waits for one of them."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from sparklog.core.types import StoreId
from sparklog.log.incarnation import Incarnation
from sparklog.log.write.store_lanes import STALL_LOOK_MS, StoreLanes
from sparklog.storage.keys import INCARNATION
from sparklog.storage.memory import MemoryStore
from tests.kit.faulty_store import FaultyStore, Hanging
from tests.kit.hand_clock import HandClock

LAG_MS = 30_000


@dataclass
class LagClock(HandClock):
    """Time passes only while a task waits for stores that are behind, `step_ms` at a time, and only if `ready` says so.

    Without it, nothing is too slow. While no store is ahead, it passes only if `stalled` says so.
    """

    at_ms: int = 0
    step_ms: int = LAG_MS
    ready: Callable[[], bool] = lambda: False
    stalled: Callable[[], bool] = lambda: False
    waits: list[int] = field(default_factory=list)

    def wait(self, changed: threading.Condition, longest_ms: int) -> None:
        self.waits.append(longest_ms)
        assert len(self.waits) < 1_000, "it waits for ever"
        passes = self.stalled if longest_ms <= STALL_LOOK_MS else self.ready
        if not passes():
            changed.wait()
            return
        self.at_ms += min(longest_ms, self.step_ms)


@dataclass
class ScriptedStores:
    """Three stores, a, b and c, as registered."""

    stores: dict[StoreId, FaultyStore] = field(default_factory=dict)
    clock: LagClock = field(default_factory=LagClock)

    def __post_init__(self) -> None:
        for name in "abc":
            self.stores[StoreId(name)] = FaultyStore(MemoryStore(f"memory://{uuid.uuid4().hex}"))
            self.mark(name, f"life of {name}")

    def mark(self, name: str, incarnation: str) -> None:
        self[name].inner.put_if_absent(INCARNATION, msgspec.json.encode(Incarnation(incarnation, "chain")))

    def keys(self, name: str) -> list[str]:
        return [each.key for each in self[name].inner.list_keys("") if each.key != INCARNATION]

    def get(self, store: StoreId) -> FaultyStore:
        return self.stores[store]

    def __getitem__(self, name: str) -> FaultyStore:
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
