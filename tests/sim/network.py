"""Calls on their way: when they reach their store, and when which reply comes back to the process that waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sparklog.core.errors import OutcomeUnknown, SparklogError, StoreUnavailable
from tests.sim.stores import Call

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

TIMEOUT_MS = 3_000  # after which the sender gives up a call; a put may still arrive
LATEST_MS = 12_000  # after which nothing that was sent arrives any more

Reply = Callable[[object], None]


def send(world: World, process: Process, call: Call, reply: Reply) -> None:
    """Send a call. `reply` gets its value or error once, or twice; never if the process dies before."""
    store, dice, life = world.stores[call.store], process.dice, process.life
    there_ms, back_ms = dice.randint(1, 8) * store.slowness * world.faults.slowness(process, store), dice.randint(1, 8)
    if world.faults.holds_up(process, call):
        stalled_ms = dice.randint(4_000, 12_000)
        is_answered = dice.random() < 0.5

        def land() -> None:
            result = _arrive(world, process, call)
            if process.life == life and is_answered:
                world.at(5, lambda: reply(result), process)

        world.at(stalled_ms, land, lands=True)
        world.at(stalled_ms + 10, lambda: world.faults.wake(process, life))
        if not is_answered:
            world.at(TIMEOUT_MS, lambda: reply(_no_answer(call)), process)
        return
    fault = world.faults.of_call(process, store, call.operation)
    match fault:
        case "throttled":
            world.at(there_ms, lambda: reply(StoreUnavailable(f"{store.url}: slow down")), process)
            return
        case "partition":
            world.at(TIMEOUT_MS, lambda: reply(_no_answer(call)), process)
            return
        case "late-put":
            late_ms = dice.randint(TIMEOUT_MS, LATEST_MS)
            world.at(late_ms, lambda: _arrive(world, process, call), lands=True)
            world.at(TIMEOUT_MS, lambda: reply(_no_answer(call)), process)
            return
        case "request-delayed":
            there_ms += dice.randint(100, TIMEOUT_MS - 500)
        case "request-doubled":
            again_ms = there_ms + dice.choice((1, 10, LATEST_MS // 2))
            if dice.random() < 0.5 and again_ms < TIMEOUT_MS:  # the first reply is lost, a library asks again
                world.at(there_ms, lambda: _arrive(world, process, call), lands=True)
                there_ms = again_ms
            else:
                world.at(again_ms, lambda: _arrive(world, process, call), lands=True)
        case _:
            pass
    is_late = there_ms + back_ms >= TIMEOUT_MS
    if is_late and call.operation == "put":
        world.faults.count("late-put")

    def arrive() -> None:
        result = _arrive(world, process, call)
        if is_late or fault == "reply-lost" or process.life != life:
            return
        world.at(back_ms, lambda: reply(result), process)
        if fault == "reply-doubled":
            world.at(back_ms + 5, lambda: reply(result), process)

    world.at(there_ms, arrive, lands=True)
    if is_late or fault == "reply-lost":
        world.at(TIMEOUT_MS, lambda: reply(_no_answer(call)), process)


def _arrive(world: World, process: Process, call: Call) -> object:
    result = world.stores[call.store].perform(call)
    world.note(process.name, call.operation, call.store, call.key, _shown(result))
    return result


def _no_answer(call: Call) -> SparklogError:
    if call.operation == "put":
        return OutcomeUnknown(f"{call.key} in {call.store}: no answer")
    return StoreUnavailable(f"{call.key} in {call.store}: no answer")


def _shown(result: object) -> str:
    return "ok" if result is None else type(result).__name__
