"""Simulated restores keep their promises, whatever stores, places, operators and restorers do."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sim.restores.director import run
from tests.sim.restores.found_seeds import FOUND
from tests.sim.restores.prepare import prepare
from tests.sim.restores.world import World

ROOT = Path(__file__).parents[3]
SEEDS = 25  # of a part: `make test` runs the first, a campaign all
PARTS = 8
FAULTS = (
    "unavailable",
    "reply-lost",
    "lost",
    "late-put",
    "silent",
    "silent-for-one",
    "wiped",
    "set-back",
    "flipped",
    "died",
    "stalled",
    "unreachable",
    "place-cut-off",
    "place-lost",
    "place-down",
    "place-back",
    "place-wiped",
    "wrongly-without",
    "restores-at-once",
    "loss-reported",
    "restorer-died-when-it-had-looked",
    "restorer-died-when-it-had-marked",
    "restorer-died-when-it-had-begun",
    "RegisterStore-during-a-restore",
    "RemoveStore-during-a-restore",
)
OFTEN = 3


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(monkeypatch)


def played(seed: int) -> World:
    """The world of a seed, at its end. Fails with the end of its history if it broke a promise."""
    world = World(seed)
    try:
        run(world)
    except AssertionError as error:
        raise AssertionError("\n".join([f"seed {seed}: {error}", *world.history_lines()])) from error
    return world


# M: F-08
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.campaign) for part in range(1, PARTS))])
def test_restores_lose_nothing_and_stop_the_old_chain(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        counts += played(seed).counts
    rare = {kind: counts[kind] for kind in FAULTS if counts[kind] < OFTEN}
    assert not rare, f"{rare} of {dict(counts)}"
    assert counts["restore"] > 8 * SEEDS
    assert counts["restore-succeeded"] > 2 * SEEDS
    assert counts["acknowledged"] > 40 * SEEDS


@pytest.mark.parametrize("name", FOUND)
def test_a_seed_that_once_broke_a_promise_breaks_none(name: str) -> None:
    for seed in FOUND[name]:
        played(seed)


def test_a_seed_always_gives_the_same_run() -> None:
    """Also in another process, where sets of names have another order."""
    again = subprocess.run(
        [sys.executable, "-c", _AGAIN],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert [trace_hash(seed) for seed in (7, 8)] == again
    assert again[0] != again[1]


def trace_hash(seed: int) -> str:
    """A hash of all that happened."""
    world = World(seed)
    with suppress(AssertionError):
        run(world)
    return hashlib.sha256("\n".join(map(str, world.trace)).encode()).hexdigest()


_AGAIN = """
import pytest
from tests.sim.restores.prepare import prepare
from tests.sim.restores.test_restores import trace_hash
with pytest.MonkeyPatch.context() as patch:
    prepare(patch)
    print(trace_hash(7), trace_hash(8))
"""
