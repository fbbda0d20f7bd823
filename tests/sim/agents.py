"""The agents of the stores: the real machine of `sparklog/agent`, driven by a process of the world."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from sparklog.agent.agent import Agent
from sparklog.agent.agent_requests import (
    Fetch,
    Follow,
    LookForObject,
    PutIncarnation,
    ReadIncarnation,
    Request,
    SendHeartbeat,
    Submit,
)
from sparklog.core.errors import KeyExists, KeyNotFound, SparklogError
from sparklog.core.types import StoreId
from sparklog.log.incarnation import Incarnation
from sparklog.log.objects.object_copy import fetch_object
from sparklog.storage.keys import INCARNATION, data_key
from tests.sim.coordinators import heartbeat
from tests.sim.process import Process, Steps
from tests.sim.stores import Call

RESTART_MS = 400  # after which an agent that ended with an error is started again


def agent(process: Process, store: StoreId) -> Steps:
    """Run the agent of a store, again and again: it ends when its store is fenced, or when it is to stop."""
    while True:
        run = _Run(process, store)
        run.step()
        rest_ms = RESTART_MS
        while not run.machine.ended:
            yield RESTART_MS
            if process.is_to_stop and not run.machine.ended:
                process.is_to_stop = False
                process.world.faults.count("agent-stopped")
                rest_ms = process.dice.choice((RESTART_MS, 4_000))
                run.machine.stop()
                run.step()
        if run.machine.error is not None:
            process.refused(run.machine.error)
        # An agent that was away from now on for longer would be a fault.
        yield RESTART_MS if process.world.faults.is_calm else rest_ms


class _Run:
    """One life of the machine: its requests are tasks of the process, its wake-ups are timers."""

    def __init__(self, process: Process, store: StoreId) -> None:
        self.machine = Agent(store, _Dice(process))
        self._process = process
        self._store = store

    def step(self, *replies: tuple[Request, object]) -> None:
        """Go on with these replies, or because it is time."""
        machine, process = self.machine, self._process
        if machine.ended:
            return
        for request in machine.step(process.world.now_ms, replies):
            process.spawn(self._perform(request))
        for note in machine.notes:
            process.world.note(process.name, "agent", note.event, note.text[:160])
        machine.notes.clear()
        wake_ms = machine.wake_ms
        if wake_ms is not None:
            process.after(max(0, int(wake_ms - process.world.now_ms)) + 1, self._woken(wake_ms))

    def _woken(self, wake_ms: float) -> Callable[[], None]:
        def wake() -> None:
            if self.machine.wake_ms == wake_ms:
                self.step()

        return wake

    def _perform(self, request: Request) -> Steps:
        try:
            reply = yield from self._reply(request)
        except SparklogError as error:
            reply = error
        self.step((request, reply))

    def _reply(self, request: Request) -> Steps:
        process, store = self._process, self._store
        match request:
            case Follow():
                return (yield from process.catch_up())
            case Submit():
                yield from process.catch_up()
                return (yield from process.submit(request.command))
            case SendHeartbeat():
                yield from heartbeat(process, store, request.registration)
                return None
            case ReadIncarnation():
                try:
                    return msgspec.json.decode((yield Call(store, "get", INCARNATION)), type=Incarnation)
                except KeyNotFound:
                    return None
            case PutIncarnation():
                with suppress(KeyExists):
                    yield Call(store, "put", INCARNATION, msgspec.json.encode(request.mark))
                return None
            case LookForObject():
                held = request.held
                try:
                    size_bytes = yield Call(store, "size", data_key(held.object, held.topic))
                except KeyNotFound:
                    return False
                return size_bytes == held.object.size_bytes
            case Fetch():
                yield process.dice.randint(1, 30)
                return fetch_object(request.wanted, store, process.stores)  # type: ignore[arg-type]


class _Dice:
    """See `sparklog.host.dice.Dice`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def new_id(self) -> str:
        return self._process.new_id()

    def jittered(self, longest: float) -> float:
        return self._process.dice.uniform(longest / 2, longest)

    def below(self, end: int) -> int:
        return self._process.dice.randrange(end)
