"""A search for orphans lists its own part of a store, and touches only what nothing names below FLOOR."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from sparklog.core.types import EntryNumber, StoreId
from sparklog.log.objects import orphans
from sparklog.log.objects.orphans import OrphanSearch, search_orphans, topic_folders
from sparklog.storage.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(f"memory://{uuid.uuid4().hex}")


def append_key(n0: int, upload: int, suffix: str = "arrow") -> str:
    upload_id = f"{upload:016x}{0:016x}"
    return f"append/{upload_id[:2]}/{n0:020d}-{upload_id}.{suffix}"


def search(prefix: str, floor: int, named: list[int]) -> OrphanSearch:
    return OrphanSearch(StoreId("a"), prefix, EntryNumber(floor), np.array(sorted(named), dtype=np.uint64).tobytes())


def test_only_what_is_below_floor_and_named_by_nothing_goes(  # M: F-09 F-05
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_KEYS_AT_ONCE", 2)
    old_named, old, young, other_prefix = 0xA1 << 56, 0xA2 << 56, 0xA3 << 56, 0xB0 << 56
    for n0, upload in ((4, old_named), (4, old), (5, young), (4, other_prefix)):
        for suffix in ("arrow", "index"):
            store.put_if_absent(append_key(n0, upload, suffix), b"12")
    store.put_if_absent("append/a4/note", b"")
    asked = search("append/a", 5, [old_named, 1])
    counted = search_orphans(asked, store, delete=False)
    assert (counted.keys, counted.orphans, counted.size_bytes, counted.foreign, counted.deleted) == (7, 2, 4, 1, 0)
    found = search_orphans(asked, store, delete=True)
    assert (found.deleted, found.deleted_bytes, found.failed) == (2, 4, 0)
    left = {each.key for each in store.list_keys("")}
    assert append_key(4, old) not in left
    assert append_key(4, old, "index") not in left
    assert len(left) == 7


def test_topic_folders_are_found_whatever_their_names(store: MemoryStore) -> None:
    folders = [f"topics/{name}/" for name in ("1-a", "1-a-b", "1-a.b", "1-a0", "10-a", "2-z")]
    for folder in folders:
        for partition in range(3):
            store.put_if_absent(f"{folder}{partition}/x", b"")
    store.put_if_absent("topics/readme", b"")
    store.put_if_absent("topicsX", b"")
    assert sorted(topic_folders(store)) == sorted(folders)
