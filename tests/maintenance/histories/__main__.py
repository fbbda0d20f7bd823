"""`python -m tests.maintenance.histories`: history after history, until the time is over or a promise is broken."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.maintenance.histories.findings import finding, seed_for, shrunk
from tests.maintenance.histories.history import History
from tests.sim.missing_guards import BY_NAME


def main() -> int:
    """Play the histories, and print what was met; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance.histories", description=__doc__)
    parser.add_argument("--seeds", default="1000-", help="A-B: from A to before B; A-: from A on")
    parser.add_argument("--seconds", type=float, default=120, help="stop after so long")
    parser.add_argument("--guards", metavar="NAME,…", help="search seeds for guards of these names")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seed, end = int(first), int(last) if last else 1 << 60
    if arguments.guards is not None:
        for name in arguments.guards.split(","):
            found = seed_for(BY_NAME[name], range(seed, end))
            said = "not seen" if found is None else f"{found.seed},  # {found.message}"[:160]
            print(f'    "{name}": {said}'.replace("\n", " "), flush=True)
        return 0
    counts: Counter[str] = Counter()
    began_s = time.monotonic()
    while seed < end and time.monotonic() - began_s < arguments.seconds:
        history = History(seed)
        try:
            history.run()
        except Exception as error:
            print(f"seed {seed} breaks a promise: {error}\nshrinking …", flush=True)
            broken = finding(seed)
            print(*(shrunk(broken).lines() if broken else ["and not again"]), sep="\n")
            return 1
        counts += history.counts
        seed += 1
    print(f"seeds {first} to {seed - 1}: no promise broken, {time.monotonic() - began_s:.0f} s")
    print(", ".join(f"{what} {count:,}" for what, count in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
