"""Simulated restores keep their promises, whatever stores, places, operators and restorers do."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import finding, reported, trace_hashes_elsewhere
from tests.sim.missing_guards import BY_NAME, missing
from tests.sim.restores.director import Played
from tests.sim.restores.found_seeds import FOUND, SEEN
from tests.sim.restores.prepare import prepare

PARTS = (range(25), range(25, 75), range(75, 125), range(125, 200))  # seeds of a campaign
FEW = (4, 5, 7, 11)  # meet each fault, between them
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
    "lowered",
    "raised",
)
OFTEN = 3  # in 25 seeds


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(monkeypatch)


def played(seed: int) -> Played:
    """The world of a seed, at its end."""
    world = Played(seed)
    with reported(world):
        world.run()
    return world


# M: F-08
@random_runs(FEW, campaign=PARTS)
def test_restores_lose_nothing_and_stop_the_old_chain(seeds: Seeds) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += played(seed).counts
    rare = {kind: counts[kind] for kind in FAULTS if counts[kind] < max(1, OFTEN * seeds.least // 25)}
    assert not rare, f"{rare} of {dict(counts)}"
    assert counts["restore"] > 8 * seeds.least
    assert counts["restore-succeeded"] > 2 * seeds.least
    assert counts["acknowledged"] > 40 * seeds.least


@pytest.mark.parametrize("name", FOUND)
def test_a_seed_that_once_broke_a_promise_breaks_none(name: str) -> None:
    for seed in FOUND[name]:
        played(seed)


@pytest.mark.parametrize("name", SEEN)
def test_a_stored_seed_finds_that_a_guard_is_missing(name: str) -> None:
    with missing(BY_NAME[name]):
        found = finding(Played(SEEN[name]))
    assert found is not None, f"seed {SEEN[name]} does not miss {name}"
    played(SEEN[name])


def test_a_seed_always_gives_the_same_run() -> None:
    """Also in another process, where sets of names have another order."""
    hashes = [trace_hash(seed) for seed in (7, 8)]
    assert trace_hashes_elsewhere("tests.sim.restores.test_restores", 7, 8) == hashes
    assert hashes[0] != hashes[1]


def trace_hash(seed: int) -> str:
    world = Played(seed)
    finding(world)
    return world.trace_hash()
