"""The copies of a lost chain on several stores, read as one chain: the longest that they give together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from sparklog.chain.copy_place import CopyPlace
from sparklog.chain.entry import decode_entry
from sparklog.chain.owner import Owner, decoded, encoded, is_mark
from sparklog.chain.store_copy import put
from sparklog.core.errors import ChainDamaged, Conflict, KeyNotFound
from sparklog.storage.keys import (
    LOG,
    SNAPSHOTS,
    VOID,
    entry_block,
    entry_block_prefix,
    entry_key,
    parse_entry_key,
    parse_snapshot_key,
)
from sparklog.storage.object_store import ObjectStore

T = TypeVar("T")


class CopiedChain(CopyPlace):
    """A view on all copies, for reading: what one store lacks, or has damaged, comes from the next.

    With `last`, nothing after that entry is there.
    """

    def __init__(self, stores: Sequence[ObjectStore], chain_id: str, last: int | None = None) -> None:
        super().__init__(stores[0], chain_id)
        self._places = [CopyPlace(store, chain_id) for store in stores]
        self._last = last

    def get(self, key: str) -> memoryview:
        if key.startswith(LOG):
            return self._entry(key)
        if key.startswith(VOID):
            return self._mark(key)
        return self._first(key, lambda place: place.get(key))

    def size(self, key: str) -> int:
        return self._first(key, lambda place: place.size(key))

    def first_key_after(self, prefix: str, key: str) -> str | None:
        if prefix == SNAPSHOTS and self._last is not None:
            key = max(key, f"{SNAPSHOTS}{10**20 - 2 - self._last:020d}")
        found = [place.first_key_after(prefix, key) for place in self._places]
        return min((each for each in found if each is not None), default=None)

    def _entry(self, key: str) -> memoryview:
        n = parse_entry_key(key)
        damaged: ChainDamaged | None = None
        for place in self._places if self._last is None or n <= self._last else ():
            try:
                body = place.get(key)
                if not is_mark(body):
                    decode_entry(n, body, place.url)
                    return body
            except KeyNotFound:
                continue
            except ChainDamaged as error:
                damaged = error
        raise damaged or KeyNotFound(f"no copy of {key} at {self.url}")

    def _mark(self, key: str) -> memoryview:
        """A block is gone here only if it is gone from every store: one that still has it is enough."""
        *others, last = self._places
        for place in others:
            place.get(key)
        return last.get(key)

    def _first(self, key: str, read: Callable[[CopyPlace], T]) -> T:
        for place in self._places:
            try:
                return read(place)
            except KeyNotFound:
                continue
        raise KeyNotFound(f"no copy of {key} at {self.url}")


def last_copied(place: CopyPlace) -> int:
    """The entry up to which the copy on one store is whole; -1 if it has none."""
    newest = place.first_key_after(SNAPSHOTS, SNAPSHOTS)
    last = -1 if newest is None else int(parse_snapshot_key(newest))
    for block in count(entry_block(max(last, 0))):
        numbers = [int(parse_entry_key(stored.key)) for stored in place.list_keys(entry_block_prefix(block))]
        for n in numbers:
            if n == last + 1 and not (n == numbers[-1] and is_mark(place.get(entry_key(n)))):
                last = n
        if not numbers or last < numbers[-1]:
            return last
    raise AssertionError("blocks do not end")


def close(place: CopyPlace, owner: Owner) -> None:
    """Put the mark of a restore behind the last copy, so that no process of the lost chain adds another one.

    Raises Conflict if another restore was faster.
    """
    n = last_copied(place) + 1
    while (there := put(place, entry_key(n), encoded(owner))) is not None:
        if is_mark(there):
            other = decoded(there, entry_key(n), place.url)
            if other.chain_id != owner.chain_id:
                raise Conflict(f"the cluster was restored as {other.chain_id} at {other.cluster}, says {place.url}")
            return
        n += 1
