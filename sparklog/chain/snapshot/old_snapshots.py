"""Deletes what opening the chain does not need: old snapshots, unnamed chunks, old bodies of large commands.

    list the objects -> decide which to delete (pure) -> delete manifests, then chunks, then bodies

The three newest whole snapshots are kept, and so is everything newer. Manifests are deleted before their chunks, so a
reader that misses a chunk finds that the manifest is gone, and takes a newer one.

While `delete_old` deletes a chunk, another process may be writing a snapshot that names it. The process that acts later
notices this. After `snapshot.write` has put the manifest, it looks for its chunks, and deletes the manifest if one is
gone. After each deletion `delete_old` looks for new manifests, and puts the chunk back if one names it. `delete_old`
deletes only the oldest manifests, because another, faster run may have kept only the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

import msgspec

from sparklog.chain.snapshot import snapshot
from sparklog.core.errors import ChainDamaged, KeyExists, KeyNotFound, SparklogError
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import CHUNKS, COMMANDS, SNAPSHOTS, chunk_key, command_key, parse_command_key
from sparklog.storage.object_store import ObjectStore, StoredKey

KEPT = 3
ERRORS = 3  # the number of errors that are reported


class FoundSnapshot(msgspec.Struct, frozen=True):
    """A manifest in the store: the keys of its chunks, and FLOOR in its state. Both are None if it can't be read."""

    stored: StoredKey
    chunks: frozenset[str] | None
    floor: EntryNumber | None


class Found(msgspec.Struct, frozen=True):
    """Objects in a chain's store, some of which may be old.

    `snapshots` are listed newest first. `bodies` are those of commands that the newest FLOOR has passed.
    """

    snapshots: tuple[FoundSnapshot, ...]
    chunks: tuple[StoredKey, ...]
    bodies: tuple[StoredKey, ...]


class Old(msgspec.Struct, frozen=True):
    """Objects that may be deleted, in the order of deletion."""

    manifests: tuple[StoredKey, ...] = ()
    chunks: tuple[StoredKey, ...] = ()
    bodies: tuple[StoredKey, ...] = ()

    def in_order(self) -> tuple[StoredKey, ...]:
        """All objects that may be deleted, manifests first."""
        return (*self.manifests, *self.chunks, *self.bodies)


class OldDeleted(msgspec.Struct, frozen=True):
    """The number and total size of the deleted objects, the number that could not be deleted, and the first errors."""

    objects: int = 0
    size_bytes: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


def find(store: ObjectStore) -> Found:
    """List the snapshots, chunks and bodies in the store.

    Chunks are listed after the manifests were read. So a chunk that a manifest names but that is not listed is really
    gone.
    """
    snapshots = tuple(_found(store, snapshot_) for snapshot_ in store.list_keys(SNAPSHOTS))
    chunks = tuple(store.list_keys(CHUNKS))
    floor = max((snapshot_.floor for snapshot_ in snapshots if snapshot_.floor is not None), default=0)
    end = command_key(floor, "0" * 32)
    bodies = takewhile(lambda body: body.key < end, store.list_keys(COMMANDS))
    return Found(snapshots, chunks, tuple(bodies))


def _found(store: ObjectStore, stored: StoredKey) -> FoundSnapshot:
    try:
        manifest = snapshot.read_manifest(store, stored.key)
    except (ChainDamaged, KeyNotFound):
        return FoundSnapshot(stored, None, None)
    return FoundSnapshot(stored, frozenset(map(chunk_key, snapshot.known_chunks(manifest))), manifest.floor)


def oldest_kept(found: Found) -> FoundSnapshot | None:
    """Return the oldest of the KEPT newest whole snapshots, or None if there are fewer. It and all newer ones stay."""
    existing = {chunk.key for chunk in found.chunks}
    whole = [
        candidate for candidate in found.snapshots if candidate.chunks is not None and candidate.chunks <= existing
    ]
    return whole[KEPT - 1] if len(whole) >= KEPT else None


