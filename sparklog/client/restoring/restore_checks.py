"""Checks the stores that a restore has found: before it writes the first OWNER mark, and again after the last one.

Every store that may have a mirror must be found, none may belong to another cluster, and a chain that an earlier
restore began must not be in use.
"""

from __future__ import annotations

from collections.abc import Collection

from sparklog.chain.follow.follower import Follower
from sparklog.client.restoring.found_stores import FoundStores, not_there
from sparklog.client.restoring.restore_owner import pending
from sparklog.core.config.storage import StorageSettings
from sparklog.core.errors import ChainDamaged, Conflict, InvalidInput, SparklogError
from sparklog.core.types import StoreId
from sparklog.log.cluster_stores import open_metadata
from sparklog.storage.keys import owner_key


def check_lost(stores: FoundStores, settings: StorageSettings) -> None:
    """Raise Conflict if the newest chain is not lost: an earlier restore began it, and its address still has it.

    Needs only the marks and the id of that chain, so its copies may be unreadable.
    """
    marks = [mark for found_store in stores.found.values() for mark in found_store.owners.values()]
    for place in sorted({mark.cluster for mark in marks if mark.chain_id == stores.chain_id}):
        try:
            chain_there = Follower(open_metadata(place, settings)).catch_up().state.chain_id
        except SparklogError:  # it can't be read, so it may well be lost
            continue
        if chain_there == stores.chain_id:
            raise Conflict(
                f"cluster {stores.chain_id} is not lost: an earlier restore has begun it at {place}, and it is "
                f"there; connect to {place}, or move its meta/ away"
            )


def check_stores(stores: FoundStores, given: Collection[StoreId], without: Collection[StoreId]) -> None:
    """Check that every store that may have a mirror was found, and that none of them belongs to another cluster.

    `given`, `without`: the stores named by the caller. Raises InvalidInput (a name that is no store of the cluster, or
    no store is left), StoreUnavailable (a store is missing), Conflict, ChainDamaged (a damaged OWNER mark).
    """
    state = stores.head.state
    unknown = {*without, *given} - set(state.stores) - set(stores.peers)
    if unknown:
        raise InvalidInput(
            f"wanted stores of the cluster ({', '.join(sorted(state.stores))}) in --from and --without, found "
            f"{', '.join(sorted(unknown))}: leave out the names of stores that were removed; if a store of the cluster "
            "is among them, these copies are older than it, so give stores that have newer ones with --from"
        )
    for store in sorted(state.stores.keys() - set(without)):
        stores.registered(state.stores[store])
    for store, peer in sorted(stores.peers.items()):
        if store in state.stores or store in without or store in stores.found:
            continue
        if peer.damaged:
            raise not_there(store, "it was announced, and the announcement is damaged")
        if peer.url is not None:
            raise not_there(
                store,
                f"{stores.missing.get(store, 'not found')}; it was announced as of entry {peer.n:,}, and is not "
                "registered in the copies that were found, so it may have newer ones",
            )
    _check_marks(stores)
    _check_chains(stores)
    if not set(state.stores) & set(stores.found):
        raise InvalidInput("all registered stores are in --without: a restore needs at least one of them")


def _check_marks(stores: FoundStores) -> None:
    """Raise ChainDamaged if an OWNER mark with a number above `stores.restores` is damaged, and no store has it whole.

    Such a mark is of a later restore, which may have begun a newer chain. Other marks are not needed: the chain itself
    names their restores.
    """
    known = {number for found_store in stores.found.values() for number in found_store.owners}
    for store, found_store in sorted(stores.found.items()):
        for number in sorted(found_store.damaged - known):
            if number > stores.restores:
                raise ChainDamaged(
                    f"{owner_key(number)} of store {store} at {found_store.target.url} is damaged, and no store that "
                    "was found has that mark whole: it is of a later restore, which may have begun, and then has the "
                    "newest data. Give the stores that are not here, with --from, or put the mark back from a backup; "
                    'or look at its text, which names the place of that restore ("cluster"): if there never was a '
                    "cluster there, move the mark away"
                )


def _check_chains(stores: FoundStores) -> None:
    state = stores.head.state
    chains = {
        *state.lineage,
        *(chain for _, owner in pending(stores) for chain in (owner.chain_id, owner.previous)),
    }
    for store, found_store in sorted(stores.found.items()):
        if found_store.mark.chain_id not in chains:
            raise Conflict(
                f"store {store} at {found_store.target.url} belongs to another cluster, {found_store.mark.chain_id}: "
                f"give its address with --from {store}=URL, or leave it out with --without {store}"
            )
        for number, owner in found_store.owners.items() if store in state.stores else ():
            if number <= stores.restores and owner.chain_id not in state.lineage:
                raise Conflict(
                    f"store {store} at {found_store.target.url} belongs to cluster {owner.chain_id} at "
                    f"{owner.cluster}, which is another restore of the same cluster: leave it out with --without "
                    f"{store}"
                )
