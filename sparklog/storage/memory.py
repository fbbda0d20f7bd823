"""A store in the memory of this process, for tests: it is gone when the process ends."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Sequence

from sparklog.core.errors import Damaged, InvalidInput, KeyExists, KeyNotFound, StoreUnavailable
from sparklog.core.names.address_parts import parse_memory_url
from sparklog.host.clock import now_ms
from sparklog.storage.keys import check_key, check_prefix
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey


class _Contents:
    """The contents of one named store. `keys` holds the keys of `objects`, sorted; `lock` guards everything."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.keys: list[str] = []
        self.objects: dict[str, tuple[bytes, int]] = {}  # body, time of the put in ms
        self.uploads: dict[MemoryUpload, int] = {}  # neither published nor aborted: start time in ms

    def put_if_absent(self, url: str, key: str, body: bytes) -> None:
        """Add an object. Raises KeyExists. The caller holds the lock."""
        if key in self.objects:
            raise KeyExists(f"wanted to put {key} into {url} if absent, found an object there")
        self.objects[key] = body, now_ms()
        insort(self.keys, key)


_contents_by_name: dict[str, _Contents] = {}
_contents_lock = threading.Lock()


class MemoryStore:
    """The store `memory://name`: all instances with that name in this process share their objects."""

    url: str
    read_ahead: int = 0

    def __init__(self, url: str) -> None:
        name = parse_memory_url(url)
        self.url = f"memory://{name}"
        with _contents_lock:
            self._contents = _contents_by_name.setdefault(name, _Contents())

    def __repr__(self) -> str:
        return f"MemoryStore({self.url!r})"

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object if `key` is free. Raises KeyExists."""
        check_key(key)
        whole = bytes(body)
        with self._contents.lock:
            self._contents.put_if_absent(self.url, key, whole)

    def upload(self, key: str) -> MemoryUpload:
        """Begin a put-if-absent with a streamed body."""
        return MemoryUpload(self.url, self._contents, check_key(key))

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Put an object of another memory store under `key` if that is free. See ObjectStore.

        Return False if `source` is another kind of store.
        """
        if not isinstance(source, MemoryStore):
            return False
        self.put_if_absent(key, source.get(source_key))
        return True

    def get(self, key: str) -> memoryview:
        """The whole object, not copied. Raises KeyNotFound."""
        return memoryview(self._body(key))

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`. Does not look for `others`: no disk can be mounted over a store in memory. See ObjectStore."""
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range, not copied. Raises KeyNotFound, Damaged."""
        body = self.get(key)
        for start, end in ranges:
            if not 0 <= start <= end:
                raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
            if end > len(body):
                raise Damaged(
                    f"wanted bytes [{start}, {end}) of {key} in {self.url}, found that it ends at byte {len(body)}"
                )
        return [body[start:end] for start, end in ranges]

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound."""
        return len(self._body(key))

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key, as of this call."""
        check_prefix(prefix)
        with self._contents.lock:
            listed: list[StoredKey] = []
            for position in range(bisect_left(self._contents.keys, prefix), len(self._contents.keys)):
                key = self._contents.keys[position]
                if not key.startswith(prefix):
                    break
                body, modified_ms = self._contents.objects[key]
                listed.append(StoredKey(key, len(body), modified_ms))
        return iter(listed)

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """The smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'."""
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        with self._contents.lock:
            keys = self._contents.keys
            position = max(bisect_right(keys, key), bisect_left(keys, prefix))
            return keys[position] if position < len(keys) and keys[position].startswith(prefix) else None

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is not an error."""
        check_key(key)
        with self._contents.lock:
            if self._contents.objects.pop(key, None) is not None:
                del self._contents.keys[bisect_left(self._contents.keys, key)]

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys. Absent keys are not an error."""
        for key in [check_key(key) for key in keys]:
            self.delete(key)

    def free_bytes(self) -> int | None:
        """None: a store in memory has no size limit of its own."""
        return None

    def remove_abandoned(self, before_ms: int) -> int:
        """Drop uploads that began before `before_ms`: their `publish` raises StoreUnavailable. Return their number."""
        with self._contents.lock:
            gone = [upload for upload, began_ms in self._contents.uploads.items() if began_ms < before_ms]
            for upload in gone:
                del self._contents.uploads[upload]
        return len(gone)

    def _body(self, key: str) -> bytes:
        check_key(key)
        with self._contents.lock:
            stored = self._contents.objects.get(key)
        if stored is None:
            raise KeyNotFound(f"wanted {key}, found nothing in {self.url}")
        return stored[0]


class MemoryUpload:
    """A put-if-absent with a streamed body. One thread at a time."""

    def __init__(self, url: str, contents: _Contents, key: str) -> None:
        self._url = url
        self._contents = contents
        self._key = key
        self._body = bytearray()
        self._ended = False
        with contents.lock:
            contents.uploads[self] = now_ms()

    def write(self, body: Bytes) -> None:
        """Append bytes."""
        self._check_open()
        self._body += memoryview(body).cast("B")

    def publish(self) -> None:
        """Make the whole object visible if its key is free.

        Raises KeyExists, and StoreUnavailable if `remove_abandoned` has dropped this upload.
        """
        self._check_open()
        self._ended = True
        with self._contents.lock:
            if self._contents.uploads.pop(self, None) is None:
                raise StoreUnavailable(f"wanted to publish {self._key}, found that its upload was removed as abandoned")
            self._contents.put_if_absent(self._url, self._key, bytes(self._body))

    def abort(self) -> None:
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        self._ended = True
        self._body = bytearray()
        with self._contents.lock:
            self._contents.uploads.pop(self, None)

    def __enter__(self) -> MemoryUpload:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    def _check_open(self) -> None:
        if self._ended:
            raise InvalidInput(f"the upload of {self._key} has ended or failed: begin another one")
