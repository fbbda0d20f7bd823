"""`python -m tests.maintenance.histories`: history after history, until the time is over or a promise is broken."""

from __future__ import annotations

import sys

from tests.kit.kernel import arguments, campaign, finding, seeds_of
from tests.maintenance.histories.history import History
from tests.sim.missing_guards import BY_NAME, missing


def main() -> int:
    """Play the histories, and print what was met; 1 if a promise was broken."""
    parser = arguments("tests.maintenance.histories", __doc__)
    parser.add_argument("--guards", metavar="NAME,…", help="search seeds for guards of these names")
    given = parser.parse_args()
    seeds = seeds_of(given.seeds)
    if given.guards is None:
        return campaign(seeds, History, seconds=given.seconds)
    for name in given.guards.split(","):
        with missing(BY_NAME[name]):
            found = next(filter(None, (finding(History(seed)) for seed in seeds)), None)
        said = "not seen" if found is None else f"{found.run.seed},  # {found.message}"[:160]
        print(f'    "{name}": {said}'.replace("\n", " "), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
