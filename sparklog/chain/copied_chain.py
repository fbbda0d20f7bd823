"""The copies of a lost chain on several stores, read as one chain: the longest that they give together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sparklog.chain.copy_place import CopyPlace
from sparklog.chain.damage import damage
from sparklog.chain.entry import decode_entry
from sparklog.chain.framing import unframe
from sparklog.chain.owner import Owner, encoded, is_mark
from sparklog.chain.store_copy import bodies_named, put
from sparklog.core.errors import ChainDamaged, KeyNotFound, StoreUnavailable
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
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")


class CopiedChain(CopyPlace):
    """A view on all copies, for reading: what one store lacks, has damaged, or can't read, comes from the next.

    With `last`, nothing after that entry is there. With `accept_loss`, an entry that is damaged everywhere counts as
    missing, so that the chain ends before it.
    """

    def __init__(
        self, stores: Sequence[ObjectStore], chain_id: str, last: int | None = None, *, accept_loss: bool = False
    ) -> None:
        super().__init__(stores[0], chain_id)
        self._places = [CopyPlace(store, chain_id) for store in stores]
        self._last = last
        self._accept_loss = accept_loss
        self._sha256s: dict[str, str] = {}  # of the bodies that the entries name which were read so far

    def get(self, key: str) -> memoryview:
        if key.startswith(VOID):
            return self._void_mark(key)
        if not key.startswith(LOG):
            return self._first(key, lambda place: self._whole(place, key))
        n = parse_entry_key(key)
        if self._last is not None and n > self._last:
            raise KeyNotFound(f"no copy of {key} is wanted")
        try:
            return self._first(key, lambda place: self._entry(place, n))
        except ChainDamaged as error:
            if self._accept_loss:
                raise KeyNotFound(f"no whole copy of {key} at {self.url}") from error
            raise

    def size(self, key: str) -> int:
        return self._first(key, lambda place: place.size(key))

    def first_key_after(self, prefix: str, key: str) -> str | None:
        if prefix == SNAPSHOTS and self._last is not None:
            key = max(key, f"{SNAPSHOTS}{10**20 - 2 - self._last:020d}")
        found = [place.first_key_after(prefix, key) for place in self._places]
        return min((each for each in found if each is not None), default=None)

    def _entry(self, place: CopyPlace, n: int) -> memoryview:
        body = place.get(entry_key(n))
        if is_mark(body):
            raise KeyNotFound(f"{entry_key(n)} at {place.url} is the mark of a restore")
        decode_entry(n, body, place.url)
        self._sha256s.update(bodies_named(n, bytes(body)))
        return body

    def _whole(self, place: CopyPlace, key: str) -> memoryview:
        """The object on one store. Raises ChainDamaged if its bytes are not those that its name, or an entry, says."""
        body = place.get(key)
        if key.startswith(SNAPSHOTS):
            unframe("snapshot", body, key, place.url)
            return body
        wanted = self._sha256s.get(key) if key.startswith(COMMANDS) else key.removeprefix(CHUNKS)
        if wanted is not None and (found := hashlib.sha256(body).hexdigest()) != wanted:
            raise damage(key, f"wanted SHA-256 {wanted}, found {found}", place.url)
        return body

    def _void_mark(self, key: str) -> memoryview:
        """A block is gone here only if it is gone from every store: one that still has it is enough."""
        *others, last = self._places
        for place in others:
            place.get(key)
        return last.get(key)

    def _first(self, key: str, read: Callable[[CopyPlace], T]) -> T:
        """What the first store says that has the object whole. Raises KeyNotFound only if all say it is not there."""
        failure: ChainDamaged | StoreUnavailable | None = None
        for place in self._places:
            try:
                return read(place)
            except KeyNotFound:
                continue
            except ChainDamaged as damaged:
                failure = failure or damaged
            except StoreUnavailable as unavailable:
                failure = unavailable
        raise failure or KeyNotFound(f"no copy of {key} at {self.url}")


def last_copied(place: CopyPlace) -> int:
    """The entry up to which the copy on one store is whole; -1 if it has none."""
    last = first = _newest_snapshot(place)
    for n in _entries_after(place, first):
        if n != last + 1:
            break
        last = n
    while last > first and is_mark(place.get(entry_key(last))):
        last -= 1
    return last


def beyond(place: CopyPlace, n: int) -> str | None:
    """What one store has of the chain that is newer than entry `n`, in words; None if nothing."""
    newest = _newest_snapshot(place)
    if newest > n:
        return f"the snapshot of entry {newest:,}"
    for entry in _entries_after(place, n):
        if not is_mark(place.get(entry_key(entry))):
            return f"entry {entry:,}"
    return None


def close(place: CopyPlace, owner: Owner) -> None:
    """Put the mark of a restore behind all that is there, so that no process of the lost chain adds another copy.

    A process that runs on puts its next copy right behind its last one. If the store was set back since, that one is
    gone, and the process begins anew: it finds the new owner.
    """
    while True:
        snapshot_n = _newest_snapshot(place)
        last = max(_entries_after(place, snapshot_n - 1), default=snapshot_n)
        last = max(last, snapshot_n)
        if last >= 0:
            try:
                if is_mark(place.get(entry_key(last))):
                    return
            except KeyNotFound:  # a snapshot stands for it
                pass
        if put(place, entry_key(last + 1), encoded(owner)) is None:
            return


def _newest_snapshot(place: CopyPlace) -> int:
    newest = place.first_key_after(SNAPSHOTS, SNAPSHOTS)
    return -1 if newest is None else int(parse_snapshot_key(newest))


def _entries_after(place: CopyPlace, n: int) -> Iterator[int]:
    """The numbers of the entries after `n` that are there, or have a mark in their place, in order."""
    after = LOG if n < 0 else entry_key(n)
    while (found := place.first_key_after(LOG, after)) is not None:
        first = parse_entry_key(found)
        block = entry_block(first)
        numbers = [int(parse_entry_key(stored.key)) for stored in place.list_keys(entry_block_prefix(block))]
        yield from (number for number in numbers if number >= first)
        after = entry_key(block_entries(block)[-1])
