"""Simulated clusters under faults keep their promises; and they would notice if a guard were missing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.budget import Seeds, random_runs
from tests.kit.kernel import finding, reported, shrunk, trace_hashes_elsewhere
from tests.sim.coordinator_faults import SECONDARY
from tests.sim.expiry import CLOCKS
from tests.sim.faults import KINDS
from tests.sim.missing_guards import BY_NAME, missing
from tests.sim.seen_guards import SEEN
from tests.sim.world import ClusterShape, new_world, prepare

SEEDS = 20  # of the first part of a campaign; the others have twice as many
PARTS = [range(SEEDS), *(range((2 * part - 1) * SEEDS, (2 * part + 1) * SEEDS) for part in range(1, 6))]
FEW = (4, 7, 15, 18)  # meet each kind of fault, between them
MOST_STEPS = 5_000  # of a stored seed: more only in a campaign
OFTEN = 4  # how often the seeds of a part meet each kind of fault, at least


@pytest.fixture(autouse=True)
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(monkeypatch)


# M: S-03 L-02 L-12 P-02 P-07 I-02 I-06 F-09 (loses)
@random_runs(FEW, campaign=PARTS)
def test_clusters_keep_their_promises_whatever_goes_wrong(seeds: Seeds) -> None:
    counts: Counter[str] = Counter()
    acks = compacted = dropped = marked = stolen = expired = 0
    for seed in seeds:
        world = new_world(seed)
        with reported(world):
            world.run()
        counts += world.counts
        assert world.acks > 5, f"seed {seed}: only {world.acks} writes were answered"
        acks += world.acks
        compacted += world.compacted
        dropped += sum(map(len, world.history.compacted.values()))
        marked += world.marked
        stolen += world.stolen
        expired += world.expired
    # Two worlds in five have coordinators, and what befalls those is rarer in them, too.
    often = OFTEN if seeds.least >= SEEDS else 1
    rare = {kind: counts[kind] for kind in KINDS if counts[kind] < min(often, 2 if kind in SECONDARY else OFTEN)}
    assert not rare, f"{rare} of {dict(counts)}"
    assert acks > 40 * seeds.least, f"only {acks} writes were answered"
    assert marked > 5 * seeds.least, f"only {marked} blocks of entries were deleted"
    # In two worlds in ten, somebody names uploads of others.
    assert stolen > seeds.least, f"only {stolen} uploads of others were refused"
    # In two worlds in ten, idle producers expire within seconds, and two clocks are ahead.
    assert expired, "no producer expired"
    # Two worlds in ten are compacted.
    assert min(compacted, dropped // 5) > seeds.least // 5, (
        f"only {compacted} segments were compacted, {dropped} records went"
    )


def test_a_seed_always_gives_the_same_run() -> None:
    """Also in another process, where sets of names have another order; with coordinators and without."""
    hashes = [trace_hash(seed) for seed in (7, 8)]
    assert trace_hashes_elsewhere("tests.sim.test_sim", 7, 8) == hashes
    assert hashes[0] != hashes[1]


def trace_hash(seed: int) -> str:
    world = new_world(seed, most_steps=6_000)
    world.run()
    return world.trace_hash()


def test_two_in_five_worlds_have_coordinators() -> None:
    assert [seed for seed in range(10) if new_world(seed).is_led] == [4, 5, 8, 9]


def test_two_in_ten_worlds_are_compacted_and_lose_records_by_offset() -> None:
    assert [seed for seed in range(10) if new_world(seed).is_compacted] == [2, 7]


def test_in_two_of_ten_worlds_somebody_names_uploads_of_others() -> None:
    with_thief = [seed for seed in range(10) if any(each.name == "thief" for each in new_world(seed).processes)]
    assert with_thief == [7, 9]


def test_in_two_of_ten_worlds_the_clocks_of_two_jobs_are_ahead() -> None:
    worlds = [new_world(seed) for seed in range(10)]
    ahead = {world.seed: {each.name for each in world.processes if each.now_ms() > world.now_ms} for world in worlds}
    assert {seed: names for seed, names in ahead.items() if names} == {5: set(CLOCKS), 6: set(CLOCKS)}


def test_worlds_are_of_all_shapes() -> None:
    shapes = {new_world(seed).shape for seed in range(40)}
    assert {(each.min_isr, each.unclean) for each in shapes} == {(1, False), (2, False), (1, True), (2, True)}
    assert {each.partitions for each in shapes} == {1, 2, 3}
    assert all(isinstance(each, ClusterShape) for each in shapes)


# ---- what a missing guard does ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if seen.steps <= MOST_STEPS else pytest.mark.campaign) for name, seen in SEEN.items()],
)
def test_a_stored_seed_finds_that_a_guard_is_missing(name: str) -> None:
    seen = SEEN[name]
    with missing(BY_NAME[name]):
        found = finding(new_world(seen.seed, most_steps=seen.steps))
    assert found is not None, f"seed {seen.seed} does not miss {name} within {seen.steps} steps"


@pytest.mark.parametrize("most_steps", [MOST_STEPS, pytest.param(20_000, marks=pytest.mark.campaign)])
def test_with_all_guards_the_same_worlds_keep_their_promises(most_steps: int) -> None:
    seeds = {seen.seed for seen in SEEN.values() if seen.steps <= most_steps}
    assert not [seed for seed in sorted(seeds) if finding(new_world(seed, most_steps=most_steps))]


def test_enough_guards_are_seen() -> None:
    assert len(SEEN) >= 36, f"{len(SEEN)} of {len(BY_NAME)} guards"


def test_a_finding_is_shrunk_to_what_it_needs() -> None:
    seen = SEEN["replica-append-contiguous"]
    with missing(BY_NAME["replica-append-contiguous"]):
        found = finding(new_world(seen.seed, most_steps=seen.steps))
        assert found is not None
        small = shrunk(found, tries=12)
    assert len(small.run.without) > 0
    assert small.check == found.check
    lines = list(small.lines())
    assert lines[0].startswith(f"seed {seen.seed} without [")
    assert any("Appended" in line for line in lines)
