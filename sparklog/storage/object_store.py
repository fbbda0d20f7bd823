"""The port to a store of immutable objects: everything that sparklog needs of a disk, a bucket or HDFS.

Keys are relative names separated by '/' (see `keys.py`). An object appears whole or not at all, and is never
overwritten. put-if-absent is the only synchronisation primitive: there is no rename, no append, no lock and no
clock. Every adapter passes the same test suite, `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sparklog.core.errors import KeyNotFound

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One object of a listing. `modified_ms` is the time of the last change, in ms since the epoch.

    It comes from the store's clock. A job does not begin if its own clock is days ahead of that. Safety never depends
    on it.
    """

    key: str
    size_bytes: int
    modified_ms: int


class Upload(Protocol):
    """An object being written as a stream. It stays invisible unless `publish` succeeds.

    Order of calls: `write` any number of times, then `publish` or `abort` once. As a context manager, it aborts when
    the block ends without a call of `publish`.
    """

    def write(self, body: Bytes) -> None:
        """Append bytes. The caller may reuse `body` once this returns.

        Raises StoreFull, StoreReadOnly, StoreUnavailable; after an error only `abort` is legal.
        """
        ...

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is free.

        Raises the errors of `ObjectStore.put_if_absent`.
        """
        ...

    def abort(self) -> None:
        """Discard the written bytes. Legal at any time and more than once; does nothing after `publish`."""
        ...

    def __enter__(self) -> Upload: ...

    def __exit__(self, *exc: object) -> None: ...


class ObjectStore(Protocol):
    """A store of immutable objects under relative keys. Instances are cheap and thread-safe.

    Each process makes its own instances. `read_ahead` is the number of ranged reads that are worth starting before
    their bytes are needed: 0 on a disk.
    """

    url: str
    read_ahead: int

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object if `key` is free. When this returns, the object is durable: it survives a loss of power.

        Raises KeyExists if an object is already there: read it back, because it may be the caller's own. Raises
        OutcomeUnknown if the caller's object may or may not be there now. Raises StoreUnavailable, StoreReadOnly,
        StoreFull or InvalidInput if the caller's object is certainly not there.
        """
        ...

    def upload(self, key: str) -> Upload:
        """Begin a put-if-absent with a streamed body."""
        ...

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Copy an object of `source` to `key` if that key is free. The bytes don't pass through this process.

        Return False if these two stores can't do that. Then nothing was done, and the caller must read and write
        instead. Raises KeyNotFound if the source object is absent, and the errors of `put_if_absent`.
        """
        ...

    def get(self, key: str) -> memoryview:
        """The whole object. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        ...

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`, but only if the store's address still leads to the place that has the keys `others`.

        `others` are keys that this process has put or seen. A directory becomes another place when a disk is mounted on
        it or unmounted. If one of `others` is absent, this is the wrong place, so StoreUnavailable is raised, even if
        `key` is absent too. A store whose address always leads to the same place does not look for `others`.
        """
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range, in the order of `ranges`, each at full length.

        Raises KeyNotFound, StoreUnavailable, StoreAccessDenied, and Damaged if the object ends before a range does.
        """
        ...

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        ...

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key."""
        ...

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """The smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'."""
        ...

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is not an error. Raises StoreUnavailable, StoreReadOnly."""
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects by their exact keys, where possible with fewer requests or syncs than one `delete` each.

        Absent keys are not an error. Raises the errors of `delete`; then some of the objects may be gone.
        """
        ...

    def free_bytes(self) -> int | None:
        """The number of bytes that can still be written, or None if the store does not report it. Never raises."""
        ...

    def remove_abandoned(self, before_ms: int) -> int:
        """Drop uploads that began before `before_ms` (ms since the epoch) and were not published. Return their number.

        On disks and HDFS, the time of the last write counts instead of the beginning. If a dropped upload is still
        open, its `publish` raises StoreUnavailable.
        """
        ...


def exists(store: ObjectStore, key: str) -> bool:
    """True if the store has an object under this key. Raises the errors of `ObjectStore.size`, except KeyNotFound."""
    try:
        store.size(key)
    except KeyNotFound:
        return False
    return True


def body_if_there(store: ObjectStore, key: str) -> bytes | None:
    """Return the bytes of an object, copied into memory; None if it is missing.

    They are copied because a local store maps files: thousands of open maps would need as many file descriptors. Raises
    the errors of `ObjectStore.get`, except KeyNotFound.
    """
    try:
        return bytes(store.get(key))
    except KeyNotFound:
        return None
