"""The mark of a store's life, looked for beside what was written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.log.incarnation import AnotherIncarnation, begin_incarnation, check_incarnation
from sparklog.storage.keys import INCARNATION, index_key
from sparklog.storage.local.store import LocalStore

KEY = "append/0/0/0.arrow"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A store with an object and its index."""
    store = LocalStore(str(tmp_path / "store"))
    for key in (KEY, index_key(KEY)):
        store.put_if_absent(key, b"body")
    return store


def test_a_store_that_was_wiped_with_what_was_written_is_in_another_life(store: LocalStore, tmp_path: Path) -> None:
    """Nothing that was written to it before counts, which is more than that it can't be reached."""
    mark, _ = begin_incarnation(store, "a", "c" * 32)
    check_incarnation(store, mark.incarnation, (KEY,))
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").mkdir()
    with pytest.raises(AnotherIncarnation, match="the store was wiped, or is not mounted"):
        check_incarnation(store, mark.incarnation, (KEY,))


def test_what_is_not_beside_the_mark_is_elsewhere(store: LocalStore) -> None:
    mark, _ = begin_incarnation(store, "a", "c" * 32)
    store.delete(KEY)
    with pytest.raises(StoreUnavailable, match="found it elsewhere") as raised:
        check_incarnation(store, mark.incarnation, (KEY,))
    assert not isinstance(raised.value, AnotherIncarnation)


@pytest.mark.parametrize("mark", [b'{"incarnation": "another", "chain_id": "c"}', b"no mark"])
def test_another_disk_that_lacks_what_was_written_is_in_another_life(store: LocalStore, mark: bytes) -> None:
    store.put_if_absent(INCARNATION, mark)
    store.delete(KEY)
    with pytest.raises(AnotherIncarnation, match=r"found (another: the store was wiped or swapped|something else)"):
        check_incarnation(store, "registered", (KEY,))
