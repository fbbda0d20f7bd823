"""Turns the rewritten stretches of a partition into its swaps. Pure.

A slice holds at least one record. So a stretch with no records left gets no slice of its own: the slice of a rewritten
neighbour covers its offsets as well. No slice covers a gap that an election left, so the neighbour must be on the same
side of the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from sparklog.core.commands import Swap
from sparklog.core.reading.plan import RangeToRead
from sparklog.core.tables.slice_table import SliceColumns, digest, slice_columns
from sparklog.core.types import TopicPartition
from sparklog.maintenance.rewrite.compaction_tasks import RewriteOrder, StretchOutcome


class Stretch(NamedTuple):
    """A stretch of a partition: the order to rewrite it, its range, and the outcome of the rewrite."""

    order: RewriteOrder
    range: RangeToRead
    outcome: StretchOutcome

    @property
    def is_rewritten(self) -> bool:
        """True if the rewrite has uploaded segments."""
        return self.outcome.rewritten is not None

    @property
    def is_empty(self) -> bool:
        """True if the compaction leaves no record in the stretch (or if the rewrite failed)."""
        return self.outcome.rewritten is None and not self.outcome.unchanged


def between_gaps(stretches: Iterable[Stretch]) -> list[list[Stretch]]:
    """Group the stretches into runs. Within a run each stretch begins where the one before it ends."""
    runs: list[list[Stretch]] = []
    for stretch in stretches:
        if not runs or runs[-1][-1].range.end != stretch.range.start:
            runs.append([])
        runs[-1].append(stretch)
    return runs


def without_spares(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Drop the spare records (`StretchOutcome.is_spare`) of a run of `between_gaps`.

    A stretch whose only record was spare is then empty. But if the run would keep no record at all, the last spare
    record stays.
    """
    spares = [number for number, stretch in enumerate(stretches) if stretch.outcome.is_spare]
    if len(spares) == sum(not stretch.is_empty for stretch in stretches):
        last = spares.pop() if spares else None
    else:
        last = None
    settled = []
    for number, stretch in enumerate(stretches):
        outcome = stretch.outcome
        if number in spares:
            outcome = msgspec.structs.replace(outcome, rewritten=None)
        elif number == last:
            tombstones, keyless = outcome.tombstones, outcome.keyless
            outcome = msgspec.structs.replace(
                outcome, kept=1, tombstones=max(0, tombstones - 1), keyless=keyless if tombstones else keyless - 1
            )
        settled.append(stretch._replace(outcome=outcome))
    return settled


def rewritten_anyway(stretches: Sequence[Stretch]) -> list[int]:
    """Return the indexes of the `stretches` that must be rewritten although they are unchanged or empty.

    `stretches` are a run of `between_gaps`. An unchanged stretch is chosen if its new slice must cover an empty
    neighbour's offsets. If the whole run is empty, the last stretch is chosen, to keep its last record.
    """
    chosen: list[int] = []
    for empty, run in groupby(range(len(stretches)), key=lambda number: stretches[number].is_empty):
        if not empty:
            continue
        numbers = list(run)
        neighbours = [number for number in (numbers[0] - 1, numbers[-1] + 1) if 0 <= number < len(stretches)]
        if not any(stretches[number].is_rewritten or number in chosen for number in neighbours):
            chosen.append(neighbours[0] if neighbours else numbers[-1])
    return chosen


def swaps_of(key: TopicPartition, stretches: Sequence[Stretch]) -> list[Swap]:
    """Return one swap for each rewritten stretch. The swap also covers the empty stretches beside it.

    `stretches` are a run of `between_gaps`.
    """
    groups: list[list[Stretch]] = []
    waiting: list[Stretch] = []
    for stretch in stretches:
        if stretch.is_rewritten:
            groups.append([*waiting, stretch])
            waiting = []
        elif not stretch.is_empty:
            groups.append([stretch])
        elif groups and not groups[-1][-1].outcome.unchanged:
            groups[-1].append(stretch)
        else:
            waiting.append(stretch)
    return [_swap(key, group) for group in groups if any(stretch.is_rewritten for stretch in group)]


def _swap(key: TopicPartition, group: Sequence[Stretch]) -> Swap:
    old = [part.slice for stretch in group for part in stretch.order.slices]
    (rewritten,) = [stretch.outcome.rewritten for stretch in group if stretch.outcome.rewritten is not None]
    first, *more = rewritten.slices
    slices = (msgspec.structs.replace(first, start=old[0].start), *more)
    slices = (*slices[:-1], msgspec.structs.replace(slices[-1], end=old[-1].end))
    return Swap(
        key.topic_id,
        key.partition,
        old[0].start,
        old[-1].end,
        digest(SliceColumns(slice_columns(old))),
        rewritten.objects,
        slices,
    )
