"""The metadata store of a cluster, read through its coordinators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import Damaged, InvalidInput, OffsetOutOfRange, StoreReadOnly
from sparklog.storage.http.calls import NoCoordinator
from sparklog.storage.http.coordinator_addresses import Coordinators
from sparklog.storage.keys import check_key, check_prefix
from sparklog.storage.object_store import Bytes, ObjectStore, StoredKey
from sparklog.wire.metadata_messages import METADATA, MOST_KEYS, MetadataKeys

_META = METADATA.rpartition("/")[2] + "/"  # the prefix of all metadata keys
_keys_decoder = msgspec.msgpack.Decoder(MetadataKeys)


class HttpStore:
    """The metadata store as an ObjectStore for reading. Every write raises StoreReadOnly: only coordinators write."""

    url: str
    read_ahead: int = 0

    def __init__(self, coordinators: Coordinators) -> None:
        self.url = ",".join(coordinators.addresses)
        self._coordinators = coordinators

    def __repr__(self) -> str:
        return f"HttpStore({self.url!r})"

    def get(self, key: str) -> memoryview:
        """The whole object. Raises KeyNotFound, StoreUnavailable, and the errors of `Coordinators.get`."""
        return memoryview(self._coordinators.get(_path(key)).body)

    def get_beside(self, key: str, others: Collection[str]) -> memoryview:
        """As `get`. Does not look for `others`: this process never writes to this store. See ObjectStore."""
        return self.get(key)

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes [start, end) of each range, with one request for each range. See ObjectStore."""
        return [self._range(key, start, end) for start, end in ranges]

    def size(self, key: str) -> int:
        """Length in bytes. Raises the errors of `get`."""
        stored = self._page(check_key(key), "", 1).keys
        if stored and stored[0].key == key:
            return stored[0].size_bytes
        return len(self.get(key))  # absent, or created since the listing

    def list_keys(self, prefix: str) -> Iterator[StoredKey]:
        """All objects whose key begins with `prefix`, in ascending order, requested one page at a time."""
        after, more = "", True
        while more:
            page = self._page(prefix, after, MOST_KEYS)
            for stored in page.keys:
                yield StoredKey(stored.key, stored.size_bytes, stored.modified_ms)
                after = stored.key
            more = page.more

    def first_key_after(self, prefix: str, key: str) -> str | None:
        """The smallest key > `key` that begins with `prefix`, or None. `prefix` ends with '/'."""
        if not check_prefix(prefix).endswith("/"):
            raise InvalidInput(f"first_key_after takes a prefix that ends with '/', not {prefix!r}")
        keys = self._page(prefix, key, 1).keys
        return keys[0].key if keys else None

    def free_bytes(self) -> None:
        """None: coordinators do not report free space."""
        return None

    # ---- writes, which only coordinators do -----------------------------------------------------

    def put_if_absent(self, key: str, body: Bytes) -> None:
        """Always raises StoreReadOnly."""
        self._refuse("put", key)

    def upload(self, key: str) -> NoReturn:
        """Always raises StoreReadOnly."""
        self._refuse("put", key)

    def copy_from(self, source: ObjectStore, source_key: str, key: str) -> bool:
        """Always raises StoreReadOnly."""
        self._refuse("put", key)

    def delete(self, key: str) -> None:
        """Always raises StoreReadOnly."""
        self._refuse("delete", key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Always raises StoreReadOnly."""
        self._refuse("delete", counted(len(keys), "object"))

    def remove_abandoned(self, before_ms: int) -> int:
        """Always raises StoreReadOnly."""
        self._refuse("remove", "abandoned uploads")

    # ---- inside ---------------------------------------------------------------------------------

    def _range(self, key: str, start: int, end: int) -> memoryview:
        if not 0 <= start <= end:
            raise InvalidInput(f"a range of bytes needs 0 <= start <= end, not [{start}, {end}) of {key}")
        if start == end:  # HTTP has no such range
            if self.size(key) < end:
                raise self._too_short(key, start, end)
            return memoryview(b"")
        try:
            answer = self._coordinators.get(_path(key), headers={"range": f"bytes={start}-{end - 1}"})
        except OffsetOutOfRange as error:
            raise self._too_short(key, start, end) from error
        if len(answer.body) != end - start:
            raise NoCoordinator(f"wanted {end - start} bytes of {key}, found {len(answer.body)}, at {self.url}")
        return memoryview(answer.body)

    def _too_short(self, key: str, start: int, end: int) -> Damaged:
        return Damaged(f"wanted bytes [{start}, {end}) of {key} in {self.url}, found that it ends before")

    def _page(self, prefix: str, after: str, limit: int) -> MetadataKeys:
        fields = {"prefix": check_prefix(prefix), "after": check_prefix(after), "limit": str(limit)}
        body = self._coordinators.get(METADATA, fields).body
        try:
            return _keys_decoder.decode(body)
        except msgspec.DecodeError as error:
            raise NoCoordinator(f"the keys that {self.url} lists can't be read: {error}") from error

    def _refuse(self, verb: str, what: str) -> NoReturn:
        raise StoreReadOnly(
            f"wanted to {verb} {what}, but through {self.url} the metadata can only be read: give --cluster the place "
            "of the metadata itself, which 'sparklog cluster info' shows"
        )


def _path(key: str) -> str:
    if not check_key(key).startswith(_META):
        raise InvalidInput(f"coordinators serve keys that begin with {_META}, found {key!r}")
    return f"{METADATA}/{key.removeprefix(_META)}"
