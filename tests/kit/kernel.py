"""What seeded simulations share: dice, a trace, the report of a broken promise, shrinking, and runs of many seeds.

world = World(7)                       # a Simulation: all that happens follows from the seed
with reported(world):                  # a failure names the seed and tells the history, shrunk if it has parts
    world.run()
counts_of(map(World, range(9)))        # the same for some seeds: what was met
finding(World(7))                      # None, or what went wrong
campaign(seeds_of("1000-"), World)     # world after world, from the command line
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from sparklog.core.errors import SparklogError

T = TypeVar("T")
S = TypeVar("S", bound="Simulation")

ROOT = Path(__file__).parents[2]
TRIES = 60  # of shrinking
SHOWN = 60  # lines of the trace


# ---- dice ---------------------------------------------------------------------------------------


def own_dice(seed: int, name: str) -> random.Random:
    """Dice of their own for a part of a run: what they fall is the same whatever other parts do."""
    return random.Random(f"{seed}/{name}")


def weighted(dice: random.Random, choices: Sequence[tuple[float, T]]) -> T:
    """One of these, which are given with their weights."""
    (chosen,) = dice.choices([each for _, each in choices], [weight for weight, _ in choices])
    return chosen


@dataclass
class SeededDice:
    """`sparklog.host.dice.Dice` for the code under test."""

    random: random.Random = field(default_factory=lambda: random.Random(1))

    def new_id(self) -> str:
        return f"{self.random.getrandbits(128):032x}"

    def jittered(self, longest: float) -> float:
        return longest

    def below(self, end: int) -> int:
        return self.random.randrange(end)


# ---- one run ------------------------------------------------------------------------------------


class Simulation:
    """One run, which follows from its seed. `without`: parts that are left out.

    `trace` is what happened, `counts` what was met, `steps` how far it came.
    """

    def __init__(self, seed: int, *, without: Collection[object] = ()) -> None:
        self.seed = seed
        self.without = frozenset(without)
        self.trace: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.steps = 0

    def run(self) -> None:
        """Let everything happen. Raises AssertionError if a promise is broken."""
        raise NotImplementedError

    def once_more(self, without: Collection[object]) -> Simulation:
        """The same run, to be made again without these parts."""
        return type(self)(self.seed, without=without)

    def parts(self) -> Iterable[Collection[object]]:
        """What may be left out, in bunches: large ones first."""
        return ()

    def shown(self) -> str:
        """What kind of run it is."""
        return ""

    def story(self) -> Iterable[str]:
        """The end of the trace, for people."""
        return [str(each) for each in self.trace[-SHOWN:]]

    def trace_hash(self) -> str:
        """One number for all that happened."""
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()


class RandomSteps(Simulation):
    """A run of `length` random steps, and then `end`. Its `dice` choose."""

    length = 100

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dice = random.Random(seed)

    def run(self) -> None:
        for _ in range(self.length):
            self.steps += 1
            self.step()
        self.end()

    def step(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """What is to be once nothing happens any more."""

    def act(self, choices: Sequence[tuple[float, Callable[[], object]]]) -> bool:
        """Do one of these, which are given with their weights. Counted by its name, a refusal by its code: False."""
        action = weighted(self.dice, choices)
        code = action.__code__
        self.trace.append(f"{self.steps:>5} {code.co_name}, line {code.co_firstlineno}")
        try:
            action()
        except SparklogError as error:
            self.trace.append(f"          {error}")
            self.counts[error.code] += 1
            return False
        self.counts[code.co_name] += 1
        return True


def trace_hashes_elsewhere(module: str, *seeds: int) -> list[str]:
    """`trace_hash` of a module for each seed, after its `prepare`, in a process in which sets have another order."""
    code = f"""
import pytest
from {module} import prepare, trace_hash
with pytest.MonkeyPatch.context() as patch:
    prepare(patch)
    for seed in {seeds}:
        print(trace_hash(seed))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.split()


