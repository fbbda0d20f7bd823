"""Plays a world: work, damage, a lost place, restores in every disorder, then the demand that one of them succeeds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from sparklog.core.types import StoreId
from sparklog.storage.keys import INCARNATION
from tests.sim.restores import actors, restorers
from tests.sim.restores.chains import NobodyCanKnow
from tests.sim.restores.restorers import OPTIONS, Attempt, Run, advised
from tests.sim.restores.scheduler import Process
from tests.sim.restores.stores import Place
from tests.sim.restores.world import World

GENERATIONS = 4
WORK_STEPS = 900
RESTORE_STEPS = 1_500
PATIENCE_STEPS = 40_000  # in which a restore must end, once nothing goes wrong any more
_LIVES = re.compile(r"is not lost: an earlier restore has begun it at (?P<url>\S+),")


def play(world: World) -> None:
    """Several generations of one cluster."""
    url = world.begin()
    for number in range(GENERATIONS):
        url = _Generation(world, url, number).run()


class _Generation:
    def __init__(self, world: World, url: str, number: int) -> None:
        self.world, self.url, self.number = world, url, number
        self.dice = world.dice
        self.chain = world.history.current
        self.runs: list[Run] = []
        self.processes: list[Process] = []
        self.fates: list[str] = []

    def run(self) -> str:
        """Returns the address of the cluster that lives in the end."""
        world, dice = self.world, self.dice
        world.note("!", "generation", self.number, "of", self.chain[:8], "at", self.url)
        self._people(3)
        enough = len(world.history.acks) + dice.randrange(4, 16)
        world.fault_rate = world.shape.fault_rate
        world.scheduler.run(lambda: len(world.history.acks) >= enough, WORK_STEPS)
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            self._damage()
            world.scheduler.run(lambda: False, dice.randrange(1, 200))
        if dice.random() < 0.5:
            self._people(1)
        self._lose_place()
        self._restores()
        self._insist()
        self._settle_down()
        return world.history.url_of[world.history.current]

    # ---- who acts -------------------------------------------------------------------------------

    def _people(self, writers: int) -> None:
        world, dice = self.world, self.dice
        for _ in range(writers):
            writes = dice.choice((2, 8, 25))
            dies_at = dice.randrange(5, 200) if dice.random() < 0.25 else None
            self.processes.append(
                world.spawn(
                    f"g{self.number}-writer",
                    lambda process, writes=writes: actors.writer(world, process, self.url, writes),  # type: ignore[misc]
                    dies_at=dies_at,
                )
            )
        moves = dice.choice((3, 6, 12))
        self.processes.append(
            world.spawn(f"g{self.number}-operator", lambda process: actors.operator(world, process, self.url, moves))
        )

    # ---- what goes wrong ------------------------------------------------------------------------

    def _stores(self) -> dict[str, Place]:
        """The stores that the cluster has by now, by id."""
        history = self.world.history
        state = history.model(self.chain, history.end(self.chain)).state
        return {str(store.store): self.world.stores[store.url] for store in state.stores.values()}

    def _is_there(self, name: str, n: int | None = None) -> bool:
        """Whether a restore will find the store as it is registered, by the state after entry `n`, or the last one."""
        history = self.world.history
        stores = history.model(self.chain, history.end(self.chain) if n is None else n).state.stores
        registered = stores.get(StoreId(name))
        if registered is None:
            return True
        body = self.world.stores[registered.url].bodies.get(INCARNATION)
        return body is not None and registered.incarnation.encode() in body

    def _damage(self) -> None:
        world, dice = self.world, self.dice
        name, store = dice.choice(sorted(self._stores().items()))
        match dice.choice(("silent", "silent-for-one", "wiped", "set-back", "set-back", "flipped")):
            case "silent" as kind:
                store.silent_to_ms = world.scheduler.now_ms + dice.randrange(1_000, 20_000)
                store.silent_for = None
            case "silent-for-one" as kind:
                store.silent_to_ms = world.scheduler.now_ms + dice.randrange(1_000, 60_000)
                store.silent_for = frozenset({dice.choice(self.processes).name})
            case "wiped" as kind:
                store.wipe()
            case "set-back" as kind:
                if not store.set_back(dice):
                    return
            case kind:
                key = store.flip(dice)
                if key is None:
                    return
                kind = "flipped"
                world.note("!", "a byte is flipped", key)
        world.count(kind)
        world.note("!", kind, name)

    def _lose_place(self) -> None:
        """What becomes of the metadata's place: often it is only the operator who can't reach it."""
        world, dice = self.world, self.dice
        place = world.places[self.url]
        self.fate = dice.choice(("cut-off", "cut-off", "cut-off", "lost", "down", "wiped"))
        if self.fate in ("lost", "down"):
            place.is_gone = True
            place.hidden_from = {"restorer"}
        elif self.fate == "wiped":
            place.wipe()
            place.hidden_from = {f"g{number}-" for number in range(self.number + 1)}
        else:
            place.hidden_from = {"restorer"}
        world.count(f"place-{self.fate}")
        world.note("!", "place", self.fate, self.url)

    # ---- restores -------------------------------------------------------------------------------

    def _restores(self) -> None:
        world, dice = self.world, self.dice
        attempts = [self._attempt()]
        for _ in range(dice.choice((1, 1, 2, 3))):
            if dice.random() < 0.5:
                attempts.append(self._attempt(attempts))
            for _ in range(dice.choice((1, 1, 2))):
                mortal = dice.random()
                self.runs.append(
                    restorers.begin(
                        world,
                        dice.choice(attempts),
                        dies_at=int(10 ** dice.uniform(0.3, 2.6)) if mortal < 0.2 else None,
                        dies_at_put=dice.randrange(2, 22) if 0.2 <= mortal < 0.6 else None,
                        dies_once_begun=0.6 <= mortal < 0.9,
                        dry_run=dice.random() < 0.05,
                    )
                )
            until = dice.choice((30, 200, RESTORE_STEPS))
            world.scheduler.run(lambda: all(run.fiber.done for run in self.runs), until)
            if self.fate == "down" and dice.random() < 0.5:
                world.places[self.url].is_gone = False
                world.count("place-back")
            if dice.random() < 0.3:
                self._damage()
        if len([run for run in self.runs if not run.fiber.done]) > 1:
            world.count("restores-at-once")

    def _attempt(self, others: Sequence[Attempt] = ()) -> Attempt:
        """Arguments as an operator may choose them: which stores there are, he knows from a while ago."""
        world, dice = self.world, self.dice
        stores = self._stores()
        url = dice.choice(others).url if others and dice.random() < 0.5 else world.new_place()
        if self.fate == "wiped" and dice.random() < 0.6:
            url = self.url
        dead = [name for name in stores if not self._is_there(name)]
        wrongly = [name for name in stores if name not in dead and dice.random() < 0.12]
        without = sorted({*dead, *wrongly})
        left = sorted(set(stores) - set(without)) or sorted(stores)
        names = left if dice.random() < 0.5 else sorted(dice.sample(left, dice.randrange(1, len(left) + 1)))
        if wrongly and set(without) < set(stores):
            world.count("wrongly-without")
        options = {}
        if "take_over" in OPTIONS and dice.random() < 0.3:
            options["take_over"] = True
        if "accept_loss" in OPTIONS and dice.random() < 0.1:
            options["accept_loss"] = True
        return Attempt(url, {name: stores[name].url for name in names}, tuple(without), options)

    # ---- nobody is locked out -------------------------------------------------------------------

    def _insist(self) -> None:
        """Nothing goes wrong any more: now a restore must succeed, if there is anything to restore from (P4)."""
        world = self.world
        world.note("!", "all is well again")
        world.fault_rate = 0.0
        for run in self.runs:
            world.kill(run.process)
        for store in [*world.stores.values(), *world.places.values()]:
            store.silent_to_ms = 0
        tried: list[str] = []
        for attempt in self._last_attempts():
            self._try(attempt, tried)
            if world.history.current != self.chain:
                return
        whole = self._whole()
        if whole:
            tries = "\n    ".join(tried)
            world.broken(f"P4: nobody can restore {self.chain[:8]}, of which {whole}:\n    {tries}")
        world.count("beyond-restore")
        raise _Beyond

    def _try(self, attempt: Attempt, tried: list[str]) -> None:
        """Run a restore, and again as the refusal advises, until it succeeds or there is no new advice."""
        world = self.world
        seen: set[str] = set()
        while str(attempt) not in seen and world.history.current == self.chain:
            seen.add(str(attempt))
            run = restorers.begin(world, attempt)
            world.scheduler.run(lambda run=run: run.fiber.done, PATIENCE_STEPS)  # type: ignore[misc]
            if not run.fiber.done:
                world.broken(f"P4: {run.process.name} does not end: {attempt}")
            if run.error is None:
                return
            tried.append(f"{attempt}: {run.error.message}")
            if (there := _LIVES.search(run.error.message)) is not None:
                self._use(there["url"])
            attempt = advised(attempt, run.error.message, self._is_known_there)

    def _use(self, url: str) -> None:
        """Write to the cluster that lives at `url`, as a refusal says: then it is there, as after a success."""
        world = self.world
        world.spawn("finder", lambda process: actors.writer(world, process, url, 1))
        world.scheduler.run(lambda: world.history.current != self.chain, PATIENCE_STEPS)

    def _is_known_there(self, name: str) -> str | None:
        """The address of a store that is there, as the operator knows."""
        place = self.world.known.get(name)
        if place is None or (name in self._stores() and not self._is_there(name)):
            return None
        return place.url if INCARNATION in place.bodies else None

    def _last_attempts(self) -> Iterator[Attempt]:
        """What was tried before, the newest first; then everything that an operator who knows all could try."""
        before = list(dict.fromkeys(run.attempt for run in reversed(self.runs)))
        yield from before
        urls = [*dict.fromkeys(attempt.url for attempt in before), self.world.new_place()]
        options: list[dict[str, bool]] = [{}, {"take_over": True}, {"accept_loss": True}]
        options.append({"take_over": True, "accept_loss": True})
        for chosen in (each for each in options if each.keys() <= OPTIONS):
            for url in urls:
                sources, dead = self._known_to_all()
                yield Attempt(url, sources, dead, chosen)
                for name, address in sources.items():
                    yield Attempt(url, {name: address}, dead, chosen)

    def _known_to_all(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The stores that are there, and the names of those that are not."""
        stores = self._stores()
        dead = tuple(sorted(name for name in stores if not self._is_there(name)))
        return {name: store.url for name, store in stores.items() if name not in dead}, dead

    def _whole(self) -> str:
        """Why a restore must be possible; empty if there may be no way."""
        history = self.world.history
        there = {name: store for name, store in self._stores().items() if self._is_there(name)}
        ends = {name: history.whole_to(store, self.chain) for name, store in there.items()}
        if "accept_loss" in OPTIONS:
            copied = [name for name, end in ends.items() if end >= 0]
            together = [each for size in range(1, len(copied) + 1) for each in combinations(copied, size)]
            own = [each for each in together if all(self._is_there(name, max(ends[n] for n in each)) for name in each)]
            return f"{own[-1]} have copies, up to {ends}, and are in the lives that these know" if own else ""
        newest = max((ack.n for ack in history.acks if ack.chain == self.chain), default=0)
        whole = [name for name, end in ends.items() if end >= newest]
        return f"{whole} have everything up to entry {newest}" if whole else ""

    def _settle_down(self) -> None:
        world, dice = self.world, self.dice
        for store in world.stores.values():
            store.silent_to_ms = 0
        place = world.places[self.url]
        place.hidden_from &= {"restorer"}
        if self.fate == "down" and place.is_gone:
            place.is_gone = False
            world.count("place-back")
        world.scheduler.run(lambda: False, dice.choice((50, 300, 900)))
        old = [f for f in world.scheduler.fibers if f.process.name.startswith(f"g{self.number - 2}-")]
        for fiber in old:
            world.kill(fiber.process)


class _Beyond(Exception):
    """More was lost than a restore can bring back: the end of this world, and no promise is broken."""


class Played(World):
    """A world in which all this happens."""

    def run(self) -> None:
        self.play(_played)


def _played(world: World) -> None:
    try:
        play(world)
    except _Beyond:
        pass
    except NobodyCanKnow:
        world.count("nobody-can-know")
