"""Restore the index of an object if it is missing or damaged.

The restored index must equal, byte for byte, the index that the chain names. It is rebuilt from the object if this
version of Arrow writes the same bytes, and otherwise copied from another store. While the index is missing, readers
rebuild it in memory from the whole object.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa

from sparklog.core.errors import KeyExists, KeyNotFound, OutcomeUnknown, SparklogError
from sparklog.core.types import NewObject
from sparklog.log.batch import crc32c
from sparklog.log.index import encode_index, rebuild_index
from sparklog.storage.keys import index_key
from sparklog.storage.object_store import Bytes, ObjectStore


def rebuilt_index(store: ObjectStore, key: str, named: NewObject) -> pa.Buffer | None:
    """Rebuild the index from the whole object, and return its bytes.

    Returns None if these bytes differ from the index that the chain names: another version of Arrow wrote that index.
    Raises KeyNotFound if the object is missing, Damaged if it is not the object that the chain names, and
    UnsupportedVersion if it has another format.
    """
    body = encode_index(rebuild_index(key, store.get(key), named))
    return body if _is_named(body, named) else None


def mend_index(store: ObjectStore, key: str, named: NewObject, others: Iterable[ObjectStore]) -> bool:
    """Restore the index of an undamaged object, from the object or from `others`. Return True if the store has it now.

    A damaged index is first deleted by its exact name. If this process dies before it has put the new index, run this
    again. Raises what `rebuilt_index` raises, and the errors of `store`. Errors of `others` are ignored.
    """
    body: Bytes | pa.Buffer | None = rebuilt_index(store, key, named)
    if body is None:
        body = _copied(key, named, others)
    if body is None:
        return False
    index = index_key(key)
    if not _is_there(store, index, named):
        store.delete(index)
        with suppress(KeyExists, OutcomeUnknown):
            store.put_if_absent(index, memoryview(body))
    return _is_there(store, index, named)


def _copied(key: str, named: NewObject, others: Iterable[ObjectStore]) -> memoryview | None:
    for other in others:
        with suppress(SparklogError):  # the next store may have it
            body = other.get(index_key(key))
            if _is_named(pa.py_buffer(body), named):
                return body
    return None


def _is_there(store: ObjectStore, index: str, named: NewObject) -> bool:
    try:
        return _is_named(pa.py_buffer(store.get(index)), named)
    except KeyNotFound:
        return False


def _is_named(body: pa.Buffer, named: NewObject) -> bool:
    return body.size == named.index_size_bytes and crc32c(body) == named.index_crc32c
