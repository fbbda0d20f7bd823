"""A store of one simulated process: a dictionary behind the port, without locks, threads and times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sparklog.core.errors import Damaged, KeyExists, KeyNotFound
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey


class DictStore:
    """`bodies` by key. A subclass may look at what is added, and at what is dropped."""

    read_ahead = 0

    def __init__(self, url: str, bodies: dict[str, bytes]) -> None:
        self.url = url
        self.bodies = bodies

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # ---- for subclasses -------------------------------------------------------------------------

    def add(self, key: str, body: bytes) -> bool:
        """Whether the key was free."""
        if key in self.bodies:
            return False
        self.bodies[key] = body
        return True

    def drop(self, key: str) -> None:
        self.bodies.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        """Those that begin with the prefix, ascending."""
        return sorted(key for key in self.bodies if key.startswith(prefix))

    # ---- the port -------------------------------------------------------------------------------

    def put_if_absent(self, key: str, body: Bytes) -> None:
        if not self.add(key, bytes(body)):
            raise KeyExists(f"{key} at {self.url}")

    def upload(self, key: str) -> DictUpload:
        return DictUpload(self, key)

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        return False

    def get(self, key: str) -> memoryview:
        return memoryview(self.body(key))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        body = self.get(key)
        if any(end > len(body) for _, end in ranges):
            raise Damaged(f"{key} at {self.url} ends at byte {len(body)}, wanted {ranges}")
        return [body[start:end] for start, end in ranges]

    def size(self, key: str) -> int:
        return len(self.body(key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        return iter([StoredKey(key, len(self.bodies[key]), 0) for key in self.keys(prefix)])

    def first_key_after(self, prefix: str, key: str) -> str | None:
        return next((each for each in self.keys(prefix) if each > key), None)

    def delete(self, key: str) -> None:
        self.drop(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def free_bytes(self) -> int | None:
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        return 0

    def body(self, key: str) -> bytes:
        try:
            return self.bodies[key]
        except KeyError:
            raise KeyNotFound(f"{key} at {self.url}") from None


class DictUpload:
    """An upload: nothing of it is there before it is published."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store, self._key = store, key
        self._parts: list[bytes] = []

    def write(self, body: Bytes) -> None:
        self._parts.append(bytes(body))

    def publish(self) -> None:
        self._store.put_if_absent(self._key, b"".join(self._parts))

    def abort(self) -> None:
        self._parts.clear()

    def __enter__(self) -> DictUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()
