"""The progress of compaction in a partition, and the time since which its tombstones have been passed (C-02, C-03).

Below the cleaner's position (Kafka: the first dirty offset) each key has at most one record. A tombstone below the
position is the only record of its key, so dropping it at any time brings no older value back. The tombstone stays for
`delete.retention.ms` after the first run that passed it, because a reader that has seen an older value must be able to
see that it was deleted.
"""

from __future__ import annotations

import msgspec

from sparklog.core.types import Offset

MOST_PASSES = 16


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """A compaction run that first passed the tombstones between the `to` of the pass before and its own `to`.

    `at_ms` is the time of the entry that recorded the run.
    """

    to: Offset
    at_ms: int


class Cleaner(msgspec.Struct, frozen=True, array_like=True):
    """The cleaner of a partition: compaction has cleaned everything below `position`.

    `passes` ascend, and none has a `to` above `position`; above the last `to` there is no tombstone up to `position`.

    `keeps_superseded`: somewhere below the position a record was kept although a later record has its key, because a
    slice must have a record. A tombstone of that key must stay.
    """

    position: Offset
    passes: tuple[Pass, ...] = ()
    keeps_superseded: bool = False

    def tombstones_due(self, clock_ms: int, delay_ms: int) -> Offset | None:
        """The offset below which tombstones were passed at least `delay_ms` ago; None if no such offset is known.

        `clock_ms` must come from this computer's clock, never from a user: readers rely on the delay.
        """
        if self.keeps_superseded:
            return None
        return max((pass_.to for pass_ in self.passes if pass_.at_ms + delay_ms <= clock_ms), default=None)


def moved(
    before: Cleaner | None,
    to: Offset,
    dropped_below: Offset | None,
    passed_at_ms: int | None,
    *,
    keeps_superseded: bool = False,
) -> Cleaner:
    """The cleaner after a run that cleaned everything below `to`.

    The run dropped all tombstones below `dropped_below`. `passed_at_ms`: the time of the entry if the run may have left
    tombstones that no run had passed before, else None. `keeps_superseded`: as in `Cleaner`.
    """
    passes = () if before is None else before.passes
    if dropped_below is not None:
        passes = tuple(pass_ for pass_ in passes if pass_.to > dropped_below)
    if passed_at_ms is not None:
        at_ms = max(passed_at_ms, *(pass_.at_ms for pass_ in passes)) if passes else passed_at_ms
        passes = (*(pass_ for pass_ in passes if pass_.to < to), Pass(to, at_ms))
    return Cleaner(to, _bounded(passes), keeps_superseded)


def within_log(cleaner: Cleaner, log_start: Offset, end: Offset) -> Cleaner | None:
    """Limit the cleaner to the log [log_start, end), which a gap may follow; None if nothing of the log is cleaned."""
    position = min(cleaner.position, end)
    if position <= log_start:
        return None
    passes: list[Pass] = []
    for pass_ in cleaner.passes:
        to = min(pass_.to, end)
        if to > log_start and not (passes and passes[-1].to == to):  # the first pass that reached this end stays
            passes.append(Pass(to, pass_.at_ms))
    return Cleaner(position, tuple(passes), cleaner.keeps_superseded)


def _bounded(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """Drop passes until MOST_PASSES are left. The next pass, a later one, takes over the range of a dropped one.

    The oldest pass stays, so that its delay ends, and so does the newest. Of the others, the one with the shortest time
    between its neighbours is dropped, so that tombstones wait little longer than they must.
    """
    while len(passes) > MOST_PASSES:
        times = [pass_.at_ms for pass_ in passes]
        drop = min(range(1, len(passes) - 1), key=lambda at: times[at + 1] - times[at - 1])
        passes = (*passes[:drop], *passes[drop + 1 :])
    return passes
