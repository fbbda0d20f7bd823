"""Random histories keep the promises of the log and its maintenance; and they would notice if a guard were missing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.kernel import finding, reported
from tests.maintenance.histories.history import History
from tests.maintenance.histories.seen_guards import SEEN
from tests.maintenance.histories.shape import OF_REPLICAS, WEIGHTS
from tests.sim.missing_guards import BY_NAME, missing

SEEDS = 15  # of `make test`
PART = 98  # of a campaign
PARTS = 10


def play(seeds: range) -> Counter[str]:
    """Play these histories, and count what has happened in them."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        history = History(seed)
        with reported(history):
            history.run()
        counts += history.counts
    return counts


# M: S-03 S-09 R-01 R-02 R-03 R-04 R-05 C-01 C-03 C-05 F-04 F-09
def test_whatever_maintenance_does_the_log_is_what_the_model_says() -> None:
    counts = play(range(SEEDS))
    rare = {what: counts[what] for what in WEIGHTS if counts[what] < (2 if what in OF_REPLICAS else 5)}
    assert not rare, f"{rare} of {dict(counts)}"
    assert counts["killed"] >= SEEDS, counts
    assert counts["held up"] >= SEEDS, counts
    assert counts["old plan"] >= 5, counts


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
def test_many_histories(part: int) -> None:
    first = SEEDS + part * PART
    play(range(first, first + PART))


@pytest.mark.parametrize("name", SEEN)
def test_a_stored_seed_finds_that_a_guard_is_missing(name: str) -> None:
    with missing(BY_NAME[name]):
        assert finding(History(SEEN[name])) is not None, f"seed {SEEN[name]} does not miss {name}"
