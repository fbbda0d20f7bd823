"""Follows the metadata chain: opens it, reads on, and holds the state that it says.

Opening costs the newest snapshot and the entries after it; reading on costs one request for the next entry and
one for its block's void mark. What was read takes effect only after the mark was found absent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import msgspec

from sparklog.chain import snapshot
from sparklog.chain.command_body import read_body
from sparklog.chain.damage import PUT_BACK, damage
from sparklog.chain.entry import NO_PREVIOUS, Entry, decode_entry, hash_of
from sparklog.chain.void_marks import Voided, check_not_void
from sparklog.core.apply import apply_command
from sparklog.core.commands import Append
from sparklog.core.decide_append import assign_offsets
from sparklog.core.errors import ChainDamaged, ClusterNotFound, KeyNotFound
from sparklog.core.records import AppendedByReference, AppliedCommand, At, Record
from sparklog.core.state import ClusterState
from sparklog.core.types import CommandId
from sparklog.storage.keys import ENTRIES_PER_BLOCK, entry_block, entry_block_prefix, entry_key, parse_entry_key
from sparklog.storage.object_store import ObjectStore

READ_WIDTH = 32  # entries asked for at once while there is a backlog
CHECKS_OF_END = 4


class Follower:
    """The state of one chain in this process. Safe for threads; make another after a fork."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.state = ClusterState()
        self.entry_hash = NO_PREVIOUS
        self.snapshot_n = -1  # the newest snapshot that is known here
        self.known_chunks: dict[str, snapshot.TableChunk] = {}

    def open(self) -> None:
        """Load the newest snapshot and the entries after it. Raises ClusterNotFound, ChainDamaged."""
        with self.lock:
            self._forget()
            self.catch_up()
            if self.state.n < 0:
                raise ClusterNotFound(
                    f"no cluster at {self.store.url}: wanted {entry_key(0)} there; run 'cluster init'"
                )
            self._check_end()

    def reload(self) -> None:
        """Forget the state and begin again at the newest snapshot."""
        with self.lock:
            manifest = snapshot.newest(self.store)
            if manifest is None:
                self._forget()
                return
            self.state = snapshot.load(self.store, manifest)
            self.entry_hash, self.snapshot_n = manifest.entry_hash, manifest.n
            self.known_chunks = snapshot.known_chunks(manifest)

    def catch_up(self) -> None:
        """Apply what was written before the call. Raises StoreUnavailable, ChainDamaged, UnsupportedVersion."""
        with self.lock:
            if self.state.n < 0:
                self.reload()
            while True:
                try:
                    first = self.state.n + 1
                    bodies, at_end = self._read_on(first)
                    check_not_void(self.store, first)
                    for n in range(first + 1, first + len(bodies) + 1):  # to the slot that was taken for the end
                        if entry_block(n) != entry_block(n - 1):
                            check_not_void(self.store, n)
                    for n, body in enumerate(bodies, first):
                        self.apply_body(n, body)
                    # Read only up to the end seen at the start: chasing a faster writer would never finish.
                    if at_end:
                        return
                except Voided:
                    before = self.snapshot_n
                    self.reload()
                    if self.snapshot_n <= before:
                        raise ChainDamaged(
                            f"{self.store.url}: block {entry_block(self.state.n + 1)} is marked as deleted, "
                            f"but no snapshot covers it: the snapshot behind it is missing; {PUT_BACK}"
                        ) from None

    def apply_body(self, n: int, body: bytes | memoryview, expanded: Mapping[CommandId, Record] | None = None) -> Entry:
        """Change the state by the body of entry `n`, whose block is known not to be void. Raises ChainDamaged."""
        entry = decode_entry(n, body, self.store.url)
        if entry.previous != self.entry_hash or (self.state.chain_id and entry.chain_id != self.state.chain_id):
            check_not_void(self.store, n)
            raise damage(
                entry_key(n),
                f"wanted chain {self.state.chain_id} after hash {self.entry_hash}, "
                f"found chain {entry.chain_id} after {entry.previous}",
                self.store.url,
            )
        appends = self._appends(entry, expanded or {})
        try:
            for command in entry.commands:
                apply_command(self.state, _expanded(command, self.state, entry.at, expanded or {}, appends), entry.at)
            self.state.n, self.state.time_ms = entry.n, entry.time_ms
            self.entry_hash = hash_of(body)
        except BaseException:
            self._forget()  # half an entry is in the state: nobody may go on with it
            raise
        return entry

    def is_same_chain(self) -> bool:
        """Whether the last entry that was applied is still in its slot: the location was not wiped and made anew.

        Of an entry that was deleted as old, a snapshot of the same chain tells.
        """
        with self.lock:
            if self.state.n < 0:  # forgotten, because applying an entry was interrupted
                return False
            try:
                return hash_of(self.store.get(entry_key(self.state.n))) == self.entry_hash
            except KeyNotFound:
                newest = snapshot.newest(self.store)
                return newest is not None and newest.chain_id == self.state.chain_id and newest.n >= self.state.n

    @contextmanager
    def current(self) -> Iterator[ClusterState]:
        """The state, caught up; nobody changes it inside the block."""
        with self.lock:
            self.catch_up()
            yield self.state

    def _forget(self) -> None:
        """Begin again with the next `catch_up`."""
        self.state, self.entry_hash, self.snapshot_n, self.known_chunks = ClusterState(), NO_PREVIOUS, -1, {}

    def _appends(self, entry: Entry, expanded: Mapping[CommandId, Record]) -> dict[CommandId, Append]:
        """What the entry names by reference, read before the state is changed: reading may fail."""
        return {
            command.command_id: read_body(self.store, command.command_id, command.n0, record, entry.n)
            for command in entry.commands
            for record in command.records
            if isinstance(record, AppendedByReference) and command.command_id not in expanded
        }

    def _read_on(self, first: int) -> tuple[list[memoryview], bool]:
        """(bodies of consecutive entries from `first` on, whether those were all); from the third on many at once."""
        bodies: list[memoryview] = []
        for n in (first, first + 1):
            body = self._entry(n)
            if body is None:
                return bodies, True
            bodies.append(body)
        with ThreadPoolExecutor(READ_WIDTH) as pool:
            while True:
                start = first + len(bodies)
                wide = list(pool.map(self._entry, range(start, start + READ_WIDTH)))
                for body in wide:
                    if body is None:
                        return bodies, True
                    bodies.append(body)
                if len(bodies) >= ENTRIES_PER_BLOCK // 2:
                    return bodies, False

    def _entry(self, n: int) -> memoryview | None:
        try:
            return self.store.get(entry_key(n))
        except KeyNotFound:
            return None

    def _check_end(self) -> None:
        """Entries beyond a missing one mean damage; a reader that took the gap for the end would fork the log."""
        for _ in range(CHECKS_OF_END):  # beside a busy writer there is always one more
            n = self.state.n
            beyond = self.store.first_key_after(entry_block_prefix(entry_block(n + 1)), entry_key(n))
            if beyond is None:
                return
            self.catch_up()
            if self.state.n == n:
                there = f"it is missing, but entry {parse_entry_key(beyond)} is there"
                raise damage(entry_key(n + 1), there, self.store.url)


def _expanded(
    command: AppliedCommand,
    state: ClusterState,
    at: At,
    expanded: Mapping[CommandId, Record],
    appends: Mapping[CommandId, Append],
) -> AppliedCommand:
    """The command with its append by reference in full, on the state in front of it."""
    if not any(isinstance(record, AppendedByReference) for record in command.records):
        return command
    full = expanded.get(command.command_id) or assign_offsets(state, appends[command.command_id], at)
    records = tuple(full if isinstance(record, AppendedByReference) else record for record in command.records)
    return msgspec.structs.replace(command, records=records)
