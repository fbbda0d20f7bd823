"""Requests of processes to coordinators, and the replies, in the real wire format.

An address names a place, not a life: whoever runs there when a request arrives gets it. A process that is
paused gets it once it wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from sparklog.core.errors import Landed, SparklogError
from sparklog.storage.http.calls import NoCoordinatorAnswers
from sparklog.wire.error_messages import ErrorReply, error_reply, raised
from sparklog.wire.messages import ClusterReply, Heartbeat, SubmitReply, SubmitRequest

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

CONNECT_MS = 400  # after which a client takes a coordinator for unreachable
HEARTBEAT_MS = 500  # to wait for a reply to a heartbeat
LATEST_MS = 6_000  # after which no request arrives any more

_KINDS: dict[type, type] = {SubmitRequest: SubmitReply, Heartbeat: ClusterReply}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the coordinator at this address. What it answers with, an error too, is the answer."""

    address: str
    request: SubmitRequest | Heartbeat
    patience_ms: int


class Exchange:
    """One request on its way, or in the hands of a coordinator. `reply` takes the first answer only."""

    def __init__(self, process: Process, target: Process, due_ms: int, reply: Callable[[object], None]) -> None:
        self.process = process
        self.target = target
        self.number = process.world.next_number()
        self._due_ms = due_ms
        self._reply = reply
        self._life = process.life
        target.exchanges.add(self)

    def back(self, wait_ms: int, value: object) -> None:
        """Hand this to the one who asked, unless it has died."""
        if self.process.life == self._life:
            self.process.world.at(wait_ms, lambda: self.answer(value), self.process)
        else:
            self.target.exchanges.discard(self)

    def answer(self, value: object) -> None:
        """Now."""
        self.target.exchanges.discard(self)
        self._reply(value)

    def expect_nothing(self, within_ms: int | None = None) -> None:
        """No reply will come: at the latest when its time is over, the one who asked gives up."""
        world = self.process.world
        left_ms = max(0, self._due_ms - world.now_ms)
        wait_ms = left_ms if within_ms is None else min(within_ms, left_ms)
        gone = NoCoordinatorAnswers(f"no reply from {self.target.name}", landed=Landed.UNKNOWN)
        self.back(wait_ms, gone)


def ask(world: World, process: Process, wanted: Ask, reply: Callable[[object], None]) -> None:
    """Send a request. `reply` gets the answer, or NoCoordinatorAnswers."""
    dice = process.dice
    there_ms = dice.randint(1, 8)
    target = world.at_address(wanted.address)
    if world.faults.is_unlinked(process, target):
        world.at(CONNECT_MS, lambda: reply(NoCoordinatorAnswers(f"{target.name} can't be reached")), process)
        return
    body = msgspec.msgpack.encode(wanted.request)
    exchange = Exchange(process, target, world.now_ms + wanted.patience_ms, reply)
    if target.is_paused:
        exchange.expect_nothing()
    fault = world.faults.of_ask(process)
    arrive = lambda: _arrive(world, exchange, type(wanted.request), body, fault)  # noqa: E731
    match fault:
        case "ask-lost":
            exchange.expect_nothing(dice.choice((20, 1 << 30)))
            return
        case "ask-late":  # the connection ends, and the request arrives behind its successor
            exchange.expect_nothing(dice.choice((20, 200)))
            world.at(dice.randint(300, LATEST_MS), arrive, target, lands=True)
            return
        case "ask-doubled":
            world.at(there_ms + dice.choice((0, 5, 300, LATEST_MS // 2)), arrive, target, lands=True)
        case _:
            pass
    world.at(there_ms, arrive, target, lands=True)


def _arrive(world: World, exchange: Exchange, kind: type, body: bytes, fault: str | None) -> None:
    """The request is there, in the present life of its target."""
    target = exchange.target
    if not target.is_up or target.serve is None:
        exchange.back(1, NoCoordinatorAnswers(f"nobody listens at {target.name}"))
        return
    target.serve(msgspec.msgpack.decode(body, type=kind), lambda value: _go_back(world, exchange, kind, value, fault))


def _go_back(world: World, exchange: Exchange, kind: type, value: object, fault: str | None) -> None:
    process, dice = exchange.process, exchange.process.dice
    back_ms = dice.randint(1, 8)
    if fault == "answer-lost" or world.faults.is_unlinked(process, exchange.target):
        exchange.expect_nothing(dice.choice((20, 1 << 30)))
        return
    if fault == "answer-late":
        exchange.expect_nothing(dice.choice((20, 200)))
        back_ms += dice.randint(100, LATEST_MS)
    answer = _over_the_wire(kind, value)
    exchange.back(back_ms, answer)
    if fault == "answer-doubled":
        exchange.back(back_ms + 5, answer)


def _over_the_wire(kind: type, value: object) -> object:
    if isinstance(value, SparklogError):
        return raised(msgspec.msgpack.decode(msgspec.msgpack.encode(error_reply(value)), type=ErrorReply))
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=_KINDS[kind])
