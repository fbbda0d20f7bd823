"""Finds entries that readers ignore, because their coordinator was fenced when they were written (rule C1).

A process that replays the chain knows this at each entry. This module checks a few entries without a replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sparklog.chain.entry import Entry
from sparklog.core.coordination import NO_COORDINATOR, Coordinator, is_fenced
from sparklog.core.records import CoordinationClaimed, CoordinationResigned

LOOK_BACK: Final = 512  # the largest number of earlier entries that are read

Before = Callable[[int], Entry | None]  # entry n, or None if it is gone


def ignored_entries(entries: Sequence[Entry], newest: Coordinator, before: Before) -> frozenset[int]:
    """The numbers of the `entries` (ascending) that changed nothing.

    `newest` is the coordinator of the newest state, and `before` reads an entry by its number. Earlier entries are
    read, back to the last claim, only if `newest` fences the author of one of the entries: usually nothing is read.
    Raises what `before` raises.
    """
    if not any(is_fenced(newest, entry.author) for entry in entries):
        return frozenset()
    earlier: list[Entry] = []
    for n in range(entries[0].n - 1, max(entries[0].n - 1 - LOOK_BACK, -1), -1):
        entry = before(n)
        if entry is None:
            break
        earlier.append(entry)
        if _claims_itself(entry):
            break
    known = NO_COORDINATOR
    ignored = set()
    for entry in (*reversed(earlier), *entries):
        if is_fenced(known, entry.author):
            ignored.add(entry.n)
        else:
            known = _after(known, entry)
    return frozenset(n for n in ignored if n >= entries[0].n)


def _claims_itself(entry: Entry) -> bool:
    """True if the author claims to be the coordinator in this entry: then it is the coordinator, whatever came
    before.
    """
    author = entry.author
    claims = (record for command in entry.commands for record in command.records)
    return any(
        isinstance(record, CoordinationClaimed) and (record.epoch, record.name) == (author.epoch, author.name)
        for record in claims
    )


def _after(known: Coordinator, entry: Entry) -> Coordinator:
    """The coordinator after `entry`, which counts; `known` is the one before it.

    An author with a later epoch must have claimed that epoch earlier.
    """
    author = entry.author
    if author.epoch > known.epoch:
        known = Coordinator(author.epoch, author.name, author.name)
    for command in entry.commands:
        for record in command.records:
            if isinstance(record, CoordinationClaimed):
                known = Coordinator(record.epoch, record.name, record.address)
            elif isinstance(record, CoordinationResigned):
                known = Coordinator(record.epoch, known.name)
    return known
