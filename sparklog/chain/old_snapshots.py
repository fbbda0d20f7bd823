"""What nobody needs any more beside the chain: old snapshots, chunks that none names, bodies of old large commands.

    find what there is -> decide what goes (pure) -> delete it: manifests, then chunks, then bodies

The three newest whole snapshots stay, with everything newer. Manifests go before their chunks: a reader that misses a
chunk finds the manifest gone and takes a newer one. A chunk may be deleted that somebody is about to name in a snapshot
that is being written. Whoever of the two comes later notices: `snapshot.write` looks for its chunks behind the put of
the manifest, and takes it back; `delete_old` looks for new manifests behind each deletion, and puts the chunk back. So
it deletes no manifest but the oldest ones: another run, which is faster, may have kept only the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

import msgspec

from sparklog.chain import snapshot
from sparklog.core.errors import ChainDamaged, KeyExists, KeyNotFound, SparklogError
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import CHUNKS, COMMANDS, SNAPSHOTS, chunk_key, command_key, parse_command_key
from sparklog.storage.object_store import ObjectStore, StoredKey

KEPT = 3
ERRORS = 3  # are told


class FoundSnapshot(msgspec.Struct, frozen=True):
    """A manifest in the store: the keys of its chunks, and FLOOR in its state. Both None if it can't be read."""

    stored: StoredKey
    chunks: frozenset[str] | None
    floor: EntryNumber | None


class Found(msgspec.Struct, frozen=True):
    """Everything of this kind in a store: snapshots with the newest first, chunks, bodies below the newest FLOOR."""

    snapshots: tuple[FoundSnapshot, ...]
    chunks: tuple[StoredKey, ...]
    bodies: tuple[StoredKey, ...]


class Old(msgspec.Struct, frozen=True):
    """What may go, in the order in which it goes."""

    manifests: tuple[StoredKey, ...] = ()
    chunks: tuple[StoredKey, ...] = ()
    bodies: tuple[StoredKey, ...] = ()

    def in_order(self) -> tuple[StoredKey, ...]:
        """All of it."""
        return (*self.manifests, *self.chunks, *self.bodies)


class OldDeleted(msgspec.Struct, frozen=True):
    """Objects that are gone, with their bytes; and those where that failed, with the first few reasons."""

    objects: int = 0
    size_bytes: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


def find(store: ObjectStore) -> Found:
    """What there is. Chunks are listed after the manifests are read: one that is missing then is not on its way."""
    snapshots = tuple(_found(store, each) for each in store.list_keys(SNAPSHOTS))
    chunks = tuple(store.list_keys(CHUNKS))
    end = command_key(max((each.floor for each in snapshots if each.floor is not None), default=0), "0" * 32)
    bodies = takewhile(lambda each: each.key < end, store.list_keys(COMMANDS))
    return Found(snapshots, chunks, tuple(bodies))


def _found(store: ObjectStore, stored: StoredKey) -> FoundSnapshot:
    try:
        manifest = snapshot.read_manifest(store, stored.key)
    except (ChainDamaged, KeyNotFound):
        return FoundSnapshot(stored, None, None)
    return FoundSnapshot(stored, frozenset(map(chunk_key, snapshot.known_chunks(manifest))), manifest.floor)


def decide_old(found: Found) -> Old:
    """What may go; nothing before there are as many whole snapshots as are kept.

    The body of a command goes when FLOOR had passed it in the oldest snapshot that is kept. Then an entry that names it
    is not above that snapshot, so nobody who opens the chain reads it; and none can come, because FLOOR refuses it.
    """
    there = {each.key for each in found.chunks}
    whole = [each for each in found.snapshots if each.chunks is not None and each.chunks <= there]
    if len(whole) < KEPT:
        return Old()
    oldest = whole[KEPT - 1]
    kept = [each for each in found.snapshots if each.stored.key <= oldest.stored.key]
    manifests = tuple(each.stored for each in found.snapshots if each.stored.key > oldest.stored.key)
    bodies = tuple(each for each in found.bodies if _is_below(each.key, oldest.floor or EntryNumber(0)))
    if any(each.chunks is None for each in kept):
        return Old(manifests, (), bodies)  # what a manifest names that can't be read now nobody knows
    named = frozenset().union(*(each.chunks or () for each in kept))
    return Old(manifests, tuple(each for each in found.chunks if each.key not in named), bodies)


def _is_below(key: str, floor: EntryNumber) -> bool:
    command = parse_command_key(key)
    return command is not None and command[0] < floor


def delete_old(store: ObjectStore, found: Found, old: Old) -> OldDeleted:
    """Delete it one by one; a failure stops no other, but manifests that stay keep all chunks."""
    manifests = _deleted(store, old.manifests)
    if manifests.failed:
        return manifests
    parts = (manifests, _deleted_chunks(store, found, old.chunks), _deleted(store, old.bodies))
    return OldDeleted(
        sum(each.objects for each in parts),
        sum(each.size_bytes for each in parts),
        sum(each.failed for each in parts),
        tuple(error for each in parts for error in each.errors)[:ERRORS],
    )


def _deleted(store: ObjectStore, keys: Sequence[StoredKey]) -> OldDeleted:
    gone = size_bytes = 0
    errors = []
    for each in keys:
        try:
            store.delete(each.key)
        except SparklogError as error:
            errors.append(str(error))
        else:
            gone, size_bytes = gone + 1, size_bytes + each.size_bytes
    return OldDeleted(gone, size_bytes, len(errors), tuple(errors[:ERRORS]))


def _deleted_chunks(store: ObjectStore, found: Found, chunks: Sequence[StoredKey]) -> OldDeleted:
    """Delete those of the chunks that no snapshot names that came since they were found."""
    came = _Came(store, found)
    came.look()
    gone = size_bytes = 0
    errors = []
    for each in chunks:
        try:
            if not came.may_name(each.key) and _is_deleted(store, each.key, came):
                gone, size_bytes = gone + 1, size_bytes + each.size_bytes
        except SparklogError as error:
            errors.append(str(error))
    return OldDeleted(gone, size_bytes, len(errors), tuple(errors[:ERRORS]))


def _is_deleted(store: ObjectStore, chunk: str, came: _Came) -> bool:
    """Delete a chunk, and put it back if a snapshot came meanwhile that may name it."""
    try:
        body = bytes(store.get(chunk))
    except KeyNotFound:  # another run was faster
        return False
    is_gone = False
    try:
        store.delete(chunk)
        came.look()
        is_gone = not came.may_name(chunk)
    finally:
        if not is_gone:
            with suppress(KeyExists):
                store.put_if_absent(chunk, body)
    return is_gone


class _Came:
    """Snapshots that came since others were found, and the chunks that they name."""

    def __init__(self, store: ObjectStore, found: Found) -> None:
        self._store = store
        self._known = {each.stored.key for each in found.snapshots}
        self._named: frozenset[str] | None = frozenset()  # None: one of them can't be read

    def look(self) -> None:
        """Read those that are new."""
        for stored in list(self._store.list_keys(SNAPSHOTS)):
            if stored.key not in self._known:
                chunks = _found(self._store, stored).chunks
                self._named = None if chunks is None or self._named is None else self._named | chunks
                self._known.add(stored.key)

    def may_name(self, chunk: str) -> bool:
        """Whether one of them may name the chunk."""
        return self._named is None or chunk in self._named
