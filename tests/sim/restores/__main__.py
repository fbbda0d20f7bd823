"""`python -m tests.sim.restores`: world after world, seed by seed, until there were enough restores or one broke."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

import pytest

from tests.sim.restores.director import run
from tests.sim.restores.prepare import prepare
from tests.sim.restores.world import World


def main() -> int:
    """Run the worlds, print what was met; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.restores", description=__doc__)
    parser.add_argument("--seeds", default="1000-", help="A-B: from A to before B; A-: from A on")
    parser.add_argument("--restores", type=int, default=10_000, help="stop after so many")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--go-on", action="store_true", help="print what is broken in each world, and go on")
    parser.add_argument("--lines", type=int, default=80, help="of the history of a broken promise")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seed, end = int(first), int(last) if last else 1 << 60
    counts: Counter[str] = Counter()
    broken = 0
    steps = 0
    began_s = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        while seed < end and counts["restore"] < arguments.restores and time.monotonic() - began_s < arguments.seconds:
            world = World(seed)
            try:
                run(world)
            except Exception as error:
                broken += 1
                print(f"seed {seed} breaks a promise after {world.scheduler.steps} steps: {error}", flush=True)
                if not isinstance(error, AssertionError):
                    traceback.print_exc()
                if not arguments.go_on:
                    print(world.shape, *world.history_lines(arguments.lines), sep="\n")
                    return 1
            counts += world.counts
            steps += world.scheduler.steps
            seed += 1
    took_s = time.monotonic() - began_s
    print(
        f"seeds {first} to {seed - 1}: {counts['restore']:,} restores, {counts['restore'] / max(took_s, 0.001):,.1f} a "
        f"second; {steps:,} steps; {broken} promises broken"
    )
    print(", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
