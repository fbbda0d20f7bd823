"""The store of a simulated world: objects in memory, and requests that go wrong when the dice say so."""

from __future__ import annotations

import random

from sparklog.chain.chain_requests import Get, LoadSnapshot, Put, Request
from sparklog.chain.head import Head
from sparklog.chain.snapshot import snapshot
from sparklog.core.errors import KeyExists, OutcomeUnknown, SparklogError, StoreUnavailable
from tests.kit.dict_store import DictStore

URL = "memory://simulated"


class SimulatedStore(DictStore):
    """Objects by key. `perform` answers as a store in trouble does, everything else as one without faults."""

    def __init__(self, dice: random.Random, faults: float) -> None:
        super().__init__(URL, {})
        self.late: list[Put] = []  # puts whose senders were told OutcomeUnknown
        self.calm = False  # whether nothing goes wrong any more
        self._dice = dice
        self._faults = faults

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
                    loaded = snapshot.load_newest(self)
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
        self.add(request.key, bytes(request.body))
