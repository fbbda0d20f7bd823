"""Deletes objects from stores: one by one, by their exact names, the object before its index. Never by prefix."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sparklog.core.errors import SparklogError
from sparklog.core.types import ObjectNumber, StoreId
from sparklog.log.stores import Stores
from sparklog.storage.keys import index_key


class ObjectToDelete(msgspec.Struct, frozen=True, array_like=True):
    """A retired object: its key, the stores that may have a copy, its bytes with the index."""

    number: ObjectNumber
    key: str
    stores: tuple[StoreId, ...]
    size_bytes: int


class DeletionFailed(msgspec.Struct, frozen=True):
    """An object that stays named, because some of it may still be there."""

    number: ObjectNumber
    key: str
    error: str


class Deleted(msgspec.Struct, frozen=True):
    """Objects of which every store has lost object and index, and those where that failed."""

    numbers: tuple[ObjectNumber, ...]
    failed: tuple[DeletionFailed, ...]


def delete_objects(objects: Sequence[ObjectToDelete], stores: Stores) -> Deleted:
    """Delete each from each of its stores. What is absent already counts as deleted; one failure stops no other."""
    numbers, failed = [], []
    for each in objects:
        try:
            for store in each.stores:
                stores.get(store).delete(each.key)
                stores.get(store).delete(index_key(each.key))
        except SparklogError as error:
            failed.append(DeletionFailed(each.number, each.key, str(error)))
        else:
            numbers.append(each.number)
    return Deleted(tuple(numbers), tuple(failed))
