"""From the rewritten stretches of a partition to its swaps. Pure.

A slice holds at least one record. So a stretch of which nothing is left gets no slice of its own: a rewritten neighbour
covers its offsets, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from sparklog.core.commands import Swap
from sparklog.core.slice_table import SliceColumns, digest, slice_columns
from sparklog.core.types import TopicPartition
from sparklog.maintenance.compaction_tasks import RewriteOrder, StretchOutcome


class Stretch(NamedTuple):
    """A stretch of a partition, and what became of it."""

    order: RewriteOrder
    outcome: StretchOutcome


def without_spares(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Spare records go if the log keeps anything else. Else the last of them stays."""
    spares = [number for number, stretch in enumerate(stretches) if stretch.outcome.is_spare]
    if len(spares) == sum(not _is_empty(stretch) for stretch in stretches):
        last = spares.pop() if spares else None
    else:
        last = None
    settled = []
    for number, (order, outcome) in enumerate(stretches):
        if number in spares:
            outcome = msgspec.structs.replace(outcome, rewritten=None)
        elif number == last:
            tombstones, keyless = outcome.tombstones, outcome.keyless
            outcome = msgspec.structs.replace(
                outcome, kept=1, tombstones=max(0, tombstones - 1), keyless=keyless if tombstones else keyless - 1
            )
        settled.append(Stretch(order, outcome))
    return settled


def lonely(stretches: Sequence[Stretch]) -> list[int]:
    """The unchanged stretches that must be rewritten after all, for neighbours of which nothing is left."""
    chosen: list[int] = []
    for empty, run in groupby(range(len(stretches)), key=lambda number: _is_empty(stretches[number])):
        if not empty:
            continue
        numbers = list(run)
        neighbours = [number for number in (numbers[0] - 1, numbers[-1] + 1) if 0 <= number < len(stretches)]
        if not any(_is_rewritten(stretches[number]) or number in chosen for number in neighbours):
            chosen.append(neighbours[0])
    return chosen


def swaps_of(key: TopicPartition, stretches: Sequence[Stretch]) -> list[Swap]:
    """One swap for each rewritten stretch, with the empty ones behind it, or in front of it if they have no other."""
    groups: list[list[Stretch]] = []
    waiting: list[Stretch] = []
    for stretch in stretches:
        if _is_rewritten(stretch):
            groups.append([*waiting, stretch])
            waiting = []
        elif not _is_empty(stretch):
            groups.append([stretch])
        elif groups and not groups[-1][-1].outcome.unchanged:
            groups[-1].append(stretch)
        else:
            waiting.append(stretch)
    return [_swap(key, group) for group in groups if any(map(_is_rewritten, group))]


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


def _is_rewritten(stretch: Stretch) -> bool:
    return stretch.outcome.rewritten is not None


def _is_empty(stretch: Stretch) -> bool:
    return stretch.outcome.rewritten is None and not stretch.outcome.unchanged
