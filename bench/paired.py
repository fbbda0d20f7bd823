"""Paired timing: the sides take turns, so that a machine whose speed drifts favours none of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

LEAST_SECONDS = 0.001  # the least time that the pages show: a ratio to less than that is noise


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median and largest of some figures."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, figures: list[float]) -> Spread:
        return cls(min(figures), statistics.median(figures), max(figures))

    def shown(self, digits: int = 2) -> str:
        return f"{self.low:.{digits}f} / {self.median:.{digits}f} / {self.high:.{digits}f}"

    @classmethod
    def of_ratios(cls, ours_s: list[float], peer_s: list[float]) -> Spread | None:
        """Peer seconds / our seconds, pair by pair; None if the peer was too quick for a meaningful ratio."""
        if statistics.median(peer_s) < LEAST_SECONDS:
            return None
        return cls.of([peer / ours for ours, peer in zip(ours_s, peer_s, strict=True)])


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio`: how much faster ours is than the peer, pair by pair; None if the peer is too quick to be measured."""

    what: str
    peer: str
    goal: str
    ours_s: Spread
    peer_s: Spread
    ratio: Spread | None
    difference_ms: Spread


def compare(
    what: str,
    peer: str,
    goal: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int = 5,
    warm_up: int = 1,
) -> Comparison:
    """Run both `rounds` times in turn, after `warm_up` rounds that do not count."""
    took = interleaved({"ours": ours, "theirs": theirs}, seconds, rounds=rounds, warm_up=warm_up)
    return compared(what, peer, goal, took["ours"], took["theirs"])


def interleaved(
    sides: Mapping[str, Callable[[], object]],
    measure: Callable[[Callable[[], object]], T],
    *,
    rounds: int,
    warm_up: int,
) -> dict[str, list[T]]:
    """The results of `measure` for each side in each of `rounds` rounds, after `warm_up` rounds that do not count.

    A round runs every side once; each round begins with a different side.
    """
    found: dict[str, list[T]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            figure = measure(sides[name])
            if number >= warm_up:
                found[name].append(figure)
    return found


def compared(what: str, peer: str, goal: str, ours_s: list[float], peer_s: list[float]) -> Comparison:
    """The comparison of the seconds of both, round by round."""
    result = Comparison(
        what,
        peer,
        goal,
        Spread.of(ours_s),
        Spread.of(peer_s),
        Spread.of_ratios(ours_s, peer_s),
        Spread.of([(ours - peers) * 1000 for ours, peers in zip(ours_s, peer_s, strict=True)]),
    )
    ratio = f"ratio {result.ratio.shown()}" if result.ratio else "too quick for a ratio"
    print(f"{what}: {result.ours_s.shown(3)} s, {peer} {result.peer_s.shown(3)} s, {ratio} {goal}", flush=True)
    return result


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
