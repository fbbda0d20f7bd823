"""One round: a cluster at work, whose stores come and go, loses its metadata, and is restored while the old one lives.

What happens is drawn from a seed; what the processes make of it is not. At most one store is hurt (lost, or set back),
and only where two have copies of everything: then nothing that was acknowledged may be missing.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.restores.crowd import Crowd
from tests.restores.forks import Forked, Forks
from tests.restores.promises import broken, unforeseen
from tests.restores.round_places import STORES, MetadataFolder, RoundPlaces
from tests.soak.journal import Line
from tests.soak.writer import PARTITIONS, TOPIC

WRITERS = ("plain", "application", "producer", "embedded")
SESSION_MS, LAG_MS = 3_000, 2_000
HOW = ("lost", "cut off", "comes back")
MOST_STEPS = 60  # more than a restore changes


@dataclass
class Round:
    """One round. `history` says what happened, and when."""

    forks: Forks
    places: RoundPlaces
    seed: int
    history: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.copies = self.dice.choice((1, 2))
        self.hurt: str | None = None
        self.is_lost = False  # the store that is hurt
        self.backups: dict[str, set[str]] = {}
        self.added: list[str] = []
        self.fenced: set[str] = set()
        self.names = 0
        self._began = time.monotonic()
        (self.folder / "said").mkdir(parents=True)

    @property
    def folder(self) -> Path:
        return self.places.folder

    def say(self, what: str) -> None:
        self.history.append(f"{time.monotonic() - self._began:6.2f} s  {what}")

    def run(self) -> list[str]:
        """Let it happen. Returns what is wrong."""
        crowd = self._created()
        writers: dict[str, list[Line]] = {}
        restored_at: dict[str, int] = {}
        crowds = [crowd]
        try:
            for generation in range(1 + (self.dice.random() < 0.25)):
                self._at_work(crowd)
                place = self._lost(crowd) if generation == 0 else self._lost_for_good(crowd)
                new = self._restored(crowd, place, generation)
                crowds.append(new)
                restored_at.update(self._over(crowd))
                self._new_life(new)
                crowd = new
            crowd.stop_writers()
        except AssertionError as error:
            return [str(error), *unforeseen(self.folder / "said")]
        finally:
            for each in crowds:
                each.kill()
        for each in crowds:
            writers.update({name: each.lines(name) for name in each.writers})
        return [
            *broken(crowd.url, writers, restored_at, {*STORES, *self.added}, self.counts),
            *unforeseen(self.folder / "said"),
        ]

    # ---- before ---------------------------------------------------------------------------------

    def _created(self) -> Crowd:
        crowd = Crowd(self.forks, self.folder, str(self.folder / "meta"), "0")
        MetadataFolder.create(self.folder / "meta")
        stores = [part for name in STORES for part in ("--store", f"{name}={self.places.address(name)}")]
        config = {
            "metadata.copies": self.copies,
            "broker.session.timeout.ms": SESSION_MS,
            "replica.lag.time.max.ms": LAG_MS,
        }
        options = [part for key, value in config.items() for part in ("--cluster-config", f"{key}={value}")]
        self._done(crowd, "cluster", "init", *stores, *options)
        topic = ["--partitions", str(PARTITIONS), "--replication-factor", "3", "--topic-config", "retention.ms=-1"]
        self._done(crowd, "topic", "create", TOPIC, *topic, "--topic-config", "min.insync.replicas=2")
        kinds = self.dice.sample(WRITERS, 2)
        self.say(f"metadata.copies={self.copies}; {STORES} at {self.places.roots}; {', '.join(kinds)}")
        if self.dice.random() < 0.4:
            crowd.serve("coordinator", "coordinator")
            self.say("a coordinator")
        for store in STORES:
            if self.dice.random() < 0.4:
                crowd.serve(f"agent-{store}", "agent", "--store", store)
                self.say(f"an agent of {store}")
        for kind in kinds:
            crowd.write(kind)
        self._appends(crowd, 1)
        return crowd

    def _at_work(self, crowd: Crowd) -> None:
        """Some things happen while everybody writes."""
        for _ in range(self.dice.randrange(4)):
            self.dice.choice((self._add, self._add, self._remove, self._fence_and_add, self._kill_one, self._back_up))(
                crowd
            )
            self._appends(crowd, self.dice.randrange(3))
        if self.copies == 2 and self.hurt is None and self.dice.random() < 0.5:
            self._hurt(crowd)
            self._appends(crowd, self.dice.randrange(3))
        listed = self._done(crowd, "store", "list", "--format", "json")
        self.added = [each["store"] for each in json.loads(listed) if each["store"] not in STORES]

    def _add(self, crowd: Crowd) -> None:
        self.names += 1
        name = f"{self.dice.choice('az')}{self.names}"
        code, said = crowd.command("store", "add", f"{name}={self.places.address(name)}")
        self._told(f"store add {name}", code, said)
        if code == 0:
            self.added.append(name)

    def _remove(self, crowd: Crowd) -> None:
        if self.added:
            name = self.dice.choice(self.added)
            self._told(f"store remove {name}", *crowd.command("store", "remove", name))

    def _fence_and_add(self, crowd: Crowd) -> None:
        name = self.dice.choice(STORES)
        if name == self.hurt:
            return
        self._told(f"store fence {name}", *crowd.command("store", "fence", name))
        self._told(f"store add {name}", *crowd.command("store", "add", f"{name}={self.places.address(name)}"))
        self._caught_up(crowd, name)

    def _caught_up(self, crowd: Crowd, name: str) -> None:
        """The store has everything, and is in sync. Its agent ends when it is fenced."""
        agent = crowd.running.get(f"agent-{name}-{crowd.name}")
        if agent is not None:
            agent.kill()
        with crowd.paused(*crowd.writers):  # it goes on as long as somebody writes faster than it copies
            self._done(crowd, "agent", "--store", name, "--once")
        if agent is not None:
            crowd.serve(f"agent-{name}", "agent", "--store", name)

    def _kill_one(self, crowd: Crowd) -> None:
        name = self.dice.choice(list(crowd.writers))
        crowd.kill(name)
        crowd.write(crowd.writers[name])
        self.say(f"{name} is killed, and started again")

    def _back_up(self, crowd: Crowd) -> None:
        name = self.dice.choice(STORES)
        self.backups[name] = self.places.keys(name)
        self.say(f"a backup of {name}")

    def _hurt(self, crowd: Crowd) -> None:
        """A store is lost, or set back to a backup. Nobody runs meanwhile: it takes longer than on a real store."""
        for name in STORES:
            self._caught_up(crowd, name)  # two stores have everything once the third is hurt
        self.hurt = self.dice.choice([*self.backups] or STORES)
        self.is_lost = self.hurt not in self.backups
        with crowd.paused():
            gone = self.places.put_back(self.hurt, self.backups.get(self.hurt, set()))
        self.say(f"{self.hurt} is {'lost' if self.is_lost else 'set back'}: {gone} objects are gone")

    # ---- the metadata is lost -------------------------------------------------------------------

    def _lost(self, crowd: Crowd) -> MetadataFolder | None:
        """The place of the metadata is lost, or cut off. Returns it if it comes back."""
        place = MetadataFolder(Path(crowd.url))
        how = self.dice.choice(HOW)
        self.say(f"the metadata is: {how}")
        if how != "cut off":
            place.lose()
        return place if how == "comes back" else None

    def _lost_for_good(self, crowd: Crowd) -> None:
        """The place of a restored cluster is lost. A restore looks there, whether it is."""
        self.say("the metadata is lost again")
        crowd.kill()  # else they would begin it again
        self.places.put_back(crowd.url.rpartition("/")[2], set())

    def _restored(self, crowd: Crowd, comes_back: MetadataFolder | None, generation: int) -> Crowd:
        """Restorers, of which some die, until one has succeeded. Returns the cluster that it made."""
        urls = [self.places.address(f"new-{generation}-{number}") for number in range(2)]
        for _ in range(self.dice.randrange(4)):
            begun = [self._restorer(crowd, urls) for _ in range(self.dice.choice((1, 1, 2)))]
            if comes_back is not None and self.dice.random() < 0.5:
                comes_back.bring_back()
                self.say("the metadata is back")
                comes_back = None
            if self.dice.random() < 0.3:
                self._add(crowd)
            for url, forked in begun:
                self._told(f"restore to {url}", forked.wait(), forked.said.read_text())
        url = self._at_last(crowd, urls)
        if comes_back is not None:
            comes_back.bring_back()
            self.say("the metadata is back")
        other = next(each for each in urls if each != url)
        code, said = crowd.command(*self._arguments(other, self._live()), "--take-over")
        self._told(f"restore to {other} after all", code, said)
        if code == 0:
            raise AssertionError(f"a restore to {other} succeeded, although the cluster lives at {url}")
        return Crowd(self.forks, self.folder, url, str(generation + 1))

    def _restorer(self, crowd: Crowd, urls: list[str]) -> tuple[str, Forked]:
        """Start a restorer: of some stores or all, to a place, and perhaps it dies."""
        url = urls[self.dice.random() < 0.2]
        step = self.dice.choice((-1, self.dice.randrange(MOST_STEPS), self.dice.randrange(MOST_STEPS // 3)))
        live = self._live()
        given = live if self.dice.random() < 0.5 else self.dice.sample(live, self.dice.randint(1, len(live)))
        options = [option for option in ("--dry-run", "--take-over") if self.dice.random() < 0.1]
        dies = f", dies at change {step}" if step >= 0 else ""
        self.say(f"a restorer from {', '.join(given)} to {' '.join((url, *options))}{dies}")
        return url, Crowd.begin(crowd, "mortal", step, *self._arguments(url, given), *options)

    def _at_last(self, crowd: Crowd, urls: list[str]) -> str:
        """Restore from all that is there: to the first place, or to the one where a restore has begun."""
        said = ""
        for url, *options in ((urls[0],), (urls[1],), (urls[0], "--take-over")):
            code, said = crowd.command(*self._arguments(url, self._live()), *options)
            self._told(f"restore to {' '.join((url, *options))} at last", code, said)
            if code == 0:
                return url
        raise AssertionError(f"no restore succeeds, although the fault is over: {said}")

    def _arguments(self, url: str, given: list[str]) -> list[str]:
        sources = [part for name in given for part in ("--from", f"{name}={self.places.address(name)}")]
        without = ["--without", self.hurt] if self.hurt is not None and self.is_lost else []
        return ["--cluster", url, "cluster", "restore", *sources, *without]

    def _live(self) -> list[str]:
        return [name for name in (*STORES, *self.added) if not (name == self.hurt and self.is_lost)]

    def _over(self, crowd: Crowd) -> dict[str, int]:
        """When the first restore had succeeded, for each old writer, all of which have tried to write since."""
        at = crowd.restored_at()
        if at is None:
            raise AssertionError("wanted a restore that succeeded, found none")
        for name in crowd.writers:
            crowd.until(partial(crowd.has_tried_since, name, at), f"{name} has tried again")
        return dict.fromkeys(crowd.writers, at)

    # ---- after ----------------------------------------------------------------------------------

    def _new_life(self, crowd: Crowd) -> None:
        """The restored cluster is written to."""
        for store in STORES:
            if store in self._live():
                crowd.serve(f"agent-{store}", "agent", "--store", store)
        for kind in self.dice.sample(WRITERS, 2):
            crowd.write(kind)
        self._appends(crowd, 2)

    def _appends(self, crowd: Crowd, more: int) -> None:
        """Wait until each writer had so many more appends acknowledged."""
        if more:
            wanted = {name: crowd.acknowledged(name) + more for name in crowd.writers}
            done: Callable[[], bool] = lambda: all(crowd.acknowledged(name) >= count for name, count in wanted.items())  # noqa: E731
            crowd.until(done, f"each writer had {more} more appends acknowledged")

    def _done(self, crowd: Crowd, *argv: str) -> str:
        code, said = crowd.command(*argv)
        if code != 0:
            raise AssertionError(f"{' '.join(argv)} ended with {code}: {said}")
        return said

    def _told(self, what: str, code: int, said: str) -> None:
        self.counts[f"{what.split()[0]}: {code}"] += 1
        line = said.strip().splitlines()[-1:] if code > 0 else []
        self.say(f"{what}: {'killed' if code < 0 else f'exit {code}'}{''.join(f': {each[:400]}' for each in line)}")
