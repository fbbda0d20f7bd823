"""Check that a store has an object. A request for the length is enough, because the name is unique."""

from __future__ import annotations

from sparklog.core.errors import KeyNotFound
from sparklog.core.placement.held_objects import HeldObject
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore


def is_there(store: ObjectStore, held: HeldObject) -> bool:
    """True if the store has the object with the length that the chain names. Raises the store's errors."""
    try:
        return store.size(data_key(held.object, held.topic)) == held.object.size_bytes
    except KeyNotFound:
        return False
