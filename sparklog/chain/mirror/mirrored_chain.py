"""The mirrors of a lost chain on several stores, read as one chain: each object from a store that has it whole."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sparklog.chain.damaged_chain import damage
from sparklog.chain.entry import decode_entry
from sparklog.chain.framing import unframe
from sparklog.chain.mirror.mirror import bodies_named
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.core.errors import ChainDamaged, KeyNotFound, SparklogError, StoreAccessDenied, StoreUnavailable
from sparklog.storage.keys import (
    CHUNKS,
    COMMANDS,
    LOG,
    SNAPSHOTS,
    VOID,
    block_entries,
    entry_block,
    entry_block_prefix,
    entry_key,
    parse_entry_key,
    parse_snapshot_key,
)
from sparklog.storage.object_store import ObjectStore, exists

T = TypeVar("T")


class MirroredChain(MirrorPlace):
    """A view of all mirrors of a chain, for reading.

    An object that is missing, damaged or unreadable on one store is read from the next one. With `accept_loss`, an
    entry that no store has undamaged counts as missing, so that the chain ends before it.
    """

    def __init__(self, stores: Sequence[ObjectStore], chain_id: str, *, accept_loss: bool = False) -> None:
        super().__init__(stores[0], chain_id)
        self._places = [MirrorPlace(store, chain_id) for store in stores]
        self._accept_loss = accept_loss
        self._sha256s: dict[str, str] = {}  # of the bodies that the entries read so far name

    def get(self, key: str) -> memoryview:
        if key.startswith(VOID):
            return self._void_mark(key)
        if not key.startswith(LOG):
            return self._first(key, lambda place: self._whole(place, key))
        n = parse_entry_key(key)
        try:
            return self._first(key, lambda place: self._entry(place, n))
        except ChainDamaged as error:
            if self._accept_loss:
                raise KeyNotFound(f"no whole copy of {key} at {self.url}") from error
            raise

    def size(self, key: str) -> int:
        return self._first(key, lambda place: place.size(key))

    def first_key_after(self, prefix: str, key: str) -> str | None:
        first_keys = [place.first_key_after(prefix, key) for place in self._places]
        return min((first for first in first_keys if first is not None), default=None)

    def _entry(self, place: MirrorPlace, n: int) -> memoryview:
        body = place.get(entry_key(n))
        decode_entry(n, body, place.url)
        self._sha256s.update(bodies_named(n, bytes(body)))
        return body

    def _whole(self, place: MirrorPlace, key: str) -> memoryview:
        """Read an object other than an entry from one store. Raises ChainDamaged if its checksum is wrong.

        A manifest has its checksum in its frame, and a chunk has it in its key. The checksum of a command's body is in
        the entry that names the body. If that entry has not been read, the body is not checked.
        """
        body = place.get(key)
        if key.startswith(SNAPSHOTS):
            unframe("snapshot", body, key, place.url)
            return body
        wanted = self._sha256s.get(key) if key.startswith(COMMANDS) else key.removeprefix(CHUNKS)
        if wanted is not None and (actual := hashlib.sha256(body).hexdigest()) != wanted:
            raise damage(key, f"wanted SHA-256 {wanted}, found {actual}", place.url)
        return body

    def _void_mark(self, key: str) -> memoryview:
        """Return the void mark of a block if all mirrors have it. Otherwise raise KeyNotFound.

        The block counts as deleted only if all of them have the mark.
        """
        *others, last = self._places
        for place in others:
            place.get(key)
        return last.get(key)

    def _first(self, key: str, read: Callable[[MirrorPlace], T]) -> T:
        """Call `read` for one store after the other until one has the object whole, and return the result.

        Raises KeyNotFound only if all stores lack the object; otherwise an error of a store that may have it.
        """
        failure: SparklogError | None = None
        for place in self._places:
            try:
                return read(place)
            except KeyNotFound:
                continue
            except ChainDamaged as damaged:
                failure = failure or damaged
            except (StoreUnavailable, StoreAccessDenied) as unavailable:
                failure = unavailable
        raise failure or KeyNotFound(f"no copy of {key} at {self.url}")


def begins(place: MirrorPlace) -> bool:
    """True if a chain can be read from the mirror on one store: it has a snapshot, or entry 0."""
    return place.first_key_after(SNAPSHOTS, SNAPSHOTS) is not None or exists(place, entry_key(0))


def last_mirrored(place: MirrorPlace) -> int:
    """Return the entry up to which the mirror on one store is whole; -1 if it has no entry and no snapshot."""
    last = _newest_snapshot(place)
    for n in _entries_after(place, last):
        if n != last + 1:
            break
        last = n
    return last


def beyond(place: MirrorPlace, n: int) -> tuple[int, str] | None:
    """Find an entry or snapshot on one mirror that is newer than entry `n`; None if there is none.

    Returns its number, and its description for a message.
    """
    newest = _newest_snapshot(place)
    if newest > n:
        return newest, f"the snapshot of entry {newest:,}"
    entry = next(_entries_after(place, n), None)
    return None if entry is None else (entry, f"entry {entry:,}")


def _newest_snapshot(place: MirrorPlace) -> int:
    newest = place.first_key_after(SNAPSHOTS, SNAPSHOTS)
    return -1 if newest is None else int(parse_snapshot_key(newest))


def _entries_after(place: MirrorPlace, n: int) -> Iterator[int]:
    """Yield the numbers above `n` of the entries that the mirror has, in order."""
    after = LOG if n < 0 else entry_key(n)
    while (first_key := place.first_key_after(LOG, after)) is not None:
        first = parse_entry_key(first_key)
        block = entry_block(first)
        numbers = [int(parse_entry_key(stored.key)) for stored in place.list_keys(entry_block_prefix(block))]
        yield from (number for number in numbers if number >= first)
        after = entry_key(block_entries(block)[-1])
