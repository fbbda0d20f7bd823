"""Find and delete orphans: data objects that no command can name any more (`core/maintenance/vacuum_rule.py`).

A search covers a part of one store, and lists it as a stream, so that it never holds all keys. Objects whose names
sparklog did not make are counted, but not deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec
import numpy as np

from sparklog.core.errors import SparklogError
from sparklog.core.maintenance.vacuum_rule import are_orphans
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.keys import TOPICS, parse_data_key
from sparklog.storage.object_store import ObjectStore, StoredKey

_KEYS_AT_ONCE = 4096


class OrphanSearch(msgspec.Struct, frozen=True):
    """A search for orphans with an n0 below `floor`, among the keys of one store that begin with `prefix`.

    `named`: the uploads that are not orphans, sorted. Each is the first 64 bits of its upload id, as a uint64 in native
    byte order (see `NamedUploads`).
    """

    store: StoreId
    prefix: str
    floor: EntryNumber
    named: bytes


class OrphansFound(msgspec.Struct, frozen=True):
    """The result of a search: numbers of objects, and sums of their bytes.

    `keys` were listed. Of these, `foreign` have names that sparklog did not make, and `orphans` (with `size_bytes`) are
    orphans. Of the orphans, `deleted` (with `deleted_bytes`) are gone and `failed` could not be deleted; `errors` has
    the first few reasons.
    """

    keys: int = 0
    orphans: int = 0
    size_bytes: int = 0
    foreign: int = 0
    deleted: int = 0
    deleted_bytes: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


def search_orphans(
    search: OrphanSearch, store: ObjectStore, *, delete: bool, check: Callable[[], None] = lambda: None
) -> OrphansFound:
    """List the keys that `search` covers, and count the orphans. With `delete`, delete each orphan by its exact name.

    `check` is called before each group of deletions, and raises if deletions are no longer allowed.

    Raises StoreUnavailable if the listing breaks off. After a failed deletion, the others are still tried.
    """
    named = np.frombuffer(search.named, dtype=np.uint64)
    keys = orphans = size_bytes = foreign = deleted = deleted_bytes = failed = 0
    errors: list[str] = []
    for chunk in _chunks(store.list_keys(search.prefix)):
        parsed = [(stored, parse_data_key(stored.key)) for stored in chunk]
        ours = [(stored, name) for stored, name in parsed if name is not None]
        keys, foreign = keys + len(parsed), foreign + len(parsed) - len(ours)
        are_orphan = are_orphans([(name.n0, name.upload_id) for _, name in ours], search.floor, named)
        unnamed = [stored for (stored, _), is_orphan in zip(ours, are_orphan, strict=True) if is_orphan]
        if delete and unnamed:
            check()
        for stored in unnamed:
            orphans, size_bytes = orphans + 1, size_bytes + stored.size_bytes
            if not delete:
                continue
            try:
                store.delete(stored.key)
                deleted, deleted_bytes = deleted + 1, deleted_bytes + stored.size_bytes
            except SparklogError as error:
                failed += 1
                errors = [*errors, str(error)][:3]
    return OrphansFound(keys, orphans, size_bytes, foreign, deleted, deleted_bytes, failed, tuple(errors))


def topic_folders(store: ObjectStore) -> Iterator[str]:
    """Yield the prefixes `topics/<topic id>-<topic>/` in a store, even of deleted topics. Each costs one request."""
    key = store.first_key_after(TOPICS, TOPICS)
    while key is not None:
        folder, slash, _ = key.removeprefix(TOPICS).partition("/")
        if slash:
            yield f"{TOPICS}{folder}/"
        # Skip everything in the folder: '0' is the character after '/'.
        key = store.first_key_after(TOPICS, f"{TOPICS}{folder}0" if slash else key)


def _chunks(keys: Iterable[StoredKey]) -> Iterator[list[StoredKey]]:
    stream = iter(keys)
    while chunk := list(islice(stream, _KEYS_AT_ONCE)):
        yield chunk
