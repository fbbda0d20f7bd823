"""A mirror as an `ObjectStore`: it has the same keys as the original chain, and stores them under copies/."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sparklog.storage.keys import mirror_key, mirror_prefix, original_key
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey, Upload


class MirrorPlace:
    """The mirror of chain `chain_id` on `store`. Each object has the key of its original in the chain."""

    read_ahead = 0

    def __init__(self, store: ObjectStore, chain_id: str) -> None:
        self.store = store
        self.chain_id = chain_id
        self.url = f"{store.url}/{mirror_prefix(chain_id)}"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self.store.put_if_absent(self._key(key), body)

    def upload(self, key: str) -> Upload:
        return self.store.upload(self._key(key))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return self.store.copy_from(source, source_key, self._key(key))

    def get(self, key: str) -> memoryview:
        return self.store.get(self._key(key))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return self.store.get_beside(self._key(key), [self._key(other) for other in others])

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return self.store.get_ranges(self._key(key), ranges)

    def size(self, key: str) -> int:
        return self.store.size(self._key(key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        for stored in self.store.list_keys(self._key(prefix)):
            yield StoredKey(original_key(self.chain_id, stored.key), stored.size_bytes, stored.modified_ms)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        first = self.store.first_key_after(self._key(prefix), self._key(key))
        return None if first is None else original_key(self.chain_id, first)

    def delete(self, key: str) -> None:
        self.store.delete(self._key(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        self.store.delete_many([self._key(key) for key in keys])

    def free_bytes(self) -> int | None:
        return self.store.free_bytes()

    def remove_abandoned(self, before_ms: int) -> int:
        return self.store.remove_abandoned(before_ms)

    def _key(self, key: str) -> str:
        return mirror_key(self.chain_id, key)
