"""Checks that the metadata chain is consistent, from its oldest entry to its newest. Only reads.

    every entry: its checksum, the hash of the entry before it, and the SHA-256 of the bodies of large commands
    every snapshot: its manifest and chunks; and its state is the one to which the entries lead
    void marks: the marked blocks are the oldest ones, without a gap, and a snapshot covers them
    the newest state: its invariants

The check is one pass in the order of the chain, with READ_WIDTH entries read in parallel. Memory holds one replayed
state and, at a snapshot, also the snapshot's state. Objects that were deleted as old meanwhile are not reported: before
the check reports a missing object, it looks for the void mark, or for a newer snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from sparklog.chain.commit.command_body import append_of
from sparklog.chain.entry import NO_PREVIOUS, Entry, decode_entry, hash_of
from sparklog.chain.head import Draft, Head
from sparklog.chain.snapshot.old_snapshots import KEPT
from sparklog.chain.snapshot.snapshot import Manifest
from sparklog.chain.snapshot.verify_snapshots import load_state, read_manifests
from sparklog.core.commands import Append
from sparklog.core.describe.state_differences import differing_parts
from sparklog.core.errors import ChainDamaged
from sparklog.core.maintenance.differences import METADATA, Difference, DifferenceKind, advice_for_metadata
from sparklog.core.records import AppendedByReference
from sparklog.core.state_invariants import violations
from sparklog.core.types import CommandId
from sparklog.storage.keys import (
    VOID,
    block_entries,
    command_key,
    entry_block,
    entry_key,
    snapshot_key,
    void_key,
)
from sparklog.storage.object_store import ObjectStore, body_if_there

READ_WIDTH: Final = 32
MOST_VIOLATIONS: Final = 20

Progress = Callable[[int, int], None]  # entries read, of how many


@dataclass
class ChainVerified:
    """Counts of the objects that were read, their size, the requests to the store, and the differences."""

    entries: int = 0
    snapshots: int = 0
    bodies: int = 0
    size_bytes: int = 0
    requests: int = 0
    differences: list[Difference] = field(default_factory=list)


def verify_chain(
    store: ObjectStore, head: Head, *, mirrored: bool = False, progress: Progress = lambda done, of: None
) -> ChainVerified:
    """Check the chain at `store` up to `head`, which was read from it. `mirrored`: other stores have mirrors of it.

    Raises UnsupportedVersion, StoreUnavailable and StoreAccessDenied; then not all objects were checked.
    """
    walk = _Walk(store, head, mirrored)
    walk.run(progress)
    return walk.verified


class _Walk:
    """One pass over the chain. `_draft` is None while the state is unknown: after damage, until the next snapshot."""

    def __init__(self, store: ObjectStore, head: Head, mirrored: bool) -> None:
        self.verified = ChainVerified()
        self._store = store
        self._head = head
        self._mirrored = mirrored
        self._draft: Draft | None = Draft(Head())
        self._hash: str | None = NO_PREVIOUS  # hash of the previous entry; None if that is missing or damaged

    def run(self, progress: Progress) -> None:
        first = max(block_entries(self._first_block()).start, self._head.state.first_entry)
        manifests = {int(manifest.n): manifest for manifest in read_manifests(self._store, self._differs)}
        self._check_covered(first, manifests)
        # Bodies of commands below the FLOOR of the oldest snapshot that vacuum keeps may have been deleted.
        newest = sorted(manifests, reverse=True)[:KEPT]
        self._deleted_below = manifests[newest[-1]].floor if len(newest) == KEPT else 0
        for n in sorted(manifests):
            if n < first:
                self._draft = self._hash = None  # the entries before it are gone
                self._at_snapshot(manifests[n])
        if first and first - 1 not in manifests:
            self._draft = self._hash = None
        for n, body in self._bodies(first):
            if body is None:
                if not self._is_void(n):
                    self._differs(DifferenceKind.ENTRY_MISSING, entry_key(n), f"entry {n} of the chain", "nothing")
                self._draft = self._hash = None
            else:
                self._entry(n, body)
            if n in manifests:
                self._at_snapshot(manifests[n])
            progress(n - first + 1, self._head.n - first + 1)
        if self._hash is not None and self._hash != self._head.entry_hash:
            actual = f"an entry with hash {self._hash}"
            self._differs(
                DifferenceKind.ENTRY_LINK, entry_key(self._head.n), f"hash {self._head.entry_hash}, as read", actual
            )
        for at, text in zip(range(MOST_VIOLATIONS), violations(self._head.state), strict=False):
            self._differs(DifferenceKind.INVARIANT, entry_key(self._head.n), f"invariant {at + 1} of the state", text)

    # ---- entries ----------------------------------------------------------------------------------

    def _bodies(self, first: int) -> Iterator[tuple[int, bytes | None]]:
        with ThreadPoolExecutor(READ_WIDTH) as pool:
            for start in range(first, self._head.n + 1, READ_WIDTH):
                numbers = range(start, min(start + READ_WIDTH, self._head.n + 1))
                bodies = pool.map(lambda n: body_if_there(self._store, entry_key(n)), numbers)
                yield from zip(numbers, bodies, strict=True)

    def _entry(self, n: int, body: bytes) -> None:
        self._count(len(body))
        self.verified.entries += 1
        before, self._hash = self._hash, hash_of(body)
        try:
            entry = decode_entry(n, body)
        except ChainDamaged as error:
            self._differs(DifferenceKind.ENTRY_DAMAGED, entry_key(n), f"entry {n} as it was written", error.message)
            self._draft = self._hash = None
            return
        chain_id = self._head.state.chain_id
        if entry.chain_id != chain_id:
            actual = f"an entry of chain {entry.chain_id}"
            self._differs(DifferenceKind.ENTRY_LINK, entry_key(n), f"an entry of chain {chain_id}", actual)
            self._draft = None
        elif before is not None and entry.previous != before:
            wanted = f"an entry with hash {entry.previous}, which entry {n} names"
            self._differs(DifferenceKind.ENTRY_LINK, entry_key(max(n - 1, 0)), wanted, f"one with hash {before}")
            self._draft = None
        appends = self._appends(entry)
        if appends is None:
            self._draft = None
        if self._draft is not None and appends is not None:
            self._draft.apply(entry, body, appends)

    def _appends(self, entry: Entry) -> dict[CommandId, Append] | None:
        """Return the appends that the entry names by reference. None if one of their bodies is missing or damaged."""
        appends: dict[CommandId, Append] = {}
        whole = True
        for command in entry.commands:
            for record in command.records:
                if not isinstance(record, AppendedByReference):
                    continue
                key = command_key(command.n0, command.command_id, record.body)
                body = body_if_there(self._store, key)
                if body is None:
                    whole = False
                    if command.n0 >= self._deleted_below and not self._deleted_since(command.n0):
                        wanted = f"the slices of a command of entry {entry.n}"
                        self._differs(DifferenceKind.COMMAND_MISSING, key, wanted, "nothing")
                    continue
                self._count(len(body))
                self.verified.bodies += 1
                try:
                    appends[command.command_id] = append_of(body, command.command_id, command.n0, record, entry.n, "")
                except ChainDamaged as error:
                    whole = False
                    wanted = f"SHA-256 {record.body_sha256}, which entry {entry.n} names"
                    self._differs(DifferenceKind.COMMAND_DAMAGED, key, wanted, error.message)
        return appends if whole else None

    def _deleted_since(self, n0: int) -> bool:
        """True if, since this pass began, vacuum may have deleted the body of a command with this n0."""
        newest = read_manifests(self._store, lambda *_: None)[-KEPT:]
        return len(newest) == KEPT and n0 < newest[0].floor

    # ---- snapshots --------------------------------------------------------------------------------

    def _at_snapshot(self, manifest: Manifest) -> None:
        """Compare a snapshot with the state replayed up to its entry, which was just read or is gone.

        If the replayed state is unknown, continue with the state of the snapshot.
        """
        key = snapshot_key(manifest.n)
        self.verified.snapshots += 1
        self.verified.requests += 2
        state = load_state(self._store, manifest, self._differs)
        if state is None:
            return
        if self._hash is not None and manifest.entry_hash != self._hash:
            wanted = f"the hash of entry {manifest.n}, {self._hash}"
            self._differs(DifferenceKind.SNAPSHOT_STATE, key, wanted, manifest.entry_hash)
        elif self._draft is not None:
            replayed = self._draft.head()
            if differing := differing_parts(replayed.state, state):
                wanted = f"the state to which the entries up to {manifest.n} lead"
                self._differs(DifferenceKind.SNAPSHOT_STATE, key, wanted, f"another one in {', '.join(differing)}")
            self._draft = Draft(replayed)
        else:
            self._draft, self._hash = Draft(Head(state, manifest.entry_hash)), manifest.entry_hash

    # ---- void marks -------------------------------------------------------------------------------

    def _first_block(self) -> int:
        """Return the first block without a void mark. A mark after that block is out of order, and is reported."""
        begin = entry_block(self._head.state.first_entry)
        keys = [stored.key for stored in self._store.list_keys(VOID)]
        for block, key in zip(count(begin), keys, strict=False):
            if key != void_key(block):
                wanted = f"{void_key(block)}, the mark of the oldest block without one"
                self._differs(DifferenceKind.VOID_MARK, key, wanted, "a mark out of order")
                return block
        return begin + len(keys)

    def _check_covered(self, first: int, manifests: dict[int, Manifest]) -> None:
        if first and (not manifests or max(manifests) < first - 1):
            block = entry_block(first - 1)
            newest = f"the newest that can be read is of entry {max(manifests)}" if manifests else "none"
            wanted = f"a snapshot of entry {first - 1} or later"
            self._differs(DifferenceKind.VOID_MARK, void_key(block), wanted, newest)

    def _is_void(self, n: int) -> bool:
        """True if the entry is gone because its block was deleted since this pass began."""
        return body_if_there(self._store, void_key(entry_block(n))) is not None

    # ---- the outcome ------------------------------------------------------------------------------

    def _count(self, size_bytes: int) -> None:
        self.verified.size_bytes += size_bytes
        self.verified.requests += 1

    def _differs(self, kind: DifferenceKind, key: str, wanted: str, found: str) -> None:
        advice = advice_for_metadata(kind, mirrored=self._mirrored)
        can_copy_back = self._mirrored and kind.value.startswith(("entry", "command"))
        repairable = kind.value.startswith("snapshot") or can_copy_back
        difference = Difference(kind, METADATA, key, wanted, found, repairable=repairable, advice=advice)
        if difference not in self.verified.differences:
            self.verified.differences.append(difference)
