"""One simulated world: a cluster whose metadata is lost and restored several times, and everybody at work in it."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparklog.chain.owner import is_owner_mark
from sparklog.client.bootstrap import init_cluster
from sparklog.client.connection import Connection
from sparklog.core.commands import Command
from sparklog.core.coordination import Author
from sparklog.core.errors import NotEnoughReplicasAfterAppend, SparklogError
from sparklog.core.records import CommandResult
from sparklog.storage.keys import RESTORES, SNAPSHOTS
from tests.kit.kernel import SHOWN, Simulation, own_dice
from tests.sim.restores.history import History
from tests.sim.restores.prepare import enter, leave
from tests.sim.restores.scheduler import Broken, Process, Scheduler
from tests.sim.restores.stores import Place, View, faulty_call

_INIT = Author("client", "init")
ROOT = "memory://world"
FIRST_NAMES = "bcdef"


@dataclass(frozen=True)
class WorldShape:
    """What the seed makes of a world."""

    stores: int
    copies: int
    block: int
    near: int
    keenness: float
    step_ms: int
    stalls: float
    fault_rate: float
    lowers: bool  # whether the operator lowers metadata.copies, too

    @property
    def most_stores(self) -> int:
        """As many live at once."""
        return max(self.stores, 3) + 1


def shape_of(seed: int, dice: random.Random) -> WorldShape:
    """A shape."""
    stores = dice.choice((2, 3, 3, 4))
    return WorldShape(
        stores=stores,
        copies=dice.choice((1, 1, 2)) if stores > 2 else 1,
        block=dice.choice((3, 4, 8)),
        near=dice.choice((2, 3, 16)),
        keenness=dice.choice((0.3, 0.7, 0.9, 0.97)),
        step_ms=dice.choice((3, 10, 40)),
        stalls=dice.choice((0.0, 0.003, 0.01)),
        fault_rate=dice.choice((0.0, 0.0, 0.01, 0.03)),
        lowers=own_dice(seed, "changed-copies").random() < 0.2,
    )


class World(Simulation):
    """Places, actors and history of one run. `known`: the places of stores by id, also of those that are removed."""

    def __init__(self, seed: int, shape: WorldShape | None = None) -> None:
        super().__init__(seed)
        self.dice = random.Random(seed)
        self.ids = random.Random(seed + 1)
        self.shape = shape or shape_of(seed, self.dice)
        self.scheduler = Scheduler(
            self.dice, keenness=self.shape.keenness, step_ms=self.shape.step_ms, stalls=self.shape.stalls
        )
        self.places: dict[str, Place] = {}
        self.stores: dict[str, Place] = {}
        self.known: dict[str, Place] = {}
        self.history = History(self.places, self.stores, lambda: self.scheduler.steps)
        self.history.report = self.broken
        self.fault_rate = 0.0
        self._numbers = 0

    # ---- places ---------------------------------------------------------------------------------

    def view(self, url: str) -> View:
        """The place at an address, for whoever opens it."""
        url = url.rstrip("/")
        place = self.stores.get(url) or self.places.get(url)
        if place is None:
            place = self.places[url] = Place(url, lambda: self.scheduler.steps)
        return View(place, self)

    def new_place(self) -> str:
        """The address of a new place for metadata."""
        url = f"{ROOT}/meta{len(self.places)}"
        self.view(url)
        return url

    def address(self, store: str) -> str:
        """The address of a store."""
        return f"{ROOT}/store-{store}"

    def new_store(self, name: str | None = None) -> str:
        """Buy a new store. Its id sorts first, last, or anywhere."""
        if name is None:
            name = f"{self.dice.choice('amz')}{self.next_number():02}"
        url = self.address(name)
        self.known[name] = self.stores[url] = Place(url, lambda: self.scheduler.steps)
        return name

    def next_number(self) -> int:
        """A number that nobody had yet."""
        self._numbers += 1
        return self._numbers

    # ---- what happens ---------------------------------------------------------------------------

    def call(self, place: Place, operation: str, key: str, perform: Callable[[], Any]) -> Any:
        """A call to a place."""
        return faulty_call(self, place, operation, key, perform)

    def created(self, place: Place, key: str, body: bytes) -> None:
        """An object was put."""
        fiber = self.scheduler.current
        if fiber is not None:
            fiber.process.wrote.append((place.url, key))
            fiber.process.marked = fiber.process.marked or is_owner_mark(body)
            self.note(fiber.process.name, "puts", place.url.rpartition("/")[2], key)
        self.history.created(place, key, body, None if fiber is None else fiber.process)

    def acknowledged(self, connection: Connection, command: Command, result: CommandResult) -> None:
        """A command was acknowledged to a process."""
        fiber = self.scheduler.current
        name = "nobody" if fiber is None else fiber.process.name
        chain = connection.follower.state.chain_id
        self.note(name, "is told of", type(command).__name__, f"{chain[:8]}/{result.n}")
        self.count("acknowledged")
        if self.restorers:
            self.count(f"{type(command).__name__}-during-a-restore")
        head = connection.follower.head
        self.history.acknowledged(chain, result.n, name, head.entry_hash if head.n == result.n else None)

    def died(self, process: Process) -> None:
        """Count how far a restorer had come that dies."""
        if process.name.startswith("restorer"):
            has_begun = any(key.startswith(RESTORES) for _, key in process.wrote)
            has_ended = any(key.startswith(SNAPSHOTS) for _, key in process.wrote)
            how_far = "begun" if has_begun else "marked" if process.marked else "looked"
            self.count(f"restorer-died-when-it-had-{'ended' if has_ended else how_far}")

    @property
    def restorers(self) -> int:
        """How many are at work."""
        return sum(fiber.process.name.startswith("restorer") for fiber in self.scheduler.fibers)

    def refused(self, process: Process, error: SparklogError) -> None:
        """A process was refused something."""
        self.note(process.name, "is refused", f"{error.code}: {error.message[:160]}")
        if not error.message:
            self.broken(f"P5: {process.name} was refused without a message: {error!r}")

    def count(self, kind: str) -> None:
        """Count a fault, or something else that is to happen."""
        self.counts[kind] += 1

    def note(self, *words: object) -> None:
        """A line of the trace."""
        self.trace.append((self.scheduler.steps, *words))

    def broken(self, message: str) -> None:
        """A promise is broken: the end."""
        self.scheduler.broken(message)

    # ---- running --------------------------------------------------------------------------------

    def spawn(self, name: str, work: Callable[[Process], None], *, dies_at: int | None = None) -> Process:
        """Start a process."""
        process = Process(f"{name}{self.next_number()}", dies_at)

        def guarded() -> None:
            try:
                work(process)
            except Exception as error:  # only sparklog's own errors are expected, and they are caught
                self.broken(f"P5: {process.name} ended with {type(error).__name__}: {error} ({where(error)})")

        self.scheduler.spawn(process.name, process, guarded)
        return process

    def kill(self, process: Process) -> None:
        """End a process now."""
        process.dead = True

    def begin(self) -> str:
        """Create the cluster. Returns its address."""
        url = self.new_place()
        names = [self.new_store(name) for name in FIRST_NAMES[: self.shape.stores]]
        stores = {name: self.address(name) for name in names}
        config = {"metadata.copies": str(self.shape.copies)}

        def init(process: Process) -> None:
            try:
                init_cluster(url, stores=stores, config=config, author=_INIT)
            except NotEnoughReplicasAfterAppend as error:  # all stores have stalled; the cluster is there
                self.refused(process, error)

        self.spawn("init", init)
        self.scheduler.run(lambda: False, 100_000)
        return url

    def play(self, play: Callable[[World], None]) -> None:
        """Play until the end, or until a promise is broken: raises AssertionError."""
        enter(self)
        try:
            play(self)
        except Broken as broken:
            raise AssertionError(str(broken)) from None
        finally:
            self.scheduler.end()
            self.steps = self.scheduler.steps
            self.counts["stalled"] += self.scheduler.stalled
            self.counts["exempted"] += self.history.exempted
            self.counts["unprotected"] += self.history.unprotected
            self.counts["late-but-there"] += self.history.late
            leave()

    def shown(self) -> str:
        return f"{self.shape}, {self.steps} steps"

    def story(self) -> list[str]:
        return [f"{step:>7} " + " ".join(str(word)[:200] for word in words) for step, *words in self.trace[-SHOWN:]]


def where(error: BaseException) -> str:
    """The last lines of code under test that an error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/sparklog/" in frame.filename]
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames[-4:]))
