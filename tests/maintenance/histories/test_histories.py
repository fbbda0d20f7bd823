"""Random histories keep the promises of the log and its maintenance; and they would notice if a guard were missing."""

from __future__ import annotations

import pytest

from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import counts_of, finding
from tests.maintenance.histories.history import History
from tests.maintenance.histories.seen_guards import SEEN
from tests.maintenance.histories.shape import OF_REPLICAS, WEIGHTS
from tests.sim.missing_guards import BY_NAME, missing

SEEDS = 15  # of the first part of a campaign
PART = 98
PARTS = 10


# M: S-03 S-09 R-01 R-02 R-03 R-04 R-05 C-01 C-03 C-05 F-04 F-09
@random_runs(
    (0, 1, 11), campaign=[range(SEEDS), *(range(SEEDS + at * PART, SEEDS + (at + 1) * PART) for at in range(PARTS))]
)
def test_whatever_maintenance_does_the_log_is_what_the_model_says(seeds: Seeds) -> None:
    counts = counts_of(map(History, seeds))
    often = 5 if seeds.least >= SEEDS else 1
    rare = {what: counts[what] for what in WEIGHTS if counts[what] < min(often, 2 if what in OF_REPLICAS else 5)}
    assert not rare, f"{rare} of {dict(counts)}"
    assert counts["killed"] >= seeds.least, counts
    assert counts["held up"] >= seeds.least, counts
    assert counts["old plan"] >= often, counts


@pytest.mark.parametrize("name", SEEN)
def test_a_stored_seed_finds_that_a_guard_is_missing(name: str) -> None:
    with missing(BY_NAME[name]):
        assert finding(History(SEEN[name])) is not None, f"seed {SEEN[name]} does not miss {name}"
