"""A store whose calls go wrong, hang or are counted, on their way to another one.

    store = FaultyStore(MemoryStore("memory://x"))
    store.plan(Fault.REPLY_LOST, "put_if_absent", "meta/log/")       # the next such call
    store.plan(Fault.UNAVAILABLE, "get", "meta/void/", times=3)      # three of them
    store.plan(StoreFull("no space"), "write", times=ALWAYS)         # an error as it is
    store.plan(hanging := Hanging(), "publish", suffix=".arrow")     # hangs until hanging.go_on is set
    store.plan(callback, "put_if_absent", "meta/log/", skip=1)       # runs before the second one that gets here

Plans are tried in order, up to the first fault. Or decide by each call: `store.before = dice_of(Random(7), 0.1)`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from sparklog.core.errors import KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.storage.object_store import ObjectStore
from tests.kit.store_around import StoreAround

ALWAYS = 1 << 60
WRITES = ("put_if_absent", "publish")


class Fault(Enum):
    """What may happen to one call."""

    REPLY_LOST = auto()  # it is done, but its answer is lost: a write raises OutcomeUnknown, a read StoreUnavailable
    LOST = auto()  # it is not done, but nobody can tell: a write raises OutcomeUnknown, a read StoreUnavailable
    UNAVAILABLE = auto()  # it is certainly not done
    OWN_KEY_EXISTS = auto()  # a write is done, repeated below, and the repeat is refused
    STALE_404 = auto()  # a read does not see what is there


Callback = Callable[[], object]
Before = Callable[[str, str], object]  # by method and key: may wait or raise, or return a Fault


@dataclass
class Planned:
    """A fault, an error, or something to run first, for the calls of `method` to such keys."""

    what: Fault | SparklogError | Callback
    method: str
    prefix: str
    suffix: str
    skip: int
    times: int

    def is_for(self, method: str, key: str) -> bool:
        return self.method in ("", method) and key.startswith(self.prefix) and key.endswith(self.suffix)


class FaultyStore(StoreAround):
    """Hands calls on to `inner`, except those that a plan or `before` lets go wrong.

    `calls` are the methods and keys of all calls but aborts, and `ranges` those of `get_ranges`. `published` are the
    keys that were written, and `aborted` those of broken uploads.
    """

    def __init__(self, inner: ObjectStore, before: Before | None = None, *, read_ahead: int = 0) -> None:
        super().__init__(inner)
        self.before = before
        self.read_ahead = read_ahead
        self.planned: list[Planned] = []
        self.calls: list[tuple[str, str]] = []
        self.ranges: list[tuple[str, int, int]] = []
        self.published: list[str] = []
        self.aborted: list[str] = []

    def plan(
        self,
        what: Fault | SparklogError | Callback,
        method: str = "",
        prefix: str = "",
        *,
        suffix: str = "",
        skip: int = 0,
        times: int = 1,
    ) -> None:
        """Let this happen to the next `times` such calls, after `skip` of them."""
        self.planned.append(Planned(what, method, prefix, suffix, skip, times))

    def count(self, method: str, prefix: str = "") -> int:
        """How many such calls there have been."""
        return sum(1 for name, key in self.calls if name == method and key.startswith(prefix))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        self.ranges += [(key, start, end) for start, end in ranges]
        return super().get_ranges(key, ranges)

    def call(self, method: str, key: str, perform: Callable[[], Any]) -> Any:
        if method == "abort":
            if key not in self.published:
                self.aborted.append(key)
            return perform()
        fault = self._next(method, key)
        if method in WRITES:
            self._land(fault, key, perform)
            return None
        if fault is None:
            return perform()
        if fault is Fault.STALE_404 and method == "first_key_after":
            return None
        if fault is Fault.STALE_404:
            raise KeyNotFound(f"{key}: planned not to be seen")
        raise StoreUnavailable(f"{key}: planned to be unavailable")

    def _land(self, fault: Fault | None, key: str, write: Callable[[], Any]) -> None:
        if fault is Fault.LOST:
            raise OutcomeUnknown(f"{key}: planned to be lost")
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailable(f"{key}: planned to be unavailable")
        write()
        self.published.append(key)
        if fault is Fault.REPLY_LOST:
            raise OutcomeUnknown(f"{key}: the reply is planned to be lost")
        if fault is Fault.OWN_KEY_EXISTS:
            raise KeyExists(f"{key}: planned to be tried twice")

    def _next(self, method: str, key: str) -> Fault | None:
        self.calls.append((method, key))
        for each in [each for each in self.planned if each.is_for(method, key)]:
            if each.skip:
                each.skip -= 1
                continue
            each.times -= 1
            if not each.times:
                self.planned.remove(each)
            if isinstance(each.what, Fault):
                return each.what
            if isinstance(each.what, SparklogError):
                raise each.what
            each.what()
        found = self.before(method, key) if self.before is not None else None
        return found if isinstance(found, Fault) else None


@dataclass
class Hanging:
    """A call that hangs until the test lets it go on. `reached` is set once it hangs."""

    longest_s: float = 60
    reached: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.reached.set()
        assert self.go_on.wait(self.longest_s)


def dice_of(dice: random.Random, chance: float) -> Before:
    """Random faults: every call fails with probability `chance`, in any way that its kind of call can fail."""
    writing = (Fault.REPLY_LOST, Fault.LOST, Fault.UNAVAILABLE, Fault.OWN_KEY_EXISTS)

    def roll(method: str, key: str) -> Fault | None:
        if dice.random() >= chance:
            return None
        return dice.choice(writing) if method in WRITES else Fault.UNAVAILABLE

    return roll
