"""A round runs every side once, and each round begins with a different side."""

from __future__ import annotations

from collections.abc import Callable

from bench.paired import interleaved


def sides(ran: list[str]) -> dict[str, Callable[[], object]]:
    return {name: lambda name=name: ran.append(name) for name in "abc"}


def test_each_round_runs_all_sides_and_begins_with_the_next() -> None:
    ran: list[str] = []
    interleaved(sides(ran), lambda run: run(), rounds=3, warm_up=1)
    assert "".join(ran) == "abcbcacababc"


def test_rounds_of_the_warm_up_do_not_count_and_figures_stand_in_the_order_of_rounds() -> None:
    ran: list[str] = []

    def measured(run: Callable[[], object]) -> int:
        run()
        return len(ran)

    assert interleaved(sides(ran), measured, rounds=2, warm_up=1) == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}
