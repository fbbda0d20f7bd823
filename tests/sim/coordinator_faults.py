"""What goes wrong with coordinators, beyond what can happen to any process: they die or sleep while they lead, claim
without need, are made to resign, are deposed and do not know it. And with the ways to them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from sparklog.chain.commit.command_group import Ticket, decide_group
from sparklog.core.commands import AllocateProducer, Command, RaiseFloor, ResignCoordination
from sparklog.core.coordination import Author
from sparklog.core.errors import SparklogError
from sparklog.storage.keys import entry_key
from tests.sim.coordinators import SESSION_MS
from tests.sim.process import CommitAs, Process, Steps
from tests.sim.stores import META, Call

if TYPE_CHECKING:
    from tests.sim.world import World

# One request to a coordinator: the next one of a process.
OF_AN_ASK: Final = {
    "ask-lost": 5,
    "answer-lost": 6,
    "ask-doubled": 4,
    "answer-doubled": 3,
    "ask-late": 6,
    "answer-late": 3,
}
OF_COORDINATORS: Final = {
    "link-cut": 6,
    "leader-crash": 3,
    "leader-pause": 4,
    "leader-stopped": 3,
    "duel": 3,
    "resign-forced": 3,
    "chain-slow": 3,
    "deposed-entry": 3,
}
SECONDARY: Final = (
    "takeover",
    "stepped-down",
    "sent-away",
    "fenced-entry",
    "silent-agent",
    "behind-its-client",
    "embedded-beside",
)


def coordinators_of(world: World) -> list[Process]:
    """The processes that may coordinate."""
    return [each for each in world.processes if each.name.startswith("coordinator")]


def happen(world: World, kind: str, dice: random.Random) -> None:
    """Begin an incident."""
    all_of_them = coordinators_of(world)
    if not all_of_them:
        return
    leading = [each for each in all_of_them if world.terms.name.startswith(f"{each.name}-")]
    target = dice.choice(leading or all_of_them)
    faults = world.faults
    match kind:
        case "link-cut":
            other = dice.choice([each for each in world.processes if each is not target])
            faults.unlink(other, target, dice.choice((300, 1_500, 4_000)))
        case "leader-crash" if target.is_up:
            faults.count(kind)
            target.crash()
            world.at(dice.choice((10, 500, 5_000)), target.restart)
        case "leader-pause" if target.is_up and not target.is_paused:
            faults.count(kind)
            target.pause()
            life = target.life
            world.at(dice.choice((SESSION_MS // 2, 2 * SESSION_MS, 4_000)), lambda: faults.wake(target, life))
        case "leader-stopped" if target.control is not None:
            faults.count(kind)
            target.control.stop()
        case "duel":
            faults.count(kind)
            for each in all_of_them:
                each.ahead_ms += 3 * SESSION_MS
        case "resign-forced":
            world.errand("resigner", _resigning)
        case "chain-slow":
            faults.slow_down(target, dice.choice((1_500, 4_000)))
        case "deposed-entry":
            command: Command = dice.choice((AllocateProducer(), RaiseFloor(world.observer.head.state.n0)))
            world.errand("deposed", lambda process: _writing_as_deposed(process, command))
        case _:
            pass


def _resigning(process: Process) -> Steps:
    """`sparklog coordinator resign --force`, while the coordinator may be alive."""
    try:
        state = yield from process.catch_up()
        if state.coordinator.in_force:
            yield process.dice.choice((0, 100, 1_000))
            resignation = process.begin(ResignCoordination(state.coordinator.epoch))
            yield CommitAs(process.commits.author, resignation, 2_000)
            process.world.faults.count("resign-forced")
    except SparklogError as error:
        process.refused(error)


def _writing_as_deposed(process: Process, command: Command) -> Steps:
    """An entry of a coordinator that does not notice that it is one no more: as an older version of it might write."""
    for _ in range(10):
        try:
            state = yield from process.catch_up()
            known = state.coordinator
            epoch = known.epoch - 1 if known.in_force else known.epoch
            if epoch < 1:
                return
            ticket = Ticket(process.begin(command), process.world.now_ms, 0)
            group = decide_group(process.head, [ticket], process.now_ms(), confirmed=True)
            if not group.decided:
                return
            body = group.end_entry(Author("coordinator", process.name, epoch), process.new_id())
            yield Call(META, "put", entry_key(process.head.n + 1), body)
            process.world.faults.count("deposed-entry")
            return
        except SparklogError as error:
            process.refused(error)
