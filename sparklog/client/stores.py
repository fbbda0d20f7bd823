"""Adding a store to a cluster: opened, probed, marked with its INCARNATION, registered."""

from __future__ import annotations

from collections.abc import Iterable

from sparklog.client.connection import Connection
from sparklog.core.commands import NewStore, RegisterStore
from sparklog.core.errors import DuplicateBrokerRegistration, InvalidInput
from sparklog.core.state import Store
from sparklog.core.types import StoreId
from sparklog.host.dice import new_id
from sparklog.log.incarnation import begin_incarnation, check_owner, read_incarnation
from sparklog.storage.keys import INCARNATION
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import join_url
from sparklog.storage.probe import check_store

_MEMORY = "memory://"


def add_store(
    connection: Connection, store: StoreId, url: str, zone: str | None = None, *, dry_run: bool = False
) -> Store:
    """Register a new store, or one that was fenced and is back with the INCARNATION it had. Returns it as registered.

    An add that died half-way is continued by the next one. `zone`: by default that of before, or none. With `dry_run`
    everything is checked, and the store is neither marked nor registered. Raises DuplicateBrokerRegistration,
    InconsistentClusterId, InvalidInput, StoreUnfit, and the store's errors.
    """
    with connection.follower.current() as state:
        known, chain_id = state.stores.get(store), state.chain_id
        others = [(each.store, join_url(connection.url, each.url)) for each in state.stores.values()]
    target = connection.open_store(store, url)
    mark = read_incarnation(target)
    if mark is not None:
        check_owner(mark, target, store, chain_id)
    if known is not None and mark is None:
        raise DuplicateBrokerRegistration(
            f"store {store} is registered with INCARNATION {known.incarnation}, found no {INCARNATION} at "
            f"{target.url}: if it was wiped, its agent reports the loss and fills it again; another store needs "
            "another id"
        )
    check_addresses(connection.follower.store, [*(each for each in others if each[0] != store), (store, target.url)])
    zone = (known.zone if known is not None else "") if zone is None else zone
    incarnation = mark.incarnation if mark is not None else new_id()
    connection.decided(RegisterStore(NewStore(store, url, incarnation, zone)))  # refused before anything is written
    check_store(target, new_id())
    if dry_run:
        return Store(store, state.next_registration, url, incarnation, zone)
    if mark is None:
        mark, _ = begin_incarnation(target, store, chain_id)
    committer = connection.committer
    committer.submit(committer.begin(RegisterStore(NewStore(store, url, mark.incarnation, zone))))
    with connection.follower.current() as state:
        return state.stores[store]


def check_addresses(metadata: ObjectStore, addresses: Iterable[tuple[StoreId, str]]) -> None:
    """Refuse two stores at one address, which would hold a single copy, and a store that ends with this process."""
    seen: dict[str, StoreId] = {}
    for store, url in addresses:
        if url in seen:
            raise DuplicateBrokerRegistration(
                f"wanted stores at addresses of their own, found {seen[url]} and {store} at {url}"
            )
        seen[url] = store
        if url.startswith(_MEMORY) and not metadata.url.startswith(_MEMORY):
            raise InvalidInput(f"store {store} at {url} would end with this process, the cluster at {metadata.url} not")
