"""A store whose calls go wrong on demand.

    store = FaultyStore(MemoryStore("memory://x"))
    store.plan(Fault.REPLY_LOST, "put_if_absent", "meta/log/")       # the next such call
    store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=3)      # three of them
    store.plan(callback, "put_if_absent", "meta/log/", skip=1)       # runs before the second one that gets here

Plans are tried in order, up to the first fault. Or use seeded dice: `store.roll = dice_of(random.Random(7), 0.1)`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from sparklog.core.errors import KeyExists, KeyNotFound, OutcomeUnknown, StoreUnavailable
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey, Upload


class Fault(Enum):
    """What may happen to one call."""

    REPLY_LOST = auto()  # it is done, but its answer is lost: a write raises OutcomeUnknown, a read StoreUnavailable
    LOST = auto()  # it is not done, but nobody can tell: a write raises OutcomeUnknown, a read StoreUnavailable
    UNAVAILABLE = auto()  # it is certainly not done
    OWN_KEY_EXISTS = auto()  # a write is done, repeated below, and the repeat is refused
    STALE_404 = auto()  # a read does not see what is there


Callback = Callable[[], object]
Roll = Callable[[str, str], "Fault | Callback | None"]  # by method and key

WRITES = ("put_if_absent",)


@dataclass
class Planned:
    """A fault, or something to run first, for the calls of `method` whose key begins with `prefix`."""

    what: Fault | Callback
    method: str
    prefix: str
    skip: int
    times: int


@dataclass
class FaultyStore:
    """Passes calls on to `inner`, except those that a plan or the dice let go wrong. `calls` records all of them."""

    inner: ObjectStore
    planned: list[Planned] = field(default_factory=list)
    roll: Roll | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    url: str = field(init=False)
    read_ahead: int = 0

    def __post_init__(self) -> None:
        self.url = self.inner.url

    def plan(
        self, what: Fault | Callback, method: str = "", prefix: str = "", *, skip: int = 0, times: int = 1
    ) -> None:
        """Let this happen to the next `times` such calls, after `skip` of them."""
        self.planned.append(Planned(what, method, prefix, skip, times))

    def count(self, method: str, prefix: str = "") -> int:
        """How many such calls there have been."""
        return sum(1 for name, key in self.calls if name == method and key.startswith(prefix))

    def put_if_absent(self, key: str, body: Bytes) -> None:
        fault = self._next("put_if_absent", key)
        if fault is Fault.LOST:
            raise OutcomeUnknown(f"{key}: planned to be lost")
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailable(f"{key}: planned to be unavailable")
        self.inner.put_if_absent(key, body)
        if fault is Fault.REPLY_LOST:
            raise OutcomeUnknown(f"{key}: the reply is planned to be lost")
        if fault is Fault.OWN_KEY_EXISTS:
            raise KeyExists(f"{key}: planned to be tried twice")

    def get(self, key: str) -> memoryview:
        self._read("get", key)
        return self.inner.get(key)

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        self._read("get", key)
        return self.inner.get_beside(key, others)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self._read("get_ranges", key)
        return self.inner.get_ranges(key, ranges)

    def size(self, key: str) -> int:
        self._read("size", key)
        return self.inner.size(key)

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        self._read("list_keys", prefix)
        return self.inner.list_keys(prefix)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        fault = self._next("first_key_after", prefix)
        if fault is Fault.STALE_404:
            return None
        if isinstance(fault, Fault):
            raise StoreUnavailable(f"{prefix}: planned to be unavailable")
        return self.inner.first_key_after(prefix, key)

    def delete(self, key: str) -> None:
        self._read("delete", key)
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def upload(self, key: str) -> Upload:
        self._read("upload", key)
        return self.inner.upload(key)

    def free_bytes(self) -> int | None:
        return self.inner.free_bytes()

    def remove_abandoned(self, before_ms: int) -> int:
        return self.inner.remove_abandoned(before_ms)

    def _read(self, method: str, key: str) -> None:
        fault = self._next(method, key)
        if fault is Fault.STALE_404:
            raise KeyNotFound(f"{key}: planned not to be seen")
        if isinstance(fault, Fault):
            raise StoreUnavailable(f"{key}: planned to be unavailable")

    def _next(self, method: str, key: str) -> Fault | None:
        self.calls.append((method, key))
        found: Fault | None = None
        for each in [each for each in self.planned if each.method in ("", method) and key.startswith(each.prefix)]:
            if each.skip:
                each.skip -= 1
                continue
            each.times -= 1
            if not each.times:
                self.planned.remove(each)
            if isinstance(each.what, Fault):
                found = each.what
                break
            each.what()
        if found is None and self.roll is not None:
            rolled = self.roll(method, key)
            if rolled is None or isinstance(rolled, Fault):
                return rolled
            rolled()
        return found


def dice_of(dice: random.Random, chance: float) -> Roll:
    """Random faults: every call fails with probability `chance`, in any way that its kind of call can fail."""
    writing = (Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS)

    def roll(method: str, key: str) -> Fault | None:
        if dice.random() >= chance:
            return None
        return dice.choice(writing) if method in WRITES else Fault.UNAVAILABLE

    return roll
