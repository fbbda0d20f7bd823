"""Decides whose restore of a cluster it is: the mark that a run puts on each store, beside the marks of other restores.

A run to the same place has the same mark, so it continues what an earlier one began. A restore to another place that
has not begun can be given up: its chain never begins, and this one takes the next number.
"""

from __future__ import annotations

import hashlib

from sparklog.chain.owner import Owner, encoded, is_mark
from sparklog.chain.store_copy import put
from sparklog.client.found_stores import FoundStores
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import Conflict, SparklogError, StoreUnavailable
from sparklog.core.state import first_entry
from sparklog.log.stores import open_metadata
from sparklog.storage.keys import entry_key


def pending(stores: FoundStores) -> list[tuple[int, Owner]]:
    """The marks of restores of the newest chain, by number. No store has copies of theirs, so none may have begun."""
    marks = {
        (number, owner)
        for found in stores.found.values()
        for number, owner in found.owners.items()
        if number > stores.restores
    }
    return sorted(marks, key=lambda mark: (mark[0], mark[1].chain_id))


def choose_owner(stores: FoundStores, url: str, *, take_over: bool) -> tuple[Owner, list[tuple[int, Owner]]]:
    """The mark of the restore to `url`, and those of restores that have to be given up for it.

    Raises Conflict if there are any, and they are not to be taken over.
    """
    marks = pending(stores)
    chain_id = hashlib.sha256(f"{stores.chain_id} {url}".encode()).hexdigest()[:32]
    mine = next((mark for mark in marks if mark[1].chain_id == chain_id), None)
    number = stores.restores + 1 if mine is None else mine[0]
    others = [mark for mark in marks if mark[0] >= number and mark != mine]
    if mine is not None and not others:
        return mine[1], []
    given_up: tuple[str, ...] = ()
    if others:
        last = others[-1][1]
        if not take_over:
            raise begun_elsewhere(stores, last)
        if mine is not None:
            raise Conflict(
                f"a restore to {url} and one to {last.cluster} have both put marks: give another place, and give both "
                "up with --take-over"
            )
        given_up = (*last.given_up, last.chain_id)
    return Owner(sparklog_owner=chain_id, previous=stores.chain_id, cluster=url, given_up=given_up), others


def number_of(stores: FoundStores, owner: Owner) -> int:
    """The number of the restore that puts this mark."""
    return stores.restores + 1 + len(owner.given_up)


def give_up(stores: FoundStores, number: int, other: Owner, owner: Owner, settings: StorageSettings) -> None:
    """Make sure that another restore never begins: put a mark into the place of its first entry.

    Raises Conflict if it has begun, StoreUnavailable if its place can't be reached.
    """
    key = entry_key(first_entry(number))
    try:
        existing = put(open_metadata(other.cluster, settings), key, encoded(owner))
    except SparklogError as error:
        raise StoreUnavailable(
            f"whether the restore to {other.cluster} has begun can't be known: {error.message}; make that place "
            f"reachable, or run that restore again, with --cluster {other.cluster}"
        ) from error
    if existing is not None and not is_mark(existing):
        raise begun_elsewhere(stores, other)


def begun_elsewhere(stores: FoundStores, other: Owner) -> Conflict:
    """The error for a cluster that another restore has marked."""
    marked = [store for store, found in stores.found.items() if other in found.owners.values()]
    return Conflict(
        f"cluster {other.previous} is restored as {other.chain_id} at {other.cluster}, says store "
        f"{', '.join(sorted(marked))}: if that restore did not end, run it again with --cluster {other.cluster}; or, "
        "if it has not begun there, give it up with --take-over"
    )


def taken_over(owner: Owner) -> Conflict:
    """The error for a restore that was given up for `owner`."""
    return Conflict(
        f"the restore to this place was given up in favour of {owner.chain_id} at {owner.cluster}: give another place"
    )
