"""Delete objects one by one, by their exact names, each before its index. Never delete by prefix."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.errors import SparklogError
from sparklog.core.types import ObjectNumber, StoreId
from sparklog.log.stores import Stores
from sparklog.storage.keys import index_key


class ObjectToDelete(msgspec.Struct, frozen=True, array_like=True):
    """A retired object to delete.

    `stores`: those that may have a copy. `size_bytes` includes the index.
    """

    number: ObjectNumber
    key: str
    stores: tuple[StoreId, ...]
    size_bytes: int


class DeletionFailed(msgspec.Struct, frozen=True):
    """An object that stays named, because a part of it may still exist."""

    number: ObjectNumber
    key: str
    error: str


class Deleted(msgspec.Struct, frozen=True):
    """The objects that are gone, with their indexes, from every store, and those whose deletion failed."""

    numbers: tuple[ObjectNumber, ...]
    failed: tuple[DeletionFailed, ...]


def delete_objects(objects: Sequence[ObjectToDelete], stores: Stores) -> Deleted:
    """Delete the objects from all their stores. A missing one counts as deleted; a failure does not stop the rest."""
    numbers, failed = [], []
    for retired in objects:
        try:
            for store in retired.stores:
                stores.get(store).delete(retired.key)
                stores.get(store).delete(index_key(retired.key))
        except SparklogError as error:
            failed.append(DeletionFailed(retired.number, retired.key, str(error)))
        else:
            numbers.append(retired.number)
    return Deleted(tuple(numbers), tuple(failed))
