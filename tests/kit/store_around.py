"""A store around another one: every operation passes through one method."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey, Upload


class StoreAround:
    """Hands operations on to `inner`. A subclass decides in `call` what befalls them."""

    read_ahead = 0

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.url = inner.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def call(self, method: str, key: str, perform: Callable[[], Any]) -> Any:
        """One call of a method of the port, or of "write", "publish" or "abort" of an upload. A key may be a prefix."""
        return perform()

    def put_if_absent(self, key: str, body: Bytes) -> None:
        self.call("put_if_absent", key, lambda: self.inner.put_if_absent(key, body))

    def upload(self, key: str) -> UploadAround:
        return UploadAround(self, key, self.call("upload", key, lambda: self.inner.upload(key)))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        inner = source.inner if isinstance(source, StoreAround) else source
        return bool(self.call("copy_from", key, lambda: self.inner.copy_from(inner, source_key, key)))

    def get(self, key: str) -> memoryview:
        return memoryview(self.call("get", key, lambda: self.inner.get(key)))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return memoryview(self.call("get", key, lambda: self.inner.get_beside(key, others)))

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return list(self.call("get_ranges", key, lambda: self.inner.get_ranges(key, ranges)))

    def size(self, key: str) -> int:
        return int(self.call("size", key, lambda: self.inner.size(key)))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        return iter(self.call("list_keys", prefix, lambda: self.inner.list_keys(prefix)))

    def first_key_after(self, prefix: str, key: str) -> str | None:
        found: str | None = self.call("first_key_after", prefix, lambda: self.inner.first_key_after(prefix, key))
        return found

    def delete(self, key: str) -> None:
        self.call("delete", key, lambda: self.inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def free_bytes(self) -> int | None:
        return self.inner.free_bytes()

    def remove_abandoned(self, before_ms: int) -> int:
        return int(self.call("remove_abandoned", "", lambda: self.inner.remove_abandoned(before_ms)))


class UploadAround:
    """An upload to a store around another one."""

    def __init__(self, store: StoreAround, key: str, inner: Upload) -> None:
        self._store, self._key, self._inner = store, key, inner

    def write(self, body: Bytes) -> None:
        self._store.call("write", self._key, lambda: self._inner.write(body))

    def publish(self) -> None:
        self._store.call("publish", self._key, self._inner.publish)

    def abort(self) -> None:
        self._store.call("abort", self._key, self._inner.abort)

    def __enter__(self) -> UploadAround:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()
