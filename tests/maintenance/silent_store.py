"""A store in memory that does not answer for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.storage.memory import MemoryStore


@contextmanager
def silent(name: str) -> Iterator[list[str]]:
    """Whoever asks the store of this name for the size of an object gets no answer. Collects what was asked for."""
    size = MemoryStore.size
    asked: list[str] = []

    def size_or_silence(store: MemoryStore, key: str) -> int:
        if store.url.endswith(f"-{name}"):
            asked.append(key)
            raise StoreUnavailable(f"{name} is down")
        return size(store, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "size", size_or_silence)
        yield asked
