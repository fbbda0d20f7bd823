"""The head of a chain: the state after entry n, and the hash that entry n+1 must name. A value."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparklog.chain.entry import NO_PREVIOUS, Entry, hash_of
from sparklog.core.apply import apply_command
from sparklog.core.commands import Append
from sparklog.core.decide.append import assign_offsets
from sparklog.core.records import AppendedByReference, AppliedCommand, At
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId


class Head(msgspec.Struct, frozen=True):
    """Nobody changes `state`: what comes after it is applied to a fork."""

    state: ClusterState = msgspec.field(default_factory=ClusterState)
    entry_hash: str = NO_PREVIOUS

    @property
    def n(self) -> int:
        """The number of the newest entry; -1 before entry 0."""
        return self.state.n


class Draft:
    """The state behind a head, while entries or commands are applied to it. An error leaves the head as it is."""

    def __init__(self, head: Head) -> None:
        self.state = head.state.fork()
        self.entry_hash = head.entry_hash

    def follows(self, entry: Entry) -> bool:
        """Whether the entry names this chain and the hash of the entry before it."""
        return entry.previous == self.entry_hash and entry.chain_id == (self.state.chain_id or entry.chain_id)

    def apply(self, entry: Entry, body: bytes | memoryview, appends: Mapping[CommandId, Append]) -> None:
        """Apply the next entry, whose bytes are `body`. `appends`: those that it names by reference."""
        for command in entry.commands:
            self.apply_command(command, entry.at, appends.get(command.command_id))
        self.end_entry(entry.at, body)

    def apply_command(self, command: AppliedCommand, at: At, append: Append | None = None) -> None:
        """Apply one command of entry `at`; `append` is what it names by reference."""
        apply_command(self.state, _expanded(self.state, command, at, append), at)

    def end_entry(self, at: At, body: bytes | memoryview) -> None:
        """All commands of entry `at` are applied; its bytes are `body`."""
        self.state.n, self.state.time_ms = at.n, at.time_ms
        self.entry_hash = hash_of(body)

    def head(self) -> Head:
        """The head that it has become. The draft is done with."""
        return Head(self.state, self.entry_hash)


def _expanded(state: ClusterState, command: AppliedCommand, at: At, append: Append | None) -> AppliedCommand:
    """The command with its append by reference in full: its offsets follow from the state in front of it."""
    if append is None:
        return command
    records = tuple(
        assign_offsets(state, append, at, record.changes) if isinstance(record, AppendedByReference) else record
        for record in command.records
    )
    return msgspec.structs.replace(command, records=records)
