"""Entries as they are in the store, for inspecting the chain. No state is built from them.

A stalled writer may put an entry into a block that was deleted. So entries count only if the void mark of their block
is absent after they were read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from sparklog.chain.entry import Entry, decode_entry
from sparklog.core.errors import KeyNotFound
from sparklog.storage.keys import entry_block, entry_key, void_key
from sparklog.storage.object_store import ObjectStore

READ_WIDTH: Final = 16


class StoredEntry(NamedTuple):
    """An entry, and the size of its object."""

    entry: Entry
    size_bytes: int


def stored_entry(store: ObjectStore, n: int) -> StoredEntry | None:
    """Return entry `n`, or None if its slot is empty. Raises ChainDamaged, UnsupportedVersion, and the store's errors.

    The entry counts only if its block has no void mark: check that afterwards with `deleted_blocks`.
    """
    try:
        body = store.get(entry_key(n))
    except KeyNotFound:
        return None
    return StoredEntry(decode_entry(n, body, store.url), len(body))


def stored_entries(store: ObjectStore, first: int, end: int) -> Iterator[StoredEntry]:
    """Yield the existing entries of [first, end), in order, except in blocks with a void mark.

    All are read before the first one is yielded, READ_WIDTH in parallel. Raises what `stored_entry` raises.
    """
    with ThreadPoolExecutor(READ_WIDTH) as pool:
        existing = [stored for stored in pool.map(lambda n: stored_entry(store, n), range(first, end)) if stored]
    deleted = deleted_blocks(store, (stored.entry.n for stored in existing))
    yield from (stored for stored in existing if entry_block(stored.entry.n) not in deleted)


def deleted_blocks(store: ObjectStore, entries: Iterable[int]) -> frozenset[int]:
    """Return the blocks of these entries that have a void mark. Call it after reading the entries, not before."""
    return frozenset(block for block in {entry_block(n) for n in entries} if _is_marked(store, block))


def _is_marked(store: ObjectStore, block: int) -> bool:
    try:
        store.get(void_key(block))
    except KeyNotFound:
        return False
    return True
