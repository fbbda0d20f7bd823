"""INCARNATION, the file that marks a store's life: a store that lacks it, or has another one, was wiped or swapped."""

from __future__ import annotations

import msgspec

from sparklog.core.errors import Conflict, KeyNotFound, StoreUnavailable
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore


class Incarnation(msgspec.Struct, frozen=True):
    """The contents of a store's INCARNATION: the uuid of this store's life, and the chain it belongs to."""

    incarnation: str
    chain_id: str


def read_incarnation(store: ObjectStore) -> Incarnation:
    """The INCARNATION of a store. Raises KeyNotFound, Conflict (it is not sparklog's), and the store's errors."""
    try:
        return msgspec.json.decode(store.get(INCARNATION), type=Incarnation)
    except msgspec.DecodeError as error:
        raise Conflict(f"{INCARNATION} at {store.url} is not sparklog's: {error}") from error


class AnotherLife(StoreUnavailable):
    """The store is not in the life that the chain knows: what was written to it before may be gone."""


def check_incarnation(store: ObjectStore, registered: str) -> None:
    """Check that the store is still in the life it was registered with (rule S1).

    Raises AnotherLife, and the store's errors.
    """
    wanted = f"wanted {INCARNATION} {registered} at {store.url}"
    try:
        existing = read_incarnation(store).incarnation
    except KeyNotFound as error:
        raise AnotherLife(f"{wanted}, found none: the store was wiped, or is not mounted") from error
    except Conflict as error:
        raise AnotherLife(f"{wanted}, found something else: {error.message}") from error
    if existing != registered:
        raise AnotherLife(f"{wanted}, found {existing}: the store was wiped or swapped")
