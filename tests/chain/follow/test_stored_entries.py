"""Entries as they are in the store."""

from __future__ import annotations

import uuid

import pytest

from sparklog.chain.entry import NO_PREVIOUS, Entry, encode_entry
from sparklog.chain.follow.stored_entries import READ_WIDTH, stored_entries, stored_entry
from sparklog.core.coordination import Author
from sparklog.core.errors import ChainDamaged
from sparklog.core.types import EntryNumber
from sparklog.storage.keys import entry_key
from sparklog.storage.memory import MemoryStore

COUNT = 3 * READ_WIDTH
DELETED = (0, 1, READ_WIDTH)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(f"memory://{uuid.uuid4().hex}")
    for n in range(COUNT):
        if n not in DELETED:
            entry = Entry("c" * 32, EntryNumber(n), Author("client", "test"), "f" * 32, NO_PREVIOUS, n, ())
            store.put_if_absent(entry_key(n), encode_entry(entry))
    return store


def test_entries_come_in_order_with_their_sizes_and_without_those_that_were_deleted(store: MemoryStore) -> None:
    found = list(stored_entries(store, 0, COUNT))
    assert [each.entry.n for each in found] == [n for n in range(COUNT) if n not in DELETED]
    assert [each.size_bytes for each in found] == [len(store.get(entry_key(each.entry.n))) for each in found]


def test_damage_names_the_entry_and_its_store(store: MemoryStore) -> None:
    store.put_if_absent(entry_key(COUNT), b"entry 1 nothing")
    with pytest.raises(ChainDamaged, match=f"{entry_key(COUNT)}.*{store.url}"):
        stored_entry(store, COUNT)
