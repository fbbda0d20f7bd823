"""The simulated places: of the metadata, and of the stores. `Place` is what is there; `View` is how code reaches it."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sparklog.chain.owner import is_mark
from sparklog.core.errors import Damaged, KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.storage.keys import COPIES, INCARNATION, OWNERS, PROBES, RESTORES
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey
from tests.sim.restores.scheduler import Killed, Process

if TYPE_CHECKING:
    from tests.sim.restores.world import World

CALL_FAULTS = ("unavailable", "reply-lost", "lost", "late-put")


class Place:
    """Objects by key, and their past. `hurt_at`: the step at which a fault last took something away."""

    def __init__(self, url: str, step: Callable[[], int]) -> None:
        self.url = url
        self.bodies: dict[str, bytes] = {}
        self.keys: list[str] = []
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

    def put(self, key: str, body: bytes) -> bool:
        """Whether the key was free."""
        if key in self.bodies:
            return False
        self._set(key, body)
        return True

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        if key in self.bodies:
            self._drop(key)

    def first_after(self, prefix: str, key: str) -> str | None:
        """See the port."""
        at = max(bisect_right(self.keys, key), bisect_left(self.keys, prefix))
        return self.keys[at] if at < len(self.keys) and self.keys[at].startswith(prefix) else None

    def with_prefix(self, prefix: str) -> list[str]:
        """The keys that begin with it, ascending."""
        at = bisect_left(self.keys, prefix)
        found = []
        while at < len(self.keys) and self.keys[at].startswith(prefix):
            found.append(self.keys[at])
            at += 1
        return found

    # ---- faults ---------------------------------------------------------------------------------

    def wipe(self) -> None:
        """Nothing is left."""
        for key in list(self.keys):
            self._drop(key)
        self.hurt_at = self._step()

    def set_back(self, dice: random.Random) -> bool:
        """All keys are as of an earlier moment, but after the newest mark there. Whether that took a copy away."""
        marks = [number for number, (_, key, _) in enumerate(self._log) if key.startswith((OWNERS, INCARNATION))]
        changes = [
            number
            for number, (_, key, body) in enumerate(self._log)
            if key.startswith(COPIES) and number > max(marks, default=-1) and not (body and is_mark(body))
        ]
        if len(changes) < 4:
            return False
        keep = dice.choice(changes[len(changes) // 3 :])
        if any(body and is_mark(body) for _, _, body in self._log[keep:]):
            return False
        before = dict(self.bodies)
        kept, self._log = self._log[:keep], []
        self.bodies.clear()
        self.keys.clear()
        for _, key, body in kept:
            if body is not None:
                self._set(key, body)
            elif key in self.bodies:
                self._drop(key)
        self.hurt_at = self._step()
        return any(key not in self.bodies for key in before if key.startswith(COPIES))

    def flip(self, dice: random.Random) -> str | None:
        """One byte of one copy is another one. Returns its key."""
        copies = [key for key in self.with_prefix(COPIES) if self.bodies[key] and not is_mark(self.bodies[key])]
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

    def _set(self, key: str, body: bytes) -> None:
        self.bodies[key] = body
        self.put_at[key] = self._step()
        insort(self.keys, key)
        self._log.append((self._step(), key, body))

    def _drop(self, key: str) -> None:
        del self.bodies[key]
        del self.keys[bisect_left(self.keys, key)]
        self._log.append((self._step(), key, None))


class View:
    """A place as the port `ObjectStore`. Each call of an actor may meet a fault, and others may go first."""

    read_ahead = 0

    def __init__(self, place: Place, world: World) -> None:
        self.place = place
        self.url = place.url
        self._world = world

    def __repr__(self) -> str:
        return f"View({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        whole = bytes(body)
        if not self._world.call(self.place, "put", key, lambda: self._put(key, whole)):
            raise KeyExists(f"{key} at {self.url}")

    def upload(self, key: str) -> SimUpload:
        return SimUpload(self, key)

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False

    def get(self, key: str) -> memoryview:
        return memoryview(self._world.call(self.place, "get", key, lambda: self._body(key)))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        body = self.get(key)
        if any(end > len(body) for _, end in ranges):
            raise Damaged(f"{key} at {self.url} ends at byte {len(body)}, wanted {ranges}")
        return [body[start:end] for start, end in ranges]

    def size(self, key: str) -> int:
        return int(self._world.call(self.place, "size", key, lambda: len(self._body(key))))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        place = self.place
        listed = self._world.call(
            place,
            "list",
            prefix,
            lambda: [StoredKey(key, len(place.bodies[key]), 0) for key in place.with_prefix(prefix)],
        )
        return iter(listed)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        found: str | None = self._world.call(self.place, "first", key, lambda: self.place.first_after(prefix, key))
        return found

    def delete(self, key: str) -> None:
        self._world.call(self.place, "delete", key, lambda: self.place.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def free_bytes(self) -> int | None:
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        return 0

    def _body(self, key: str) -> bytes:
        try:
            return self.place.bodies[key]
        except KeyError:
            raise KeyNotFound(f"{key} at {self.url}") from None

    def _put(self, key: str, body: bytes) -> bool:
        if not self.place.put(key, body):
            return False
        self._world.created(self.place, key, body)
        return True


class SimUpload:
    """See `storage.object_store.Upload`."""

    def __init__(self, view: View, key: str) -> None:
        self._view, self._key = view, key
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
