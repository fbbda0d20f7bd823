"""Decides whose restore of a cluster it is: the mark that a run puts on each store, beside the marks of other restores.

No run continues with the marks of another one: its chain may have begun, and its place may be lost again. Restores that
have not begun are given up, and then never begin: earlier runs to the same place silently, others if that is wanted.
"""

from __future__ import annotations

from sparklog.chain.owner import Owner, encoded, is_mark
from sparklog.chain.store_copy import put
from sparklog.client.found_stores import FoundStores
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import Conflict, SparklogError, StoreUnavailable
from sparklog.host.dice import new_id
from sparklog.log.stores import open_metadata
from sparklog.storage.keys import restore_key


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
    """The mark of a restore to `url`, and those of the restores that have to be given up for it, with their numbers.

    Raises Conflict if one of these was to another place, and is not to be taken over.
    """
    marks = pending(stores)
    past = {chain_id for _, owner in marks for chain_id in owner.given_up}
    others = [(number, owner) for number, owner in marks if owner.chain_id not in past]
    elsewhere = [owner for _, owner in others if owner.cluster != url]
    if elsewhere and not take_over:
        raise begun_elsewhere(stores, elsewhere[-1])
    given_up = dict.fromkeys(chain_id for _, owner in marks for chain_id in (*owner.given_up, owner.chain_id))
    owner = Owner(sparklog_owner=new_id(), previous=stores.chain_id, cluster=url, given_up=tuple(given_up))
    return owner, others


def number_of(stores: FoundStores, owner: Owner) -> int:
    """The number of the restore that puts this mark: greater than that of any restore that it gives up."""
    return stores.restores + 1 + len(owner.given_up)


def give_up(stores: FoundStores, number: int, other: Owner, owner: Owner, settings: StorageSettings) -> None:
    """Make sure that another restore never begins: put a mark where its first entry would be.

    Raises Conflict if it has begun, StoreUnavailable if its place can't be reached.
    """
    try:
        existing = put(open_metadata(other.cluster, settings), restore_key(number), encoded(owner))
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
