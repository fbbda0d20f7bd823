"""The port to a store of immutable objects: everything sparklog asks of a disk, a bucket or HDFS.

Keys are relative, '/'-separated names (see `keys.py`). An object appears whole or not at all, is named
once, and is never overwritten; the only synchronisation primitive is put-if-absent. There is no rename,
no append, no lock and no clock here. Every adapter passes the same suite, `tests/contract/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class StoredKey:
    """One object of a listing. `modified_ms` is the store's clock: for people, never for safety."""

    key: str
    size_bytes: int
    modified_ms: int


class Upload(Protocol):
    """An object being written as a stream. Nobody sees it before `publish`, and nobody ever if that is not reached.

    Order of calls: `write` any number of times, then `publish` or `abort` once. Used as a context
    manager it aborts unless `publish` was reached.
    """

    def write(self, body: Bytes) -> None:
        """Add bytes to the end; the caller may change them when this returns.

        Raises StoreFull, StoreReadOnly, StoreUnavailable; then only `abort` is legal.
        """
        ...

    def publish(self) -> None:
        """Make the whole object durable and visible under its key, if the key is absent.

        Raises what `ObjectStore.put_if_absent` raises.
        """
        ...

    def abort(self) -> None:
        """Drop what was written. Legal at any time, also twice; after `publish` it does nothing."""
        ...

    def __enter__(self) -> Upload: ...

    def __exit__(self, *exc: object) -> None: ...


class ObjectStore(Protocol):
    """A store of immutable objects under relative keys. Instances are cheap and safe for threads; one per process.

    `read_ahead` is how many ranged reads are worth having under way beside the one that is needed: 0 on a disk.
    """

    url: str
    read_ahead: int

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Write a whole object, durably (F-01), if nothing is under `key`.

        Raises KeyExists (somebody's object is there: read it back, it may be one's own), OutcomeUnknown (it may
        or may not be there now), StoreUnavailable, StoreReadOnly or StoreFull (it is surely not there).
        """
        ...

    def upload(self, key: str) -> Upload:
        """Begin a put-if-absent whose body comes as a stream."""
        ...

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Put `key` with the bytes of an object of `source` if it is absent, without their coming to this process.

        False, with nothing done: these two stores can't; read and write then (S-08). Raises KeyNotFound if the
        source's object is not there, and what `put_if_absent` raises.
        """
        ...

    def get(self, key: str) -> memoryview:
        """The whole object. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        ...

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """The bytes [start, end) of each range, in the order asked for, at full length.

        Raises KeyNotFound, StoreUnavailable, StoreAccessDenied; Damaged if the object ends before a range does.
        """
        ...

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFound, StoreUnavailable, StoreAccessDenied."""
        ...

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order of key."""
        ...

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """The smallest key > `key` among those that begin with `prefix`, or None. `prefix` ends with '/'."""
        ...

    def delete(self, key: str) -> None:
        """Remove one object by its exact key. An absent key is no error. Raises StoreUnavailable, StoreReadOnly."""
        ...

    def free_bytes(self) -> int | None:
        """How much can still be written; None if the store does not say. Never raises."""
        ...

    def remove_abandoned(self, before_ms: int) -> int:
        """Drop what uploads left that began before `before_ms` and were never published. Returns how many."""
        ...
