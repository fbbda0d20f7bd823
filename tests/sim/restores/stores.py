"""The simulated places: of the metadata, and of the stores. `Place` is what is there; `View` is how code reaches it."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from sparklog.chain.owner import is_owner_mark
from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.storage.keys import COPIES, INCARNATION, OWNERS, PROBES, RESTORES
from tests.kit.dict_store import DictStore
from tests.kit.faulty_store import WRITES
from tests.kit.store_around import StoreAround
from tests.sim.restores.scheduler import Killed, Process

if TYPE_CHECKING:
    from tests.sim.restores.world import World

NO_CALLS = ("upload", "write", "abort", "copy_from", "remove_abandoned")
CALL_FAULTS = ("unavailable", "reply-lost", "lost", "late-put")


class Place(DictStore):
    """Objects by key, and their past. As a store it meets no faults.

    `hurt_at`: the step at which a fault last took something away.
    """

    def __init__(self, url: str, step: Callable[[], int]) -> None:
        super().__init__(url, {})
        self._sorted: list[str] = []
        self.put_at: dict[str, int] = {}
        self.hurt_at = -1
        self.flipped_at = -1
        self.reported_at = -1
        self.silent_to_ms = 0
        self.silent_for: frozenset[str] | None = None  # names of processes; None: for all
        self.is_gone = False  # for good: no call is answered
        self.hidden_from: set[str] = set()  # names of processes, or the beginnings of names
        self._step = step
        self._log: list[tuple[int, str, bytes | None]] = []  # all changes, to set it back

    def add(self, key: str, body: bytes) -> bool:
        if key in self.bodies:
            return False
        self._set(key, body, self._step())
        return True

    def drop(self, key: str) -> None:
        if key in self.bodies:
            self._drop(key)

    def keys(self, prefix: str) -> list[str]:
        begin = bisect_left(self._sorted, prefix)
        return list(takewhile(lambda key: key.startswith(prefix), islice(self._sorted, begin, None)))

    def has_had(self, key: str, before: int | None) -> bool:
        """Whether an object is there, and was put before that step, if there is one."""
        return key in self.bodies and (before is None or self.put_at[key] < before)

    # ---- faults ---------------------------------------------------------------------------------

    def wipe(self) -> None:
        """Nothing is left."""
        for key in list(self._sorted):
            self._drop(key)
        self.hurt_at = self._step()

    def set_back(self, dice: random.Random) -> bool:
        """All keys are as of an earlier moment, but after the newest mark there. Whether that took a copy away."""
        marks = [number for number, (_, key, _) in enumerate(self._log) if key.startswith((OWNERS, INCARNATION))]
        changes = [
            number
            for number, (_, key, body) in enumerate(self._log)
            if key.startswith(COPIES) and number > max(marks, default=-1) and not (body and is_owner_mark(body))
        ]
        if len(changes) < 4:
            return False
        keep = dice.choice(changes[len(changes) // 3 :])
        if any(body and is_owner_mark(body) for _, _, body in self._log[keep:]):
            return False
        before = dict(self.bodies)
        kept, self._log = self._log[:keep], []
        self.bodies.clear()
        self._sorted.clear()
        for step, key, body in kept:
            if body is not None:
                self._set(key, body, step if before.get(key) == body else self._step())  # or it was flipped
            elif key in self.bodies:
                self._drop(key)
        self.hurt_at = self._step()
        return any(key not in self.bodies for key in before if key.startswith(COPIES))

    def flip(self, dice: random.Random) -> str | None:
        """One byte of one copy is another one. Returns its key."""
        copies = [key for key in self.keys(COPIES) if self.bodies[key] and not is_owner_mark(self.bodies[key])]
        if not copies:
            return None
        kinds = sorted({key.split("/")[2] for key in copies if key.count("/") > 2})
        kind = dice.choice(kinds)
        key = dice.choice([key for key in copies if key.split("/")[2] == kind])
        body = bytearray(self.bodies[key])
        body[dice.randrange(len(body))] ^= 1 << dice.randrange(8)
        self.bodies[key] = bytes(body)
        self.flipped_at = self._step()
        return key

    def _set(self, key: str, body: bytes, step: int) -> None:
        self.bodies[key] = body
        self.put_at[key] = step
        insort(self._sorted, key)
        self._log.append((step, key, body))

    def _drop(self, key: str) -> None:
        del self.bodies[key]
        del self._sorted[bisect_left(self._sorted, key)]
        self._log.append((self._step(), key, None))


class View(StoreAround):
    """A place as an actor reaches it. Each call may meet a fault, and others may go first."""

    def __init__(self, place: Place, world: World) -> None:
        super().__init__(place)
        self.place = place
        self._world = world

    def call(self, method: str, key: str, perform: Callable[[], Any]) -> Any:
        if method in NO_CALLS:
            return perform()
        if method not in WRITES:
            return self._world.call(self.place, method, key, perform)
        if not self._world.call(self.place, "put", key, lambda: self._put(key, perform)):
            raise KeyExists(f"{key} at {self.url}")
        return None

    def _put(self, key: str, perform: Callable[[], None]) -> bool:
        """Whether the key was free: whoever gave the call up hears of nothing."""
        with suppress(KeyExists):
            perform()
            self._world.created(self.place, key, self.place.bodies[key])
            return True
        return False


def faulty_call(world: World, place: Place, operation: str, key: str, perform: Callable[[], Any]) -> Any:
    """A call of an actor to a place, with whatever befalls it."""
    scheduler, dice = world.scheduler, world.dice
    fiber = scheduler.current
    if fiber is None:
        return perform()
    process = fiber.process
    scheduler.point()
    process.calls += 1
    process.puts += operation == "put"
    begun = process.dies_once_begun and any(key.startswith(RESTORES) for _, key in process.wrote)
    at_end = process.dies_at is not None and process.calls >= process.dies_at
    if at_end or begun or process.puts == process.dies_at_put:
        world.count("died")
        world.died(process)
        process.dead = True
        how = dice.random()
        if how < 0.4:
            with suppress(SparklogError):
                perform()
        elif how < 0.5 and operation == "put":
            _later(world, perform)
        raise Killed
    if place.is_gone or any(process.name.startswith(name) for name in place.hidden_from):
        world.count("unreachable")
        scheduler.sleep(dice.uniform(20, 400))
        raise StoreUnavailable(f"{place.url} is not there")
    if place.silent_to_ms > scheduler.now_ms and (place.silent_for is None or process.name in place.silent_for):
        return _unanswered(world, place, operation, key, perform)
    roll = dice.random()
    if roll >= world.fault_rate or key.startswith(PROBES):
        return perform()
    fault = CALL_FAULTS[int(roll / world.fault_rate * len(CALL_FAULTS))]
    if operation not in ("put", "delete") and fault != "reply-lost":
        fault = "unavailable"
    world.count(fault)
    match fault:
        case "unavailable":
            raise StoreUnavailable(f"{place.url}: slow down")
        case "late-put" if operation == "put":
            _later(world, perform)
        case "reply-lost":
            perform()
        case _:
            pass
    raise _no_answer(place, operation, key)


def _unanswered(world: World, place: Place, operation: str, key: str, perform: Callable[[], Any]) -> Any:
    """The store is silent: no answer for seconds. A put may arrive all the same, even after it was given up."""
    world.count("silent")
    dice = world.dice
    arrives = dice.random() if operation == "put" else 1.0
    if arrives < 0.2:
        _later(world, perform)
    world.scheduler.sleep(dice.uniform(300, 6_000))
    if 0.2 <= arrives < 0.4:
        perform()
    raise _no_answer(place, operation, key)


def _later(world: World, perform: Callable[[], Any]) -> None:
    """The call arrives some time after its sender has given it up."""
    longest_ms = 10 ** world.dice.uniform(1, 4)

    def arrive() -> None:
        world.scheduler.sleep(longest_ms)
        perform()

    fiber = world.scheduler.current
    sender = None if fiber is None else fiber.process
    network = Process("network")
    if sender is not None:
        network.without, network.loss_accepted = sender.without, sender.loss_accepted
    world.scheduler.spawn("network", network, arrive)


def _no_answer(place: Place, operation: str, key: str) -> Exception:
    if operation == "put":
        return OutcomeUnknown(f"{key} at {place.url}: no answer")
    return StoreUnavailable(f"{key} at {place.url}: no answer")