def decide_old(found: Found) -> Old:
    """Return the objects that may be deleted: none if there are fewer than KEPT whole snapshots.

    The body of a command may be deleted once FLOOR has passed the command in the oldest snapshot that is kept. No entry
    after that snapshot names the body, so opening the chain does not read it. FLOOR refuses new entries that name it.
    """
    oldest = oldest_kept(found)
    if oldest is None:
        return Old()
    kept = [candidate for candidate in found.snapshots if candidate.stored.key <= oldest.stored.key]
    manifests = tuple(candidate.stored for candidate in found.snapshots if candidate.stored.key > oldest.stored.key)
    bodies = tuple(body for body in found.bodies if _is_below(body.key, oldest.floor or EntryNumber(0)))
    if any(candidate.chunks is None for candidate in kept):
        return Old(manifests, (), bodies)  # the unreadable manifest may name any chunk
    named = frozenset().union(*(candidate.chunks or () for candidate in kept))
    return Old(manifests, tuple(chunk for chunk in found.chunks if chunk.key not in named), bodies)


def _is_below(key: str, floor: EntryNumber) -> bool:
    command = parse_command_key(key)
    return command is not None and command[0] < floor


def delete_old(store: ObjectStore, found: Found, old: Old) -> OldDeleted:
    """Delete the objects of `old` one by one, and continue after failures.

    But if a manifest can't be deleted, keep all chunks and bodies.
    """
    manifests = _deleted(store, old.manifests)
    if manifests.failed:
        return manifests
    parts = (manifests, _deleted_chunks(store, found, old.chunks), _deleted(store, old.bodies))
    return OldDeleted(
        sum(part.objects for part in parts),
        sum(part.size_bytes for part in parts),
        sum(part.failed for part in parts),
        tuple(error for part in parts for error in part.errors)[:ERRORS],
    )


def _deleted(store: ObjectStore, keys: Sequence[StoredKey]) -> OldDeleted:
    gone = size_bytes = 0
    errors = []
    for stored in keys:
        try:
            store.delete(stored.key)
        except SparklogError as error:
            errors.append(str(error))
        else:
            gone, size_bytes = gone + 1, size_bytes + stored.size_bytes
    return OldDeleted(gone, size_bytes, len(errors), tuple(errors[:ERRORS]))


def _deleted_chunks(store: ObjectStore, found: Found, chunks: Sequence[StoredKey]) -> OldDeleted:
    """Delete these chunks, unless a snapshot that has appeared since the listing `found` may name them.

    Returns the counts and the errors.
    """
    new = _NewSnapshots(store, found)
    new.look()
    gone = size_bytes = 0
    errors = []
    for chunk in chunks:
        try:
            if not new.may_name(chunk.key) and _is_deleted(store, chunk.key, new):
                gone, size_bytes = gone + 1, size_bytes + chunk.size_bytes
        except SparklogError as error:
            errors.append(str(error))
    return OldDeleted(gone, size_bytes, len(errors), tuple(errors[:ERRORS]))


def _is_deleted(store: ObjectStore, chunk: str, new: _NewSnapshots) -> bool:
    """Delete a chunk, and put it back if a snapshot that may name it has appeared meanwhile, or after an error.

    Returns False if it was put back, or was already gone. Raises the store's errors.
    """
    try:
        body = bytes(store.get(chunk))
    except KeyNotFound:  # another run was faster
        return False
    is_gone = False
    try:
        store.delete(chunk)
        new.look()
        is_gone = not new.may_name(chunk)
    finally:
        if not is_gone:
            with suppress(KeyExists):
                store.put_if_absent(chunk, body)
    return is_gone


class _NewSnapshots:
    """The snapshots that have appeared since the listing `found` was made, and the chunks that they name."""

    def __init__(self, store: ObjectStore, found: Found) -> None:
        self._store = store
        self._known = {known.stored.key for known in found.snapshots}
        self._named: frozenset[str] | None = frozenset()  # None: one of them can't be read

    def look(self) -> None:
        """Read the snapshots that have appeared since the last call."""
        for stored in list(self._store.list_keys(SNAPSHOTS)):
            if stored.key not in self._known:
                chunks = _found(self._store, stored).chunks
                self._named = None if chunks is None or self._named is None else self._named | chunks
                self._known.add(stored.key)

    def may_name(self, chunk: str) -> bool:
        """True if a new snapshot names the chunk, or can't be read."""
        return self._named is None or chunk in self._named
