"""Delete objects by their exact names, never by prefix. Each object is deleted before its index."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.errors import SparklogError
from sparklog.core.types import ObjectNumber, StoreId
from sparklog.log.cluster_stores import Stores
from sparklog.storage.keys import index_key


class ObjectToDelete(msgspec.Struct, frozen=True, array_like=True):
    """A retired object to delete.

    `stores`: the stores that may have a copy. `size_bytes` includes the index.
    """

    number: ObjectNumber
    key: str
    stores: tuple[StoreId, ...]
    size_bytes: int


class DeletionFailed(msgspec.Struct, frozen=True):
    """An object that could not be deleted from all its stores. The chain still names it."""

    number: ObjectNumber
    key: str
    error: str


class Deleted(msgspec.Struct, frozen=True):
    """The outcome of `delete_objects`. `failed`: the objects that could not be deleted from all their stores.

    `numbers`: the numbers of the other objects. None of their stores has the object or its index any more.
    """

    numbers: tuple[ObjectNumber, ...]
    failed: tuple[DeletionFailed, ...]


def delete_objects(objects: Sequence[ObjectToDelete], stores: Stores) -> Deleted:
    """Delete the objects and their indexes from all their stores.

    After a failure, the other stores and objects are still tried. An object that a store does not have counts as
    deleted there.
    """
    errors: dict[ObjectNumber, list[str]] = {}
    for store in dict.fromkeys(store for retired in objects for store in retired.stores):
        there = [retired for retired in objects if store in retired.stores]
        refused = _refused(stores, store)
        if refused is None and _deleted([retired.key for retired in there], stores, store):
            continue
        for retired in there:
            error = refused or _delete(retired.key, stores, store)
            if error is not None:
                errors.setdefault(retired.number, []).append(error)
    failed = [
        DeletionFailed(retired.number, retired.key, "; ".join(errors[retired.number]))
        for retired in objects
        if retired.number in errors
    ]
    return Deleted(tuple(retired.number for retired in objects if retired.number not in errors), tuple(failed))


def _refused(stores: Stores, store: StoreId) -> str | None:
    """Return the reason why nothing may be deleted on a store now, or None if deletion is allowed."""
    try:
        stores.check_owner(store)
    except SparklogError as error:
        return str(error)
    return None


def _deleted(keys: Sequence[str], stores: Stores, store: StoreId) -> bool:
    """Delete objects and their indexes from one store, in bulk. Return False if a deletion failed."""
    try:
        stores.get(store).delete_many(keys)
        stores.get(store).delete_many([index_key(key) for key in keys])
    except SparklogError:
        return False
    return True


def _delete(key: str, stores: Stores, store: StoreId) -> str | None:
    """Delete an object and its index from one store. Return the error, or None."""
    try:
        stores.get(store).delete(key)
        stores.get(store).delete(index_key(key))
    except SparklogError as error:
        return str(error)
    return None
