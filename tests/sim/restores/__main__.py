"""`python -m tests.sim.restores`: world after world, seed by seed, until there were enough restores or one broke."""

from __future__ import annotations

import sys

import pytest

from tests.kit.kernel import arguments, campaign, seeds_of
from tests.sim.restores.director import Played
from tests.sim.restores.prepare import prepare


def main() -> int:
    """Run the worlds, print what was met; 1 if a promise was broken."""
    parser = arguments("tests.sim.restores", __doc__)
    parser.set_defaults(seconds=1e9)
    parser.add_argument("--restores", type=int, default=10_000, help="stop after so many")
    parser.add_argument("--go-on", action="store_true", help="print what is broken in each world, and go on")
    given = parser.parse_args()
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        return campaign(
            seeds_of(given.seeds),
            Played,
            seconds=given.seconds,
            is_enough=lambda met: met["restore"] >= given.restores,
            goes_on=given.go_on,
        )


if __name__ == "__main__":
    sys.exit(main())
