"""The seeds of random runs: some that never change, a case that plays new ones for a moment, and ranges of a campaign.

@random_runs(range(4), campaign=[range(60)])
def test_no_walk_breaks_a_rule(seeds: Seeds) -> None:
    counts = counts_of(map(Walk, seeds))
    assert counts["elected"] > 5 * seeds.least      # of seeds that never change: chance has no part in what is met

New seeds are others for each commit, and the same ones wherever it is tested. Their case ends with the last of them:
what they met is not counted. A failure names its seed, and the command that plays that seed again.
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

BUDGET_S = 0.4  # of processor time: another machine, or a busy one, plays fewer new seeds or more
PER_TREE = 1 << 20  # so many seeds belong to one tree of files; those of campaigns and of `make sim` are below
_TREES = 1_000


class Played(BaseException):
    """The seeds of a case were played of which nothing is counted: its test has passed."""


@dataclass(frozen=True)
class Runs:
    """The seeds of one case of a test: these, or new ones for `new_s` seconds of processor time."""

    fixed: Sequence[int] = ()
    new_s: float | None = None

    def __str__(self) -> str:
        return f"{self.fixed[0]}-{self.fixed[-1] + 1}" if self.new_s is None else "new"


def random_runs(
    fixed: Sequence[int], *, new_s: float | None = BUDGET_S, campaign: Sequence[Sequence[int]] = ()
) -> pytest.MarkDecorator:
    """Let a test play the fixed seeds, new ones, and each range of a campaign, as a case each. It asks for `seeds`."""
    new = [Runs(new_s=new_s)] if new_s is not None else []
    others = [pytest.param(Runs(each), marks=pytest.mark.campaign) for each in campaign]
    return pytest.mark.parametrize("seeds", [Runs(fixed), *new, *others], ids=str, indirect=True)


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
    """The seeds of a case, one after another. Raises Played behind the last, unless what they met is `counted`."""

    runs: Runs
    first_new: int = field(default_factory=lambda: first_new(tree()))
    counted: bool = True
    playing: int | None = field(default=None, init=False)

    @property
    def least(self) -> int:
        """How many there are."""
        return len(self.runs.fixed)

    def __iter__(self) -> Iterator[int]:
        for seed in self.runs.fixed if self.runs.new_s is None else self._new(self.runs.new_s):
            self.playing = seed
            yield seed
        self.playing = None
        if not self.counted:
            raise Played

    def _new(self, seconds: float) -> Iterator[int]:
        """One at least."""
        ends_s = time.process_time() + seconds
        for seed in itertools.count(self.first_new):
            yield seed
            if time.process_time() >= ends_s:
                return

    def how_to_repeat(self, test: str) -> str:
        """The command that plays the seed again that a test is playing."""
        return f'seed {self.playing}: make test TESTS="{test}" ARGS="--seeds {self.playing}" WORKERS=0'


def seeds_for(runs: Runs, given: str | None) -> Seeds:
    """The seeds of a case, or those of --seeds, such as 7 or 7-9: from 7 to before 9."""
    if given is None:
        return Seeds(runs, counted=runs.new_s is None)
    return Seeds(Runs(seeds_of(given) if "-" in given else (int(given),)), counted=False)
