"""Entries as they are in the store, for inspecting the chain. No state is built from them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from sparklog.chain.entry import Entry, decode_entry
from sparklog.core.errors import KeyNotFound
from sparklog.storage.keys import entry_key
from sparklog.storage.object_store import ObjectStore

READ_WIDTH: Final = 16


class StoredEntry(NamedTuple):
    """An entry, and the size of its object."""

    entry: Entry
    size_bytes: int


def stored_entry(store: ObjectStore, n: int) -> StoredEntry | None:
    """Entry `n`, or None if its slot is empty: it was deleted as old. Raises ChainDamaged, UnsupportedVersion."""
    try:
        body = store.get(entry_key(n))
    except KeyNotFound:
        return None
    return StoredEntry(decode_entry(n, body, store.url), len(body))


def stored_entries(store: ObjectStore, first: int, end: int) -> Iterator[StoredEntry]:
    """Entries [first, end) that are still there, in order; READ_WIDTH are read in parallel. Raises ChainDamaged."""
    with ThreadPoolExecutor(READ_WIDTH) as pool:
        for stored in pool.map(lambda n: stored_entry(store, n), range(first, end)):
            if stored is not None:
                yield stored
