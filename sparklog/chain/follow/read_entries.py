"""Reads chosen entries again, to learn the results of commands that they applied.

An entry counts only if the void mark of its block is absent after the read. Otherwise a stalled writer may have put
another entry into the slot while the block was being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sparklog.chain.chain_requests import ChainMachine, many
from sparklog.chain.commit.command_group import Ticket
from sparklog.chain.damaged_chain import damage
from sparklog.chain.entry import Entry, decode_entry
from sparklog.core.apply import result_of
from sparklog.core.errors import ChainDamaged, Landed, SparklogError
from sparklog.core.records import AppliedCommand, CommandResult
from sparklog.core.replication.lost_records import check_left
from sparklog.core.state import ClusterState
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_block, entry_key, void_key


def read_entries(numbers: Iterable[EntryNumber], url: str) -> ChainMachine[list[Entry]]:
    """Return those of these entries that still exist, in ascending order. There must be at least one number.

    Raises ChainDamaged and the store's errors.
    """
    ascending = sorted(set(numbers))
    blocks = sorted({entry_block(n) for n in ascending})
    bodies = yield from many([entry_key(n) for n in ascending])
    marks = yield from many([void_key(block) for block in blocks])
    void = {block for block, mark in zip(blocks, marks, strict=True) if mark is not None}
    return [
        decode_entry(n, body, url)
        for n, body in zip(ascending, bodies, strict=True)
        if body is not None and entry_block(n) not in void
    ]


def results_in(entries: Iterable[Entry]) -> Iterator[tuple[AppliedCommand, CommandResult]]:
    """Yield each command of the entries, with its result."""
    for entry in entries:
        for command in entry.commands:
            yield command, result_of(command, entry.at)


def answered(
    committed: Sequence[tuple[Ticket, EntryNumber]], entries: Iterable[Entry], state: ClusterState
) -> list[tuple[Ticket, EntryNumber]]:
    """Set the results of tickets from `entries`, and return the tickets whose results are not there.

    `committed` has each ticket with the number of the entry that applied its command. A ticket gets an error instead of
    a result if an election has given up its records since, according to `state`, the newest one.
    """
    results = {command.command_id: result for command, result in results_in(entries)}
    for ticket, _ in committed:
        result = results.get(ticket.submission.command_id)
        if result is None:
            continue
        try:
            check_left(state, result)
            ticket.result = result
        except SparklogError as lost:
            ticket.error = lost
    return [(ticket, n) for ticket, n in committed if not ticket.done]


def unreadable(ticket: Ticket, n: EntryNumber, url: str) -> ChainDamaged:
    """Return the error for a command that entry `n` applied, but whose result is not in that entry."""
    reason = f"it applied command {ticket.submission.command_id}, and its result can't be read back from it"
    error = damage(entry_key(n), reason, url)
    error.landed = Landed.YES
    return error
