"""The file INCARNATION at a store's root: the chain's id, and a uuid that shows if the store was wiped or swapped."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.errors import (
    Conflict,
    InconsistentClusterId,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    StoreUnavailable,
)
from sparklog.host.dice import new_id
from sparklog.storage.keys import INCARNATION, index_key
from sparklog.storage.object_store import ObjectStore


class Incarnation(msgspec.Struct, frozen=True):
    """The contents of a store's INCARNATION: the uuid, and the chain that the store belongs to."""

    incarnation: str
    chain_id: str


def read_incarnation(target: ObjectStore, beside: Collection[str] = ()) -> Incarnation | None:
    """Return the contents of INCARNATION, or None if it is missing.

    `beside`: keys of objects that should be in the same place, for example on the same disk. Raises StoreUnavailable if
    they are not there, Conflict if sparklog did not write the file, and the store's errors.
    """
    try:
        body = target.get_beside(INCARNATION, beside) if beside else target.get(INCARNATION)
        return msgspec.json.decode(body, type=Incarnation)
    except KeyNotFound:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Conflict(f"{INCARNATION} at {target.url} is not sparklog's: {error}") from error


def begin_incarnation(target: ObjectStore, store: str, chain_id: str) -> tuple[Incarnation, bool]:
    """Put INCARNATION on the store unless it is there. Return its contents, and True if this call put it.

    Raises InconsistentClusterId if the store's INCARNATION names another chain, StoreUnavailable if the store has none
    even after the put, and the store's errors.
    """
    mark = Incarnation(new_id(), chain_id)
    try:
        target.put_if_absent(INCARNATION, msgspec.json.encode(mark))
        return mark, True
    except (KeyExists, OutcomeUnknown) as error:
        existing = read_incarnation(target)
        if existing is None:
            message = f"store {store} at {target.url} could not be marked: {error.message}"
            raise StoreUnavailable(message) from error
    check_owner(existing, target, store, chain_id)
    return existing, existing == mark


def check_owner(mark: Incarnation, target: ObjectStore, store: str, *lineage: str) -> None:
    """Raise InconsistentClusterId if the store belongs to another cluster.

    `mark`: the store's INCARNATION. `lineage`: the chain id of this cluster, and those of the chains from which it was
    restored.
    """
    if mark.chain_id not in lineage:
        raise of_another_cluster(mark, target, store)


def of_another_cluster(mark: Incarnation, target: ObjectStore, store: str) -> InconsistentClusterId:
    """Return the error for a store that another cluster owns."""
    return InconsistentClusterId(
        f"store {store} at {target.url} belongs to the cluster with chain id {mark.chain_id}: give another address, "
        f"or, if that cluster is gone for good, remove {INCARNATION} there"
    )


class AnotherIncarnation(StoreUnavailable):
    """The store's INCARNATION is not the registered one, so everything that was written to the store may be gone."""


def check_incarnation(target: ObjectStore, registered: str, objects: Collection[str] = ()) -> None:
    """Check that the store has its registered INCARNATION, in the same place as these objects and their indexes.

    Call this with the objects that a commit will declare to be on the store. If a disk was not mounted, they were
    written into the empty mount folder, and are not on the disk that has the INCARNATION. Raises AnotherIncarnation,
    and the store's errors.
    """
    written = [name for key in objects for name in (key, index_key(key))]
    try:
        try:
            existing = read_incarnation(target, written)
            if existing is None:
                existing = read_incarnation(target, written)  # a first "not found" may be wrong
        except StoreUnavailable:
            existing = read_incarnation(target)
            if existing is not None and existing.incarnation == registered:
                raise
    except Conflict as error:
        wanted = f"wanted {INCARNATION} {registered} at {target.url}"
        raise AnotherIncarnation(f"{wanted}, found something else: {error.message}") from error
    if existing is None or existing.incarnation != registered:
        raise another_incarnation(registered, target.url, None if existing is None else existing.incarnation)


def another_incarnation(registered: str, url: str, found: str | None) -> AnotherIncarnation:
    """Return the error for the store at `url`, whose INCARNATION should be `registered`, and is `found`.

    `found` is None if the store has no INCARNATION, and empty if it has one that can't be read.
    """
    wanted = f"wanted {INCARNATION} {registered} at {url}"
    if found is None:
        return AnotherIncarnation(f"{wanted}, found none: the store was wiped, or is not mounted")
    return AnotherIncarnation(f"{wanted}, found {found or 'something else'}: the store was wiped or swapped")
