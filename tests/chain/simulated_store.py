"""The store of a simulated world: objects in memory, and requests that go wrong when the dice say so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from sparklog.chain.chain_requests import Get, LoadSnapshot, Put, Request
from sparklog.chain.head import Head
from sparklog.chain.snapshot import snapshot
from sparklog.core.errors import KeyExists, KeyNotFound, OutcomeUnknown, SparklogError, StoreUnavailable
from sparklog.storage.object_store import StoredKey

URL = "memory://simulated"


class SimulatedStore:
    """Objects by key. `perform` answers as a store in trouble does, everything else as one without faults."""

    url = URL

    def __init__(self, dice: random.Random, faults: float) -> None:
        self.bodies: dict[str, bytes] = {}
        self.late: list[Put] = []  # puts whose senders were told OutcomeUnknown
        self.calm = False  # whether nothing goes wrong any more
        self._dice = dice
        self._faults = faults

    def put_if_absent(self, key: str, body: Any) -> None:
        if key in self.bodies:
            raise KeyExists(key)
        self.bodies[key] = bytes(body)

    def get(self, key: str) -> memoryview:
        if key not in self.bodies:
            raise KeyNotFound(key)
        return memoryview(self.bodies[key])

    def size(self, key: str) -> int:
        return len(self.get(key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        keys = sorted(key for key in self.bodies if key.startswith(prefix))
        return iter([StoredKey(key, len(self.bodies[key]), 0) for key in keys])

    def first_key_after(self, prefix: str, key: str) -> str | None:
        return min((each for each in self.bodies if each.startswith(prefix) and each > key), default=None)

    # ---- requests -------------------------------------------------------------------------------

    def perform(self, request: Request) -> object:
        """The reply to one request: what it returns or raises."""
        try:
            match request:
                case Put():
                    self._put(request)
                    return None
                case Get():
                    if self.goes_wrong():
                        raise StoreUnavailable(request.key)
                    return self.get(request.key)
                case LoadSnapshot():
                    if self.goes_wrong():
                        raise StoreUnavailable("snapshot")
                    loaded = snapshot.load_newest(self)  # type: ignore[arg-type]
                    return None if loaded is None else Head(loaded[1], loaded[0].entry_hash)
                case _:
                    raise TypeError(request)
        except SparklogError as error:
            return error

    def goes_wrong(self) -> bool:
        """Whether the next request goes wrong."""
        return not self.calm and self._dice.random() < self._faults

    def land(self) -> tuple[str, bool]:
        """Let a late put arrive. Returns its key, and whether the key was free."""
        request = self.late.pop(self._dice.randrange(len(self.late)))
        is_free = request.key not in self.bodies
        self._try(request)
        return request.key, is_free

    def _put(self, request: Put) -> None:
        if not self.goes_wrong():
            self.put_if_absent(request.key, request.body)
            return
        match self._dice.randrange(5):
            case 0:  # the reply is lost
                self._try(request)
                raise OutcomeUnknown(request.key)
            case 1:  # the request is lost
                raise OutcomeUnknown(request.key)
            case 2:  # the request lands late
                self.late.append(request)
                raise OutcomeUnknown(request.key)
            case 3:  # the store repeats it, and refuses the repeat
                self._try(request)
                raise KeyExists(request.key)
            case _:
                raise StoreUnavailable(request.key)

    def _try(self, request: Put) -> None:
        if request.key not in self.bodies:
            self.put_if_absent(request.key, request.body)
