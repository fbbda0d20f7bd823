"""Finds entries that readers ignore: their author was a coordinator that had already been replaced or had resigned.

A process that replays the chain notices such entries by itself. This module finds them without a replay, for callers
that read only a few entries.
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
    """Return the numbers of those `entries` (ascending) that readers ignore.

    `newest` is the coordinator in the newest state. `before(n)` reads entry n, or returns None if it is gone. If one of
    the authors has been replaced or has resigned by now, earlier entries are read too, to learn which coordinator was
    in force before the first of `entries`. They are read backwards, until one has a CLAIM by its own author, until one
    is gone, or until LOOK_BACK were read. Raises what `before` raises.
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
    """True if this entry has a CLAIM by its author, which is then the coordinator, whatever earlier entries say."""
    author = entry.author
    claims = (record for command in entry.commands for record in command.records)
    return any(
        isinstance(record, CoordinationClaimed) and (record.epoch, record.name) == (author.epoch, author.name)
        for record in claims
    )


def _after(known: Coordinator, entry: Entry) -> Coordinator:
    """Return the coordinator after `entry`, which is not ignored. `known` is the coordinator before it.

    If the author's epoch is later than that of `known`, the author counts as the new coordinator: it has claimed that
    epoch, in `entry` or in an entry that was not read.
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
