"""From a seed whose history breaks a promise to a short one: without the steps that it does not need."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tests.guards.guard import Guard
from tests.maintenance.histories.history import History
from tests.sim.missing_guards import missing

TRIES = 60
SHOWN = 60  # lines of the trace


@dataclass(frozen=True)
class Finding:
    """A broken promise: in which history, and what was found."""

    seed: int
    without: frozenset[int]
    message: str
    history: History
    where: str

    @property
    def check(self) -> str:
        """The number of the check, or the kind of the error."""
        return self.message.partition(":")[0]

    def lines(self) -> Iterator[str]:
        """What was found, and the history."""
        yield f"seed {self.seed} without {sorted(self.without)}: {self.message}"
        yield f"{self.history.shape}"
        yield from self.history.trace[-SHOWN:]
        yield self.where


def finding(seed: int, *, without: Collection[int] = ()) -> Finding | None:
    """Play a history; None if it keeps its promises."""
    history = History(seed, without=without)
    try:
        history.run()
    except Exception as error:  # an error that no step expects is a finding too
        what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return Finding(seed, frozenset(without), what, history, traceback.format_exc())
    return None


def shrunk(found: Finding, tries: int = TRIES) -> Finding:
    """Leave out steps in bunches, then one by one, as long as the same check still finds it."""
    count = len(found.history.steps)
    bunch = count // 2
    while bunch:
        for low in range(0, count, bunch):
            part = set(range(low, min(low + bunch, count)))
            if tries and not found.without.issuperset(part):
                tries -= 1
                again = finding(found.seed, without=found.without | part)
                if again is not None and again.check == found.check:
                    found = again
        bunch //= 2
    return found


def seed_for(guard: Guard, seeds: Iterable[int]) -> Finding | None:
    """The first history that breaks a promise without the guard."""
    with missing(guard):
        return next((found for seed in seeds if (found := finding(seed)) is not None), None)
