"""Several processes, faults at any call, deaths, deleted blocks: what was told is what is there, for every seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sparklog.chain import committer, follower, slots
from sparklog.core import decide as decide_module
from sparklog.core.decide import decide
from sparklog.core.errors import SparklogError
from tests.chain.chain_kit import new_chain
from tests.faults.chain_simulation import Simulation, one_thread

SEEDS = 40
SEEDS_WITHOUT_GUARD = 150  # the first that fails ends the search
STEPS = 60


def simulated(seed: int) -> Simulation:
    dice = random.Random(seed)
    found = Simulation(new_chain().store.inner, dice)
    found.run(STEPS)
    found.check()
    return found


# M: S-03 I-01 I-02 (loses)
def test_any_interleaving_of_any_faults_tells_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    one_thread(monkeypatch)
    runs = [simulated(seed) for seed in range(SEEDS)]
    told = [type(each.told).__name__ for run in runs for each in run.attempts]
    assert set(told) >= {"CommandResult", "WriteExpired"}
    assert sum(run.deleted_blocks for run in runs) > SEEDS
    assert any(each.tries > 2 for run in runs for each in run.attempts)
    assert sum(len(run.vacuumed) for run in runs) > 0


def forget_known_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(state: Any, submission: Any, at: Any) -> Any:
        fork = state.fork()
        fork.results = {}
        return decide(fork, submission, at)

    monkeypatch.setattr(committer, "decide", forgetful)


GUARDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the mark after a win": lambda patch: patch.setattr(slots, "check_not_void", lambda store, n: None),
    "the mark in front of a reader": lambda patch: patch.setattr(follower, "check_not_void", lambda store, n: None),
    "the look for a known id": forget_known_ids,
    "FLOOR": lambda patch: patch.setattr(decide_module, "_check_floor", lambda floor, submission: None),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_the_simulation_finds_that_a_guard_is_missing(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one_thread(monkeypatch)
    GUARDS[guard](monkeypatch)
    for seed in range(SEEDS_WITHOUT_GUARD):
        try:
            simulated(seed)
        except (AssertionError, SparklogError):
            return
    pytest.fail(f"no seed of {SEEDS_WITHOUT_GUARD} needed {guard}")
