"""Random runs play their own seeds, and new ones in a case of their own; a failure says how to play its seed again."""

from __future__ import annotations

import time

import pytest

from tests.kit.budget import PER_TREE, Played, Runs, Seeds, first_new, random_runs, seeds_for, tree


def cases(mark: pytest.MarkDecorator) -> list[Runs]:
    _, runs = mark.args
    return [getattr(each, "values", (each,))[0] for each in runs]


def test_the_fixed_seeds_the_new_ones_and_those_of_a_campaign_are_cases_each() -> None:
    found = cases(random_runs((3, 7), campaign=[range(5, 9)]))
    assert [str(each) for each in found] == ["3-8", "new", "5-9"]
    assert [[*seeds_for(each, None)] for each in found if each.new_s is None] == [[3, 7], [5, 6, 7, 8]]
    assert [str(each) for each in cases(random_runs((3, 7), new_s=None))] == ["3-8"]


def played(seeds: Seeds) -> list[int]:
    found: list[int] = []
    with pytest.raises(Played):
        found.extend(seeds)
    return found


def test_new_seeds_come_until_the_time_is_used_one_at_least_and_are_not_counted() -> None:
    began_s = time.process_time()
    found = played(Seeds(Runs(new_s=0.05), first_new=50, counted=False))
    assert time.process_time() - began_s >= 0.05
    assert found == [*range(50, 50 + len(found))]
    assert len(played(seeds_for(Runs(new_s=0.0), None))) == 1


@random_runs((3, 7), new_s=0.0)
def test_the_case_of_new_seeds_passes_when_they_were_played(seeds: Seeds) -> None:
    assert [*seeds] == [3, 7]


def test_each_tree_of_files_has_other_new_seeds_and_always_the_same() -> None:
    assert len({first_new(b"%d" % number) for number in range(20)}) > 10
    assert first_new(tree()) == first_new(tree()) >= PER_TREE
    assert first_new(b"") % PER_TREE == 0


def test_given_seeds_are_played_alone_and_what_they_meet_is_not_counted() -> None:
    for runs in (Runs(range(20)), Runs(new_s=9.0)):
        assert [played(seeds_for(runs, given)) for given in ("7", "7-9")] == [[7], [7, 8]]


def test_a_failure_says_how_its_seed_is_played_again() -> None:
    seeds = Seeds(Runs((3, 7)))
    for seed in seeds:
        if seed == 7:
            break
    assert seeds.how_to_repeat("tests/a.py::test_b[3-8]") == (
        'seed 7: make test TESTS="tests/a.py::test_b[3-8]" ARGS="--seeds 7" WORKERS=0'
    )
