"""`make sim`: world after world, seed by seed, until the time is over or a promise is broken."""

from __future__ import annotations

import sys

import pytest

from tests.guards.guard import Guard
from tests.kit.kernel import Finding, arguments, campaign, finding, seeds_of
from tests.sim.missing_guards import BY_NAME, missing
from tests.sim.world import World, new_world, prepare

SIMULATED = (
    "sparklog/agent/",
    "sparklog/chain/",
    "sparklog/client/commits/delivery.py",
    "sparklog/coordinator/",
    "sparklog/core/",
    "sparklog/log/",
)


def main() -> int:
    """Run the worlds, print what was met; 1 if a promise was broken."""
    parser = arguments("tests.sim", __doc__)
    parser.add_argument("--steps", type=int, default=1 << 60, help="stop after so many steps")
    parser.add_argument("--guards", metavar="WORD,…", help="search seeds for guards with such names")
    given = parser.parse_args()
    seeds = seeds_of(given.seeds)
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        if given.guards is not None:
            return _search(given.guards, seeds[:12])
        return campaign(seeds, new_world, seconds=given.seconds, is_enough=lambda met: met["steps"] >= given.steps)


def _search(word: str, seeds: range) -> int:
    """Print, for each guard, what `seen_guards.py` says of it."""
    for name, guard in BY_NAME.items():
        if any(each in name for each in word.split(",")) and guard.file.startswith(SIMULATED):
            found = _seed_for(guard, seeds)
            steps = 0 if found is None else found.run.steps + 100
            seen = "not seen" if found is None else f"Seen({found.run.seed}, {steps}),  # {found.message}"
            print(f'    "{name}": {seen[:160]}'.replace("\n", " "), flush=True)
    return 0


def _seed_for(guard: Guard, seeds: range, enough: int = 9_000) -> Finding[World] | None:
    """The finding with the fewest steps among these seeds; the first one within `enough` steps ends the search."""
    best: Finding[World] | None = None
    with missing(guard):
        for seed in seeds:
            found = finding(new_world(seed, most_steps=best.run.steps if best else 1 << 40))
            if found is not None and (best is None or found.run.steps < best.run.steps):
                best = found
            if best is not None and best.run.steps <= enough:
                break
    return best


if __name__ == "__main__":
    sys.exit(main())
