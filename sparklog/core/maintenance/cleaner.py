"""The cleaner of a partition: how far compaction has come, and when it first passed the tombstones (C-02, C-03).

Below the cleaner's position (Kafka: the first dirty offset) each key has at most one record, apart from two exceptions:
a slice that the log start cuts is not compacted, and a run may keep an older record so that no slice is empty. No
tombstone is dropped as long as there is such an exception. So dropping a tombstone brings no older value back.

A run passes a tombstone if it keeps it and moves the position beyond it. The tombstone then stays for
`delete.retention.ms` after the first run that passed it, because a reader that has seen an older value must be able to
see that it was deleted.
"""

from __future__ import annotations

import msgspec

from sparklog.core.types import Offset

MOST_PASSES = 16


class Pass(msgspec.Struct, frozen=True, array_like=True):
    """A compaction run that kept tombstones and was the first to move the cleaner's position beyond them.

    These are the tombstones from the previous pass's `to` up to this pass's `to`. Their delay counts from `at_ms`, the
    time of the entry that recorded the run.
    """

    to: Offset
    at_ms: int


class Cleaner(msgspec.Struct, frozen=True, array_like=True):
    """The cleaner of a partition: compaction has cleaned everything below `position`.

    `passes` ascend, and their `to` is at most `position`. There is no tombstone between the last `to` and `position`.

    `keeps_superseded`: somewhere below the position a record was kept although a later record has its key, because
    every slice needs a record. No tombstone is dropped then: if it has that key, the old value would come back.
    """

    position: Offset
    passes: tuple[Pass, ...] = ()
    keeps_superseded: bool = False

    def tombstones_due(self, clock_ms: int, delay_ms: int) -> Offset | None:
        """Return the offset below which all tombstones may be dropped; None if none may be dropped.

        A tombstone may be dropped `delay_ms` after the first run that passed it. `clock_ms`: the present time, which
        must come from this computer's clock, never from a user, because readers rely on the delay.
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
    """Return the cleaner after a run that cleaned everything below `to`.

    The run dropped all tombstones below `dropped_below` (None: it dropped none). If it may have kept tombstones at or
    above the old position, `passed_at_ms` is the time at which the delay of these tombstones begins; else it is None.
    `keeps_superseded`: the run kept a record although a later record has its key.
    """
    passes = () if before is None else before.passes
    if dropped_below is not None:
        passes = tuple(pass_ for pass_ in passes if pass_.to > dropped_below)
    if passed_at_ms is not None:
        at_ms = max(passed_at_ms, *(pass_.at_ms for pass_ in passes)) if passes else passed_at_ms
        passes = (*(pass_ for pass_ in passes if pass_.to < to), Pass(to, at_ms))
    return Cleaner(to, _bounded(passes), keeps_superseded)


def within_log(cleaner: Cleaner, log_start: Offset, end: Offset) -> Cleaner | None:
    """Limit the cleaner to the log [log_start, end); None if nothing of the log is cleaned."""
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
    """Drop passes until MOST_PASSES are left. Tombstones of a dropped pass then belong to the next, later one.

    The oldest and the newest pass stay. Of the others, the pass with the shortest time between its neighbours is
    dropped, so that tombstones wait little longer than they must.
    """
    while len(passes) > MOST_PASSES:
        times = [pass_.at_ms for pass_ in passes]
        drop = min(range(1, len(passes) - 1), key=lambda at: times[at + 1] - times[at - 1])
        passes = (*passes[:drop], *passes[drop + 1 :])
    return passes
