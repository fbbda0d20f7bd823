"""Paired timing: the two sides in turn, so that a machine whose speed drifts does not favour one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST_SECONDS = 0.001  # what the pages show: a ratio to less than that is noise


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
        """Peer seconds / our seconds, pair by pair; None if the peer was too quick for a ratio to mean anything."""
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
        Spread.of_ratios(our_seconds, peer_seconds),
        Spread.of([(a - b) * 1000 for a, b in zip(our_seconds, peer_seconds, strict=True)]),
    )
    ratio = f"ratio {result.ratio.shown()}" if result.ratio else "too quick for a ratio"
    print(f"{what}: {result.ours_s.shown(3)} s, {peer} {result.peer_s.shown(3)} s, {ratio} {goal}", flush=True)
    return result


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
