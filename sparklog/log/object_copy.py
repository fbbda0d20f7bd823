"""Copy a data object with its index from one store to another: server side where both stores can, else through here."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from sparklog.core.errors import Damaged, KeyExists, KeyNotFound, OutcomeUnknown
from sparklog.core.readable import exact_amount
from sparklog.core.types import NewObject
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import ObjectStore

_PIECE_BYTES: Final = 8 << 20


def copy_object(source: ObjectStore, target: ObjectStore, key: str, named: NewObject) -> None:
    """Copy the object, then its index. What is there already with the right size counts as copied.

    Raises KeyNotFound, Damaged (a size is not the one that the chain names), and the errors of either store.
    """
    for name, size_bytes in ((key, named.size_bytes), (index_key(key), named.index_size_bytes)):
        with suppress(KeyNotFound):
            if target.size(name) == size_bytes:
                continue
        found = source.size(name)
        if found != size_bytes:
            raise _wrong_size(source, name, size_bytes, found)
        with suppress(KeyExists, OutcomeUnknown):  # somebody else copies it, or it may be there: its size tells
            if not target.copy_from(source, name, name):
                _stream(source, target, name, size_bytes)
        found = target.size(name)
        if found != size_bytes:
            raise _wrong_size(target, name, size_bytes, found)


def _stream(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int) -> None:
    with target.upload(key) as upload:
        for start in range(0, size_bytes, _PIECE_BYTES):
            (piece,) = source.get_ranges(key, [(start, min(start + _PIECE_BYTES, size_bytes))])
            upload.write(piece)
        upload.publish()


def _wrong_size(store: ObjectStore, key: str, wanted: int, found: int) -> Damaged:
    return Damaged(f"wanted {key} of {exact_amount(wanted)} in {store.url}, found {exact_amount(found)}")
