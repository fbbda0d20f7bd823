"""What is particular to stores in memory; the rest is the contract."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput, KeyNotFound
from sparklog.storage.memory import MemoryStore


def test_stores_of_one_name_share_their_objects_and_others_do_not() -> None:
    MemoryStore("memory://shared-name").put_if_absent("a", b"body")
    assert bytes(MemoryStore("memory://shared-name/").get("a")) == b"body"
    for other in ("memory://other-name", "memory://shared-name/below"):
        with pytest.raises(KeyNotFound):
            MemoryStore(other).get("a")


# M: S-08
def test_reads_are_not_copies() -> None:
    store = MemoryStore("memory://no-copies")
    body = b"x" * 100
    store.put_if_absent("a", body)
    assert store.get("a").obj is body
    assert store.get_ranges("a", [(1, 2)])[0].obj is body


@pytest.mark.parametrize("url", ["memory://", "memory:name", "memory:///name", "memory://a/../b", "memory://a b"])
def test_a_store_in_memory_needs_a_name(url: str) -> None:
    with pytest.raises(InvalidInput, match="memory://name"):
        MemoryStore(url)
