"""Finds the objects that a fenced store lacks when it comes back, as after a restore from an old backup.

The store's INCARNATION is unchanged. As soon as the store is registered, it may lead a partition that has no leader,
and its agent looks for losses only later. So losses are looked for before the registration: in the newest object of
each partition, and in a few others.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from sparklog.client.connection import Connection
from sparklog.core.commands import HeldEnd
from sparklog.core.describe.readable import counted
from sparklog.core.errors import DuplicateBrokerRegistration, InvalidInput, SparklogError
from sparklog.core.machine import run
from sparklog.core.placement.held_objects import HeldObject, held_partitions
from sparklog.core.placement.loss_search import LookFor, Newest, Search, held_ends, missing_of_sample
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId, TopicPartition
from sparklog.host.dice import SystemDice
from sparklog.log.incarnation import check_incarnation
from sparklog.log.objects.object_look import is_there
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import registered_url

_LOOKS_AT_ONCE: Final = 16

T = TypeVar("T")

log = logging.getLogger("sparklog")


def lost_while_fenced(
    connection: Connection, store: Store, target: ObjectStore, zone: str | None
) -> tuple[HeldEnd, ...]:
    """Find the partitions of which a fenced store lacks objects. Returns the offset up to which it has each such log.

    Returns () if no object is missing, or if the store is not fenced: then its agent looks for losses. `target`: the
    store, opened at the address to register; `zone`: the zone to register. Raises AnotherIncarnation if the store was
    wiped or unmounted meanwhile, the errors of `check_same_place`, and the store's.
    """
    if not store.fenced:
        return ()
    state = connection.newest_state()
    search = _lost(state, store.store)
    ends = _outcome(search, connection, target)
    if ends:
        check_incarnation(target, store.incarnation)
        known_url, partitions = registered_url(connection.url, store.url), counted(len(ends), "partition")
        lacks = f"store {store.store} at {target.url} lacks objects that it should hold, of {partitions}"
        check_same_place(store, f"{lacks}: a store that was set back", target.url, known_url, zone)
        log.warning("%s: it comes back without them, and its agent fetches them again", lacks)
    return tuple(ends[key] for key in sorted(ends))


def check_same_place(known: Store, what: str, url: str, known_url: str, zone: str | None) -> None:
    """Refuse a store that has lost data unless `url` and `zone` are as registered; `zone` None: unchanged.

    Another address may be a mistake, and the command that reports a loss changes neither address nor zone. `what`: the
    subject of the error text. Raises DuplicateBrokerRegistration (address), InvalidInput (zone).
    """
    if url != known_url:
        raise DuplicateBrokerRegistration(
            f"{what} comes back at its address, {known_url}; another store needs another id"
        )
    if zone is not None and zone != known.zone:
        raise InvalidInput(f"{what} comes back in its zone {known.zone!r}, found {zone!r}")


def _lost(state: ClusterState, store: StoreId) -> Search[dict[TopicPartition, HeldEnd]]:
    held = held_partitions(state, store)
    missing = yield from missing_of_sample(state, store, held, held, SystemDice().below)
    _, ends = yield from held_ends(state, store, missing, whole_too=False)
    return ends


def _outcome(search: Search[T], connection: Connection, target: ObjectStore) -> T:
    with ThreadPoolExecutor(_LOOKS_AT_ONCE, "sparklog-looks") as pool:

        def perform(request: LookFor | Newest) -> object:
            if isinstance(request, LookFor):
                return list(pool.map(partial(_looked, target), request.objects))
            return connection.follower.catch_up().state

        return run(search, perform)


def _looked(target: ObjectStore, held: HeldObject) -> bool | SparklogError:
    try:
        return is_there(target, held)
    except SparklogError as error:
        return error