# ---- broken promises ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding(Generic[S]):
    """A broken promise, or an error that nobody expects."""

    run: S
    message: str
    where: str

    @property
    def check(self) -> str:
        """The number of the check, or the kind of the error."""
        return self.message.partition(":")[0]

    def lines(self) -> Iterator[str]:
        """What was found, and the history."""
        without = f" without {sorted(map(str, self.run.without))}" if self.run.without else ""
        yield f"seed {self.run.seed}{without}, step {self.run.steps}: {self.message}"
        yield self.run.shown()
        yield from self.run.story()
        yield self.where


def found_in(run: S, error: Exception) -> Finding[S]:
    message = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    return Finding(run, message, "".join(traceback.format_exception(error)))


def finding(run: S) -> Finding[S] | None:
    """Let it run; None if it keeps its promises."""
    try:
        run.run()
    except Exception as error:
        return found_in(run, error)
    return None


def bunches(items: Sequence[object], first: int, by: int) -> Iterator[Collection[object]]:
    """Parts of `first` items, then of fewer and fewer, down to single ones."""
    while first:
        yield from (items[low : low + first] for low in range(0, len(items), first))
        first //= by


def shrunk(found: Finding[Any], tries: int = TRIES) -> Finding[Any]:
    """Leave out part after part, as long as the same check still finds it."""
    for part in found.run.parts():
        if tries and not found.run.without.issuperset(part):
            tries -= 1
            again = finding(found.run.once_more(found.run.without.union(part)))
            if again is not None and again.check == found.check:
                found = again
    return found


def report(found: Finding[Any]) -> str:
    """A finding for people, as short as it gets. A run without parts is not made again."""
    if not [*found.run.parts()]:
        return "\n".join(found.lines())
    again = finding(found.run.once_more(found.run.without))
    return "\n".join(shrunk(again).lines() if again else ["and not again: it is not deterministic", *found.lines()])


@contextmanager
def reported(run: Simulation) -> Iterator[None]:
    """What goes wrong in the block is reported as that of this run."""
    try:
        yield
    except Exception as error:
        raise AssertionError(report(found_in(run, error))) from error


def played(run: S) -> S:
    """The run, at its end."""
    with reported(run):
        run.run()
    return run


def counts_of(runs: Iterable[Simulation]) -> Counter[str]:
    """What was met in all these runs."""
    return sum((played(run).counts for run in runs), Counter())


# ---- many runs ----------------------------------------------------------------------------------


def seeds_of(text: str) -> range:
    """A-B: from A to before B; A-: from A on."""
    first, _, last = text.partition("-")
    return range(int(first), int(last) if last else 1 << 60)


def arguments(module: str, description: str | None) -> argparse.ArgumentParser:
    """Those of every campaign."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--seeds", default="1000-", help="A-B: from A to before B; A-: from A on")
    parser.add_argument("--seconds", type=float, default=120, help="stop after so long")
    return parser


def campaign(
    seeds: range,
    new: Callable[[int], Simulation],
    *,
    seconds: float,
    is_enough: Callable[[Counter[str]], bool] = lambda counts: False,
    goes_on: bool = False,
) -> int:
    """Run after run, until the time is over, it is enough, or a promise is broken. Prints what was met.

    Returns the exit code: 1 if a promise was broken.
    """
    counts: Counter[str] = Counter()
    began_s = time.monotonic()
    runs = broken = 0
    for seed in seeds:
        if is_enough(counts) or time.monotonic() - began_s >= seconds:
            break
        run = new(seed)
        found = finding(run)
        if found is not None:
            broken += 1
            print(f"seed {seed} breaks a promise: {found.message}", flush=True)
            if not goes_on:
                print(report(found))
                return 1
        counts.update(run.counts)
        counts.update({"steps": run.steps} if run.steps else {})
        runs += 1
    took_s = time.monotonic() - began_s
    print(f"{runs:,} seeds from {seeds.start} on: {broken or 'no'} promises broken, {took_s:.0f} s")
    print(", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())))
    return 1 if broken else 0
