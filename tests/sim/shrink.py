"""From a seed that breaks a promise to a short history: without the incidents and processes that it does not need."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tests.sim.world import World, new_world

TRIES = 60
SHOWN = 60  # lines of the history

DROPPED_AT_ONCE = 16  # incidents, at first


@dataclass(frozen=True)
class Finding:
    """A broken promise: in which world, and after how many steps."""

    seed: int
    without: frozenset[object]
    message: str
    steps: int
    world: World

    @property
    def check(self) -> str:
        """The number of the check, or the kind of the error."""
        return self.message.partition(":")[0]

    def lines(self) -> Iterator[str]:
        """The history, shortly: what went wrong, what was committed, who was told what."""
        yield f"seed {self.seed} without {sorted(map(str, self.without))}: {self.message}"
        yield f"{self.world.shape}, {self.steps} steps"
        told = [line for line in self.world.trace if _matters(line)]
        for at_ms, *what in told[-SHOWN:]:
            yield f"{at_ms:>8} " + " ".join(str(word)[:200] for word in what)


def _matters(line: tuple[object, ...]) -> bool:
    return line[1] in ("!", "=") or line[2] in ("is told", "refused", "misses", "read failed")


def finding(seed: int, *, without: Collection[object] = (), most_steps: int = 1 << 40) -> Finding | None:
    """Run a world; None if it keeps its promises for so many steps."""
    world = new_world(seed, without=frozenset(without))
    try:
        world.run(most_steps)
    except Exception as error:  # an error that no task expects is a finding too
        what = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return Finding(seed, frozenset(without), what, world.steps, world)
    return None


def shrunk(found: Finding, tries: int = TRIES) -> Finding:
    """Drop incidents in bunches, then one by one, then processes, as long as the same check still finds it."""
    names = [process.name for process in found.world.processes if not process.name.startswith("agent")]
    happened = sorted({line[3] for line in found.world.trace if line[1] == "!" and len(line) > 3}, key=str)
    incidents = [number for number in happened if isinstance(number, int)]
    bunch = DROPPED_AT_ONCE
    parts: list[list[object]] = []
    while bunch:
        parts += [list(incidents[low : low + bunch]) for low in range(0, len(incidents), bunch)]
        bunch //= 4
    parts += [[name] for name in names]
    for part in parts:
        if tries == 0 or found.without.issuperset(part):
            continue
        tries -= 1
        again = finding(found.seed, without=found.without.union(part), most_steps=found.steps * 2)
        if again is not None and again.check == found.check:
            found = again
    return found
