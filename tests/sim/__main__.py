"""`make sim`: world after world, seed by seed, until the time is over or a promise is broken."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import pytest

from tests.sim.faults import KINDS
from tests.sim.missing_guards import BY_NAME, seed_for
from tests.sim.shrink import finding, shrunk
from tests.sim.world import new_world, prepare

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
    parser = argparse.ArgumentParser(prog="make sim", description=__doc__)
    parser.add_argument("--seeds", default="1000-", help="A-B: from A to before B; A-: from A on")
    parser.add_argument("--seconds", type=float, default=120, help="stop after so long")
    parser.add_argument("--steps", type=int, default=1 << 60, help="stop after so many steps")
    parser.add_argument("--guards", metavar="WORD,…", help="search seeds for guards with such names")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seed, end = int(first), int(last) if last else 1 << 60
    if arguments.guards is not None:
        return _search(arguments.guards, range(seed, min(end, seed + 12)))
    counts: Counter[str] = Counter()
    steps = 0
    began_s = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        while seed < end and steps < arguments.steps and time.monotonic() - began_s < arguments.seconds:
            world = new_world(seed)
            try:
                world.run()
            except Exception as error:
                print(f"seed {seed} breaks a promise after {world.steps} steps: {error}\nshrinking …", flush=True)
                broken = finding(seed)
                print(
                    *(shrunk(broken).lines() if broken else ["and not again: the world is not deterministic"]), sep="\n"
                )
                return 1
            counts += world.faults.counts
            steps += world.steps
            seed += 1
    took_s = time.monotonic() - began_s
    print(
        f"seeds {first} to {seed - 1}: {steps:,} steps, {steps / max(took_s, 0.001):,.0f} a second; no promise broken"
    )
    print(", ".join(f"{kind} {counts[kind]:,}" for kind in KINDS))
    return 0


def _search(word: str, seeds: range) -> int:
    """Print, for each guard, what `seen_guards.py` says of it."""
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        for name, guard in BY_NAME.items():
            if any(each in name for each in word.split(",")) and guard.file.startswith(SIMULATED):
                found = seed_for(guard, seeds)
                seen = "not seen" if found is None else f"Seen({found.seed}, {found.steps + 100}),  # {found.message}"
                print(f'    "{name}": {seen[:160]}'.replace("\n", " "), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
