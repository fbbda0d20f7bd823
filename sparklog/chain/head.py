"""The head of a chain, an immutable value: the state after entry n, and the hash that entry n+1 must name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparklog.chain.entry import NO_PREVIOUS, Entry, hash_of
from sparklog.core.apply import apply_command
from sparklog.core.commands import Append
from sparklog.core.coordination import Author, is_fenced
from sparklog.core.decide.append import assign_offsets
from sparklog.core.records import AppendedByReference, AppliedCommand, At
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId


class Head(msgspec.Struct, frozen=True):
    """The state after the newest entry, and the hash of that entry.

    `state` never changes: later entries are applied to a fork of it.
    """

    state: ClusterState = msgspec.field(default_factory=ClusterState)
    entry_hash: str = NO_PREVIOUS

    @property
    def n(self) -> int:
        """The number of the newest entry; -1 before entry 0."""
        return self.state.n


class Draft:
    """A fork of a head's state, to which entries or commands are applied. The head itself never changes."""

    def __init__(self, head: Head) -> None:
        self.state = head.state.fork()
        self.entry_hash = head.entry_hash
        self.is_torn = False  # True once a command was applied only in part: the draft is not a state of the chain

    def follows(self, entry: Entry) -> bool:
        """True if the entry names this chain, and the hash of the entry that was applied last."""
        return entry.previous == self.entry_hash and entry.chain_id == (self.state.chain_id or entry.chain_id)

    def apply(self, entry: Entry, body: bytes | memoryview, appends: Mapping[CommandId, Append]) -> None:
        """Apply the next entry, whose bytes are `body`. `appends` has the appends that the entry names by reference.

        If another coordinator has taken over from the entry's author before, its commands are not applied.
        """
        if not is_fenced(self.state.coordinator, entry.author):
            for command in entry.commands:
                self.apply_command(command, entry.at, appends.get(command.command_id))
        self.end_entry(entry.at, entry.author, body)

    def apply_command(self, command: AppliedCommand, at: At, append: Append | None = None) -> None:
        """Apply one command of entry `at`. `append` is the append that the command names by reference, if any."""
        self.is_torn = True
        apply_command(self.state, _expanded(self.state, command, at, append), at)
        self.is_torn = False

    def end_entry(self, at: At, author: Author, body: bytes | memoryview) -> None:
        """Finish entry `at` of `author`, whose bytes are `body`, after all its commands were applied."""
        self.state.n, self.state.time_ms = at.n, at.time_ms
        self.state.coordinator = self.state.coordinator.has_written(author, at.n)
        self.entry_hash = hash_of(body)

    def head(self) -> Head:
        """The head after the finished entries. Do not use the draft after this."""
        return Head(self.state, self.entry_hash)


def _expanded(state: ClusterState, command: AppliedCommand, at: At, append: Append | None) -> AppliedCommand:
    """Return the command with `append` in place of the reference to it, or the command itself if `append` is None.

    `state` is the state before the command: the offsets of the append follow from it.
    """
    if append is None:
        return command
    records = tuple(
        assign_offsets(state, append, at, record.changes) if isinstance(record, AppendedByReference) else record
        for record in command.records
    )
    return msgspec.structs.replace(command, records=records)
