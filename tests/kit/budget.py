"""The seeds of random runs: some that never change, and then new ones, for as long as a test may compute.

@random_runs(range(4), campaign=[range(60)])
def test_no_walk_breaks_a_rule(seeds: Seeds) -> None:
    counts = counts_of(map(Walk, seeds))
    assert counts["elected"] > 5 * seeds.least      # of the seeds that never change: more only adds to it

Each commit has other new seeds, and the same ones wherever it is tested. A failure names its seed, and the command that
plays that seed again.
"""

from __future__ import annotations

import itertools
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.kit.kernel import seeds_of

BUDGET_S = 0.5  # of processor time: another machine, or a busy one, plays fewer seeds or more
PER_TREE = 1 << 20  # so many seeds belong to one tree of files; those of campaigns and of `make sim` are below
_TREES = 1_000


@dataclass(frozen=True)
class Runs:
    """The seeds of one case of a test. `seconds`: of processor time for these and new ones; None: no new ones."""

    fixed: Sequence[int]
    seconds: float | None = None

    def __str__(self) -> str:
        return "some" if self.seconds is not None else f"{self.fixed[0]}-{self.fixed[-1] + 1}"


def random_runs(
    fixed: Sequence[int], *, seconds: float | None = BUDGET_S, campaign: Sequence[Sequence[int]] = ()
) -> pytest.MarkDecorator:
    """Let a test play the fixed seeds and new ones, and each range of a campaign as a case. It asks for `seeds`."""
    others = [pytest.param(Runs(each), marks=pytest.mark.campaign) for each in campaign]
    return pytest.mark.parametrize("seeds", [Runs(fixed, seconds), *others], ids=str, indirect=True)


@cache
def tree() -> bytes:
    """The id of the committed files, or nothing outside a clone."""
    asked = ["git", "rev-parse", "HEAD^{tree}"]
    try:
        return subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, check=False).stdout
    except FileNotFoundError:
        return b""


def first_new(of: bytes) -> int:
    """The first new seed of a tree of files."""
    return (1 + zlib.crc32(of) % _TREES) * PER_TREE


@dataclass
class Seeds:
    """The seeds of a test, one after another: the fixed ones, and one new one at least if there are any new ones.

    `given`: the command line asks for the fixed ones alone. They are played, and what all seeds meet is not counted.
    """

    runs: Runs
    first_new: int = field(default_factory=lambda: first_new(tree()))
    given: bool = False
    playing: int | None = field(default=None, init=False)

    @property
    def least(self) -> int:
        """How many there are at least."""
        return len(self.runs.fixed)

    def __iter__(self) -> Iterator[int]:
        began_s = time.process_time()
        for seed in self._in_turn(began_s):
            self.playing = seed
            yield seed
        self.playing = None
        if self.given:
            pytest.skip("the seeds of --seeds were played")

    def _in_turn(self, began_s: float) -> Iterator[int]:
        yield from self.runs.fixed
        if self.runs.seconds is None:
            return
        for seed in itertools.count(self.first_new):
            yield seed
            if time.process_time() - began_s >= self.runs.seconds:
                return

    def how_to_repeat(self, test: str) -> str:
        """The command that plays the seed again that a test is playing."""
        return f'seed {self.playing}: make test TESTS="{test}" ARGS="--seeds {self.playing}" WORKERS=0'


def seeds_for(runs: Runs, given: str | None) -> Seeds:
    """The seeds of a case, or those of --seeds, such as 7 or 7-9: from 7 to before 9."""
    if given is None:
        return Seeds(runs)
    return Seeds(Runs(seeds_of(given) if "-" in given else (int(given),)), given=True)
