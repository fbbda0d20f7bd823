"""Random runs play their own seeds first, then new ones; a failure names the seed and the command that repeats it."""

from __future__ import annotations

import time

import pytest

from tests.kit.budget import PER_TREE, Runs, Seeds, first_new, seeds_for, tree


def test_the_fixed_seeds_come_first_and_one_new_one_at_least() -> None:
    assert [*Seeds(Runs((3, 7), 0.0), first_new=50)] == [3, 7, 50]


def test_new_seeds_come_until_the_time_is_used() -> None:
    seeds = Seeds(Runs((3,), 0.05), first_new=50)
    began_s, played = time.process_time(), [*seeds]
    assert time.process_time() - began_s >= 0.05
    assert played == [3, *range(50, 50 + len(played) - 1)]
    assert seeds.least == 1


def test_a_campaign_plays_its_range_and_no_more() -> None:
    assert [*Seeds(Runs(range(5, 9)))] == [5, 6, 7, 8]
    assert [str(runs) for runs in (Runs(range(5, 9)), Runs(range(5, 9), 1.0))] == ["5-9", "some"]


def test_each_tree_of_files_has_other_new_seeds_and_always_the_same() -> None:
    assert len({first_new(b"%d" % number) for number in range(20)}) > 10
    assert first_new(tree()) == first_new(tree()) >= PER_TREE
    assert first_new(b"") % PER_TREE == 0


def test_given_seeds_are_played_alone_and_what_they_meet_is_not_counted() -> None:
    for given, wanted in (("7", [7]), ("7-9", [7, 8])):
        seeds = iter(seeds_for(Runs(range(20), 9.0), given))
        assert [next(seeds) for _ in wanted] == wanted
        with pytest.raises(pytest.skip.Exception):
            next(seeds)


def test_a_failure_says_how_its_seed_is_played_again() -> None:
    seeds = Seeds(Runs((3, 7), 0.0), first_new=50)
    for seed in seeds:
        if seed == 7:
            break
    assert seeds.how_to_repeat("tests/a.py::test_b[some]") == (
        'seed 7: make test TESTS="tests/a.py::test_b[some]" ARGS="--seeds 7" WORKERS=0'
    )
