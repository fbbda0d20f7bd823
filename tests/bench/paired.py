"""Paired timing: the two sides in turn, so that a machine whose speed drifts does not favour one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio`: how much faster ours is than the peer, pair by pair (peer seconds / our seconds)."""

    what: str
    peer: str
    goal: str
    ours_s: Spread
    peer_s: Spread
    ratio: Spread
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
    our_seconds, peer_seconds = [], []
    for number in range(warm_up + rounds):
        first, second = (ours, theirs) if number % 2 == 0 else (theirs, ours)
        took = {first: seconds(first), second: seconds(second)}
        if number >= warm_up:
            our_seconds.append(took[ours])
            peer_seconds.append(took[theirs])
    result = Comparison(
        what,
        peer,
        goal,
        Spread.of(our_seconds),
        Spread.of(peer_seconds),
        Spread.of([b / a for a, b in zip(our_seconds, peer_seconds, strict=True)]),
        Spread.of([(a - b) * 1000 for a, b in zip(our_seconds, peer_seconds, strict=True)]),
    )
    print(
        f"{what}: {result.ours_s.shown(3)} s, {peer} {result.peer_s.shown(3)} s, ratio {result.ratio.shown()} {goal}",
        flush=True,
    )
    return result


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
