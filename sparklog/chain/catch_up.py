"""Catching up, as a state machine: from one head to the newest head at the time of the call, or a newer one.

STARTING ── no head yet, or the block is void ──► LOADING the newest snapshot ──┐
   ├────────────────────────────────────────────────────────────────────────────┘
   └► READING the next entries ──► LOOKING for the marks of their blocks ──► FETCHING what they name by reference
         ▲                             │ present ──► LOADING                    │
         └── not yet at the end ◄──────┼────────────────────────────────────────┴──► the head
         │                             └── an entry does not fit: DOUBTING its block's mark ── absent ──► ChainDamaged
         └── what an entry names is gone: LOADING a newer snapshot, by which it was deleted as old

Entries take effect only after the marks of their blocks were found absent. A failed round changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from sparklog.chain.command_body import append_of
from sparklog.chain.damage import PUT_BACK, damage
from sparklog.chain.entry import Entry, decode_entry
from sparklog.chain.head import Draft, Head
from sparklog.chain.requests import Get, GetMany, LoadSnapshot, Reply, Request
from sparklog.core.commands import Append
from sparklog.core.errors import ChainDamaged, InconsistentClusterId, KeyNotFound, SparklogError
from sparklog.core.records import AppendedByReference, AppliedCommand
from sparklog.core.types import CommandId
from sparklog.storage.keys import command_key, entry_block, entry_key, void_key

READ_WIDTH = 32  # entries asked for at once while there is a backlog
ROUND_ENTRIES = 2_048  # a round of a backlog ends after so many entries,
ROUND_BYTES = 64 << 20  # or when they are this large together


class Phase(StrEnum):
    """What the machine is waiting for."""

    LOADING = "loading"
    READING = "reading"
    LOOKING = "looking"
    FETCHING = "fetching"
    DOUBTING = "doubting"


Outcome = Head | SparklogError


class CatchUp:
    """Catches up from `head`. `found`: the body of the next entry, if it is already known. `url` is for messages.

    If a snapshot has to be loaded, it must be newer than the head. Otherwise nothing leads on from the head.
    """

    def __init__(self, head: Head, url: str, *, found: bytes | None = None, reload: bool = False) -> None:
        self.head = head
        self.phase = Phase.LOADING if reload or head.n < 0 else Phase.READING
        self._url = url
        self._bodies: list[bytes] = [] if found is None else [found]
        self._at_end = False
        self._is_void = reload  # the block after the head is marked as deleted: only a snapshot leads on
        self._entries: list[Entry] = []
        self._damage: ChainDamaged | None = None
        self._missing: ChainDamaged | None = None  # the missing object because of which a snapshot is loaded

    def start(self) -> Request:
        """The first request."""
        return LoadSnapshot() if self.phase is Phase.LOADING else self._read()

    def reply(self, reply: Reply) -> Request | Outcome:
        """The next request, or the outcome."""
        if isinstance(reply, SparklogError) and not isinstance(reply, KeyNotFound):
            return reply
        match self.phase:
            case Phase.LOADING:
                return self._after_load(reply)
            case Phase.READING:
                return self._after_read(reply)
            case Phase.LOOKING:
                return self._after_look(reply)
            case Phase.FETCHING:
                return self._after_fetch(reply)
            case Phase.DOUBTING:
                return self._reload() if isinstance(reply, bytes | memoryview) else _not_none(self._damage)

    # ---- snapshot -------------------------------------------------------------------------------

    def _reload(self) -> Request:
        self.phase, self._is_void = Phase.LOADING, True
        self._bodies.clear()
        return LoadSnapshot()

    def _after_load(self, reply: Reply) -> Request | Outcome:
        if isinstance(reply, SparklogError):
            return reply
        missing, self._missing = self._missing, None
        if isinstance(reply, Head):
            if self.head.n >= 0 and reply.state.chain_id != self.head.state.chain_id:
                return InconsistentClusterId(
                    f"cluster {self.head.state.chain_id} is no longer at {self._url}, found cluster "
                    f"{reply.state.chain_id}: it was deleted and created again; connect again"
                )
            if reply.n <= self.head.n:
                return missing or self._uncovered()
            self.head = reply
            self._bodies.clear()  # what was found is older than the snapshot
        elif self.head.n >= 0 or self._is_void or missing:
            return missing or self._uncovered()
        return self._read()

    def _uncovered(self) -> ChainDamaged:
        return ChainDamaged(
            f"{self._url}: block {entry_block(self.head.n + 1)} is marked as deleted, but no snapshot covers it: the "
            f"snapshot behind it is missing; {PUT_BACK}"
        )

    # ---- entries --------------------------------------------------------------------------------

    def _read(self) -> Request:
        """Ask for the next entry, then the one after it, and from the third entry on for many at once."""
        self.phase = Phase.READING
        first = self.head.n + 1 + len(self._bodies)
        width = 1 if len(self._bodies) < 2 else READ_WIDTH
        return GetMany([entry_key(n) for n in range(first, first + width)])

    def _after_read(self, reply: Reply) -> Request | Outcome:
        bodies: list[bytes | None] = reply  # type: ignore[assignment]
        for body in bodies:
            if body is None:
                return self._look(at_end=True)
            self._bodies.append(body)
        if len(self._bodies) >= ROUND_ENTRIES or sum(map(len, self._bodies)) >= ROUND_BYTES:
            return self._look(at_end=False)
        return self._read()

    def _look(self, *, at_end: bool) -> Request:
        """Look for the marks of all blocks that were read, including the block of the slot that was taken for the end.

        A block's mark is put before its entries are deleted, so a mark that is absent now was absent during the reads.
        """
        self.phase, self._at_end = Phase.LOOKING, at_end
        first = self.head.n + 1
        blocks = range(entry_block(first), entry_block(first + len(self._bodies)) + 1)
        return GetMany([void_key(block) for block in blocks])

    def _after_look(self, reply: Reply) -> Request | Outcome:
        marks: list[bytes | None] = reply  # type: ignore[assignment]
        if any(mark is not None for mark in marks):
            return self._reload()
        try:
            self._entries = [decode_entry(n, body, self._url) for n, body in enumerate(self._bodies, self.head.n + 1)]
        except SparklogError as error:
            return error
        named = self._by_reference()
        if not named:
            return self._apply({})
        self.phase = Phase.FETCHING
        return GetMany([command_key(command.n0, command.command_id, record.body) for _, command, record in named])

    # ---- effect ---------------------------------------------------------------------------------

    def _by_reference(self) -> list[tuple[Entry, AppliedCommand, AppendedByReference]]:
        return [
            (entry, command, record)
            for entry in self._entries
            for command in entry.commands
            for record in command.records
            if isinstance(record, AppendedByReference)
        ]

    def _after_fetch(self, reply: Reply) -> Request | Outcome:
        bodies: list[bytes | None] = reply  # type: ignore[assignment]
        appends = {}
        try:
            for (entry, command, record), body in zip(self._by_reference(), bodies, strict=True):
                if body is None:
                    return self._reload_for(entry, command, record)
                appends[command.command_id] = append_of(
                    body, command.command_id, command.n0, record, entry.n, self._url
                )
        except SparklogError as error:
            return error
        return self._apply(appends)

    def _reload_for(self, entry: Entry, command: AppliedCommand, record: AppendedByReference) -> Request:
        """Load a snapshot because a body is gone: vacuum deletes it when FLOOR has passed it in the kept snapshots."""
        key = command_key(command.n0, command.command_id, record.body)
        self._missing = damage(key, f"entry {entry.n} names it, it is not there", self._url)
        self._bodies.clear()
        self._entries.clear()
        self.phase = Phase.LOADING
        return LoadSnapshot()

    def _apply(self, appends: Mapping[CommandId, Append]) -> Request | Outcome:
        draft = Draft(self.head)
        for entry, body in zip(self._entries, self._bodies, strict=True):
            if not draft.follows(entry):
                return self._doubt(entry, draft)
            draft.apply(entry, body, appends)
        self.head = draft.head()
        self._bodies.clear()
        self._entries.clear()
        # Read only up to the end seen at the start: chasing a faster writer would never finish.
        return self.head if self._at_end else self._read()

    def _doubt(self, entry: Entry, draft: Draft) -> Request:
        """The entry names another predecessor: damage, unless its block was deleted since its mark was looked for."""
        self._damage = damage(
            entry_key(entry.n),
            f"wanted chain {draft.state.chain_id} after hash {draft.entry_hash}, "
            f"found chain {entry.chain_id} after {entry.previous}",
            self._url,
        )
        self.phase = Phase.DOUBTING
        return Get(void_key(entry_block(entry.n)))


def _not_none(error: ChainDamaged | None) -> ChainDamaged:
    if error is None:
        raise AssertionError("a mark is doubted because of an entry that does not fit")
    return error
