"""Creating a cluster: a mark on each of its stores, then entry 0 of its metadata chain."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sparklog.chain.committer import Committer
from sparklog.chain.entry import Author
from sparklog.chain.follower import Follower
from sparklog.client.connection import default_author
from sparklog.core.commands import CreateCluster, NewStore
from sparklog.core.config.cluster import parse_cluster_config
from sparklog.core.config.storage import storage_settings
from sparklog.core.errors import (
    ClusterAlreadyExists,
    Conflict,
    InvalidInput,
    KeyExists,
    KeyNotFound,
    OutcomeUnknown,
    StoreUnavailable,
)
from sparklog.core.store_ids import check_store_ids
from sparklog.core.types import StoreId
from sparklog.host.dice import new_id
from sparklog.log.stores import open_metadata, open_registered
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import INCARNATION, PROBES
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url
from sparklog.storage.probe import check_store

_MEMORY = "memory://"
DEFAULT_STORE = StoreId("local")  # the one store of a cluster that names none: its own root


class Incarnation(msgspec.Struct, frozen=True):
    """The contents of a store's INCARNATION: the uuid of this store's life, and the chain it belongs to."""

    incarnation: str
    chain_id: str


def init_cluster(
    url: str,
    *,
    stores: Mapping[str, str] | None = None,
    config: Mapping[str, object] | None = None,
    storage: Mapping[str, str] | None = None,
    author: Author | None = None,
) -> str:
    """Create a cluster at `url` and return its chain id.

    `stores` maps store ids to addresses, which may be relative to `url`. By default there is one store, at the
    cluster's own root. `storage`: see `sparklog.client.cluster.connect`.
    Probes every store first, and the place of the chain. Continues an earlier init at the same address that died.
    Raises ClusterAlreadyExists, Conflict (a store belongs to another cluster), InvalidInput, StoreUnfit, or a store's
    error.
    """
    root = absolute_url(url)
    reached = settings_here(storage_settings(storage or {}))
    follower = Follower(open_metadata(root, reached))
    follower.catch_up()
    if follower.state.n >= 0:
        raise ClusterAlreadyExists(f"wanted to create a cluster, found cluster {follower.state.chain_id} at {root}")
    named = {StoreId(store): address for store, address in (stores or {DEFAULT_STORE: "."}).items()}
    check_store_ids(named)
    settings = parse_cluster_config(config or {})
    chain_id = _left_by_a_failed_init(follower.store) or new_id()
    targets = {store: open_registered(root, store, address, reached) for store, address in named.items()}
    _check_addresses(follower.store, targets)
    for target in {target.url: target for target in (follower.store, *targets.values())}.values():
        check_store(target, new_id())
    registered = tuple(
        NewStore(store, named[store], _mark(target, store, chain_id)) for store, target in targets.items()
    )
    committer = Committer(follower, author or default_author())
    committer.submit(committer.begin(CreateCluster(chain_id, registered, settings)))
    return chain_id


def _check_addresses(metadata: ObjectStore, targets: Mapping[StoreId, ObjectStore]) -> None:
    """Refuse two stores at one address, which would hold a single copy, and a store that ends with this process."""
    seen: dict[str, StoreId] = {}
    for store, target in targets.items():
        if target.url in seen:
            raise InvalidInput(
                f"wanted stores at addresses of their own, found {seen[target.url]} and {store} at {target.url}"
            )
        seen[target.url] = store
        if target.url.startswith(_MEMORY) and not metadata.url.startswith(_MEMORY):
            raise InvalidInput(
                f"store {store} at {target.url} would end with this process, the cluster at {metadata.url} not"
            )


def _left_by_a_failed_init(place: ObjectStore) -> str | None:
    """The chain id of an init that marked its own root and died before entry 0, if nothing but the mark is there.

    If there is anything else, it may be a cluster that lost its chain, and its data must not pass to a new cluster.
    """
    if _holds_more_than_a_mark(place):
        return None
    try:
        return mark_of(place).chain_id
    except KeyNotFound:
        return None


def _mark(target: ObjectStore, store: StoreId, chain_id: str) -> str:
    """Begin a store's life with its INCARNATION, and return its uuid.

    A mark of this chain that is already there comes from this put, whose answer was lost, or from an earlier init.
    """
    mark = Incarnation(new_id(), chain_id)
    try:
        target.put_if_absent(INCARNATION, msgspec.json.encode(mark))
        return mark.incarnation
    except (KeyExists, OutcomeUnknown) as error:
        try:
            existing = mark_of(target)
        except KeyNotFound:
            raise StoreUnavailable(f"store {store} at {target.url} could not be marked: {error.message}") from error
    if existing.chain_id != chain_id or (existing != mark and _holds_more_than_a_mark(target)):
        raise Conflict(
            f"store {store} at {target.url} belongs to the cluster with chain id {existing.chain_id}: give another "
            f"address, or, if that cluster is gone for good, remove {INCARNATION} there"
        )
    return existing.incarnation


def _holds_more_than_a_mark(place: ObjectStore) -> bool:
    return any(stored.key != INCARNATION and not stored.key.startswith(PROBES) for stored in place.list_keys(""))


def mark_of(target: ObjectStore) -> Incarnation:
    """The INCARNATION of a store. Raises KeyNotFound; Conflict if it is not one that sparklog wrote."""
    try:
        return msgspec.json.decode(target.get(INCARNATION), type=Incarnation)
    except msgspec.DecodeError as error:
        raise Conflict(f"{INCARNATION} at {target.url} is not sparklog's: {error}") from error
