"""Chooses the OWNER mark that a restore puts on each store, and gives up other restores of the cluster.

Each run makes a new mark. It never uses the mark of another run: that run's chain may have begun, and its metadata may
have been lost since.

To give up a restore is to make sure that its chain, which has not begun, never begins (`give_up`). A run gives up all
other restores to the same place. With `take_over`, it also gives up those to other places.
"""

from __future__ import annotations

from sparklog.chain.mirror.mirror import put
from sparklog.chain.mirror.restored_beginning import decoded_beginning, manifest_in
from sparklog.chain.owner import Owner, encoded, is_owner_mark
from sparklog.client.restoring.found_stores import FoundStores
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import Conflict, SparklogError, StoreUnavailable
from sparklog.core.types import StoreId
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import open_metadata
from sparklog.storage.keys import restore_key
from sparklog.storage.open_store import is_same_place


def pending(stores: FoundStores) -> list[tuple[int, Owner]]:
    """The OWNER marks of restores after the one that began the newest chain, as (number, mark), in ascending order.

    Such a restore may have begun or not: no found store has a mirror of its chain.
    """
    marks = {
        (number, owner)
        for found_store in stores.found.values()
        for number, owner in found_store.owners.items()
        if number > stores.restores
    }
    return sorted(marks, key=lambda mark: (mark[0], mark[1].chain_id))


def choose_owner(stores: FoundStores, url: str, *, take_over: bool) -> tuple[Owner, list[tuple[int, Owner]]]:
    """Make the OWNER mark of a restore to `url`. Returns it, and the restores to give up as (number, mark).

    Raises Conflict if a restore to give up was to another place, unless `take_over`.
    """
    marks = pending(stores)
    past = {chain_id for _, owner in marks for chain_id in owner.given_up}
    others = [(number, owner) for number, owner in marks if owner.chain_id not in past]
    elsewhere = [owner for _, owner in others if not is_same_place(owner.cluster, url)]
    if elsewhere and not take_over:
        marked = next(
            store for store, found_store in sorted(stores.found.items()) if elsewhere[-1] in found_store.owners.values()
        )
        raise marked_for_another(stores, marked, elsewhere[-1])
    given_up = dict.fromkeys(chain_id for _, owner in marks for chain_id in (*owner.given_up, owner.chain_id))
    owner = Owner(chain_id=new_id(), previous=stores.chain_id, cluster=url, given_up=tuple(given_up))
    return owner, others


def number_of(stores: FoundStores, owner: Owner) -> int:
    """The number of the restore with the mark `owner`: greater than the numbers of the restores that it gives up."""
    return stores.restores + 1 + len(owner.given_up)


def give_up(number: int, other: Owner, owner: Owner, settings: StorageSettings) -> None:
    """Make sure that the restore `number`, with the mark `other`, never begins.

    Puts the mark `owner` at that restore's address, `other.cluster`, under the key which the beginning of its chain
    would get. If another cluster has begun under that key, that restore can't begin either. Raises Conflict if that
    restore has begun, or another one of the same cluster, and StoreUnavailable if the address can't be reached.
    """
    try:
        place = open_metadata(other.cluster, settings)
        existing = put(place, restore_key(number), encoded(owner))
    except SparklogError as error:
        raise StoreUnavailable(
            f"it can't be known if the restore to {other.cluster} has begun: {error.message}; make that place "
            f"reachable, or run that restore again, with --cluster {other.cluster}; if the place is gone for good, "
            "make an empty one at the same address, then run this again"
        ) from error
    if existing is None or is_owner_mark(existing):
        return
    begun = manifest_in(decoded_beginning(existing, restore_key(number), place.url), number, place.url)
    if begun.chain_id == other.chain_id or owner.previous in begun.ancestors:
        raise Conflict(
            f"the restore to {other.cluster} has begun, and can't be given up: finish it, with --cluster "
            f"{other.cluster}"
        )


def marked_for_another(stores: FoundStores, store: StoreId, other: Owner) -> Conflict:
    """The error for a store that has the mark `other` of another restore, which may have begun or not."""
    return Conflict(
        f"store {store} at {stores.found[store].target.url} is marked by a restore of cluster {other.previous} to "
        f"{other.cluster}: finish that restore, with --cluster {other.cluster}; or give it up, with --take-over, which "
        "is refused if it has begun"
    )


def taken_over(owner: Owner) -> Conflict:
    """The error for a restore that was given up in favour of the restore with the mark `owner`."""
    return Conflict(
        f"the restore to this place was given up in favour of {owner.chain_id} at {owner.cluster}: give another place"
    )
