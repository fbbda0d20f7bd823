"""Checks that a store answers and is the registered one, and gets its free space. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparklog.core.errors import Conflict
from sparklog.log.incarnation import read_incarnation
from sparklog.storage.keys import INCARNATION, META
from sparklog.storage.object_store import ObjectStore

_MEND: Final = "mount its disk if it is not mounted; if its data is lost, see docs/replication.md"


@dataclass(frozen=True, slots=True)
class StoreLook:
    """The result of `look_at`. `problem`: a text, "" if there is none. `free_bytes`: None if unknown."""

    problem: str = ""
    free_bytes: int | None = None


def look_at(store: ObjectStore, incarnation: str | None) -> StoreLook:
    """Check that a store has the INCARNATION with the uuid `incarnation`, and get its free space.

    If `incarnation` is None, `store` is the place of the metadata: check that it has any metadata. Raises the store's
    errors.
    """
    problem = _problem_of_metadata(store) if incarnation is None else _problem(store, incarnation)
    return StoreLook(problem, None if problem else store.free_bytes())


def _problem_of_metadata(store: ObjectStore) -> str:
    if store.first_key_after(META, "") is None:
        return f"nothing there: no metadata at {store.url}; {_MEND}, When the metadata is lost"
    return ""


def _problem(store: ObjectStore, wanted: str) -> str:
    try:
        mark = read_incarnation(store)
    except Conflict as error:
        return error.message
    if mark is None:
        mend = (
            "mount its disk if it is not mounted; if it was wiped, restart its agent, which refills it; if it is lost "
            "for good, fence it"
        )
        return f"nothing there: no {INCARNATION} at {store.url}; {mend} (docs/replication.md, At night)"
    if mark.incarnation != wanted:
        return f"another store: wanted incarnation {wanted}, found {mark.incarnation} at {store.url}; {_MEND}, At night"
    return ""
