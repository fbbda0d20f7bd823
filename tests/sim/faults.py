"""What goes wrong in a simulated world, and when: a list of incidents that follows from the seed.

An incident begins at its time and chooses its target then. Some spoil one call of a process, some last for a while,
some take objects away. Each kind is counted by name when it has had an effect, so that a campaign can show that it met
all of them. Incidents have numbers and dice of their own: a run without some is the same up to where they matter.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sparklog.core.types import StoreId
from sparklog.storage.keys import LOG
from tests.kit.kernel import own_dice
from tests.sim import coordinator_faults, losses
from tests.sim.coordinator_faults import OF_AN_ASK, OF_COORDINATORS
from tests.sim.stores import META, Call, SimStore

if TYPE_CHECKING:
    from tests.sim.process import Process
    from tests.sim.world import World

# One call of a process: the next one that the kind can happen to.
OF_A_CALL: Final = {
    "reply-lost": 10,
    "late-put": 8,
    "request-delayed": 8,
    "request-doubled": 8,
    "reply-doubled": 5,
}
LASTING: Final = {
    "throttled": 4,
    "store-down": 4,
    "store-slow": 3,
    "disk-full": 3,
    "partition": 6,
    "clock-jump": 3,
}
OF_PROCESSES: Final = {"crash": 8, "pause": 8, "stalled-commit": 3, "stalled-upload": 3, "agent-stopped": 4}
OF_OBJECTS: Final = {"store-wiped": 3, "store-rolled-back": 6, "object-lost": 5, "object-damaged": 6}
OF_TOPICS: Final = {"topic-recreated": 2}
SECONDARY: Final = ("past-floor", "put-into-deleted-block", "several-at-once", *coordinator_faults.SECONDARY)
WEIGHTS: Final = {**OF_A_CALL, **LASTING, **OF_PROCESSES, **OF_OBJECTS, **OF_TOPICS}
LED_WEIGHTS: Final = {**WEIGHTS, **OF_AN_ASK, **OF_COORDINATORS}  # in a world with coordinators
KINDS: Final = (*LED_WEIGHTS, *SECONDARY)
SLOW: Final = 40  # times slower than else


@dataclass(frozen=True)
class Incident:
    """Something that goes wrong at a time."""

    number: int
    at_ms: int
    kind: str


def planned(seed: int, span_ms: int, mean_gap_ms: int, *, is_led: bool) -> list[Incident]:
    """The incidents of a world, by time."""
    weights = LED_WEIGHTS if is_led else WEIGHTS
    dice = own_dice(seed, "incidents")
    incidents: list[Incident] = []
    at_ms = 0
    while (at_ms := at_ms + int(dice.expovariate(1 / mean_gap_ms))) < span_ms:
        (kind,) = dice.choices(list(weights), list(weights.values()))
        incidents.append(Incident(len(incidents), at_ms, kind))
    return incidents


def writers_of(world: World) -> list[Process]:
    """The processes that write records."""
    return [each for each in world.processes if each.name.startswith("writer")]


class Faults:
    """The incidents of one world, and what of them is in force."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts = world.counts
        self.counts.update(dict.fromkeys(KINDS, 0))  # so that a report shows what was not met
        self.is_calm = False  # nothing goes wrong any more
        self.copies: dict[StoreId, losses.Copy] = {}  # old copies of stores, to be rolled back to
        self._armed: list[tuple[str, Process, bool]] = []  # one call of this process is to go wrong; True: a put
        self._cut: set[tuple[str, StoreId]] = set()  # a process can't reach a store
        self._unlinked: Counter[frozenset[str]] = Counter()  # these two processes can't reach each other
        self._slow: Counter[str] = Counter()  # processes for which the place of the chain is slow
        self._throttled: Counter[StoreId] = Counter()
        self._lasting: Counter[str] = Counter()

    def count(self, kind: str) -> None:
        """The fault has had an effect."""
        self.counts[kind] += 1
        if sum(self._lasting.values()) > 1:
            self.counts["several-at-once"] += 1

    def of_call(self, process: Process, store: SimStore, operation: str) -> str | None:
        """Which fault a call that is sent now meets, if any."""
        if self.is_calm:
            return None
        if (process.name, store.name) in self._cut:
            self.count("partition")
            return "partition"
        if store.is_down:
            self.count("store-down")
            return "store-down"
        if store.slowness > 1:
            self.count("store-slow")
        if store.is_full and operation == "put":
            self.count("disk-full")
        if self._throttled[store.name] and process.dice.random() < 0.5:
            self.count("throttled")
            return "throttled"
        for index, (kind, target, is_put) in enumerate(self._armed):
            if target is process and (operation == "put" or not is_put) and kind not in OF_AN_ASK:
                del self._armed[index]
                self.count(kind)
                return kind
        return None

    def slowness(self, process: Process, store: SimStore) -> int:
        """How many times slower than others this process reaches the store."""
        if store.name == META and self._slow[process.name] > 0 and not self.is_calm:
            self.count("chain-slow")
            return SLOW
        return 1

    def slow_down(self, process: Process, length_ms: int) -> None:
        """Make the place of the chain slow for one process."""
        self._slow[process.name] += 1
        self._for(length_ms, "chain-slow", lambda: self._slow.update({process.name: -1}))

    def unlink(self, process: Process, other: Process, length_ms: int) -> None:
        """Cut two processes off from each other."""
        pair = frozenset((process.name, other.name))
        self._unlinked[pair] += 1
        self._for(length_ms, "link-cut", lambda: self._unlinked.update({pair: -1}))

    def is_unlinked(self, process: Process, other: Process) -> bool:
        """Whether nothing that is sent now arrives."""
        is_cut = not self.is_calm and self._unlinked[frozenset((process.name, other.name))] > 0
        if is_cut:
            self.count("link-cut")
        return is_cut

    def of_ask(self, process: Process) -> str | None:
        """Which fault a request to a coordinator that is sent now meets, if any."""
        for index, (kind, target, _) in enumerate(self._armed):
            if target is process and kind in OF_AN_ASK:
                del self._armed[index]
                self.count(kind)
                return kind
        return None

    # ---- incidents ------------------------------------------------------------------------------

    def happen(self, incident: Incident) -> None:
        """Begin an incident."""
        if self.is_calm:
            return
        dice = own_dice(self.world.seed, f"incident/{incident.number}")
        kind = incident.kind
        self.world.note("!", kind, incident.number)
        process = dice.choice(self.world.processes)
        store = self.world.stores[dice.choice(list(self.world.stores))]
        if kind in OF_AN_ASK:
            if dice.random() < 0.7:
                process = dice.choice(writers_of(self.world) or [process])
            self._armed.append((kind, process, False))
        elif kind in OF_COORDINATORS:
            coordinator_faults.happen(self.world, kind, dice)
        elif kind in OF_A_CALL:
            if dice.random() < 0.5:
                process = dice.choice(writers_of(self.world) or [process])
            self._armed.append((kind, process, kind == "late-put" or dice.random() < 0.6))
        elif kind in LASTING:
            self._last(kind, process, store, dice)
        elif kind in OF_PROCESSES:
            self._of_process(kind, process, dice)
        elif kind in OF_OBJECTS:
            losses.happen(self.world, kind, dice)
        else:
            self.world.recreate_topic(dice)

    def _last(self, kind: str, process: Process, store: SimStore, dice: random.Random) -> None:
        length_ms = dice.choice((200, 1_500, 4_000))
        undo: Callable[[], None]
        match kind:
            case "throttled":
                if store.name == META:
                    length_ms = min(length_ms, 1_500)
                self._throttled[store.name] += 1

                def undo() -> None:
                    self._throttled[store.name] -= 1
            case "store-down":
                if store.name == META:
                    length_ms = min(length_ms, 1_500)
                store.is_down = True

                def undo() -> None:
                    store.is_down = False
            case "store-slow":
                store.slowness = dice.choice((20, 300))
                if store.name == META:
                    store.slowness, length_ms = 20, min(length_ms, 1_500)

                def undo() -> None:
                    store.slowness = 1
            case "disk-full":
                if store.name == META:
                    return
                store.is_full = True

                def undo() -> None:
                    store.is_full = False
            case "partition":
                self._cut.add((process.name, store.name))

                def undo() -> None:
                    self._cut.discard((process.name, store.name))
            case _:
                process.wall_offset_ms += dice.choice((-3_600_000, -1_000, 1_000, 60_000, 3_600_000))
                self.count("clock-jump")
                return
        self._for(length_ms, kind, undo)

    def _for(self, length_ms: int, kind: str, undo: Callable[[], object]) -> None:
        """Something lasts for so long."""
        self._lasting[kind] += 1

        def end() -> None:
            undo()
            self._lasting[kind] -= 1

        self.world.at(length_ms, end)

    def _of_process(self, kind: str, process: Process, dice: random.Random) -> None:
        match kind:
            case "crash" if process.is_up:
                process.crash()
                self.count("crash")
                self.world.at(dice.choice((10, 500, 5_000)), process.restart)
            case "pause" if process.is_up and not process.is_paused:
                process.pause()
                self.count("pause")
                life = process.life
                self.world.at(dice.choice((300, 3_000, 9_000)), lambda: self.wake(process, life))
            case "stalled-commit" | "stalled-upload":
                if writers := writers_of(self.world):
                    dice.choice(writers).stall = kind
            case "agent-stopped":
                agents = [each for each in self.world.processes if each.name.startswith("agent")]
                dice.choice(agents).is_to_stop = True
            case _:
                pass

    def holds_up(self, process: Process, call: Call) -> bool:
        """Whether this call is an entry that stays on its way until the chain has moved on, and its sender with it."""
        if process.stall != "stalled-commit" or not call.key.startswith(LOG) or self.is_calm:
            return False
        process.stall = ""
        process.pause()
        self.count("stalled-commit")
        return True

    def wake(self, process: Process, life: int) -> None:
        """Let a process go on, unless it has died meanwhile."""
        if process.life == life and process.is_paused:
            if process.head.n < self.world.observer.head.state.floor:
                self.count("past-floor")
            process.wake()

    def calm(self) -> None:
        """Nothing goes wrong any more; what is in force ends."""
        self.is_calm = True
        self._armed.clear()
        self._cut.clear()
        self.world.terms.calm()
        for store in self.world.stores.values():
            store.is_down = store.is_full = False
            store.slowness = 1
        for process in self.world.processes:
            if not process.is_up:
                process.start()
            elif process.is_paused:
                process.wake()
