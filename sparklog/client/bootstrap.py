"""Creates a cluster: writes the mark INCARNATION to each of its stores, then entry 0 of its metadata chain."""

from __future__ import annotations

from collections.abc import Mapping

from sparklog.chain.commit.committer import Committer
from sparklog.chain.follow.follower import Follower
from sparklog.chain.mirror.mirrors import Mirrors
from sparklog.chain.peers import Peer, announce_peer
from sparklog.client.connection import default_author
from sparklog.client.stores.add_store import check_addresses, check_apart
from sparklog.core.commands import CreateCluster, NewStore
from sparklog.core.config.cluster_config import parse_cluster_config
from sparklog.core.config.storage import storage_settings
from sparklog.core.coordination import Author
from sparklog.core.errors import ClusterAlreadyExists
from sparklog.core.names.store_ids import check_store_ids, check_zone
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import open_metadata, open_registered
from sparklog.log.incarnation import begin_incarnation, check_owner, of_another_cluster, read_incarnation
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import INCARNATION, PEERS, PROBES
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url, is_elsewhere
from sparklog.storage.probe import check_store

DEFAULT_STORE = StoreId("local")  # the one store of a cluster that names none: its own root


def init_cluster(
    url: str,
    *,
    stores: Mapping[str, str] | None = None,
    zones: Mapping[str, str] | None = None,
    config: Mapping[str, object] | None = None,
    storage: Mapping[str, str] | None = None,
    author: Author | None = None,
) -> str:
    """Create a cluster at `url` and return its chain id.

    `stores` maps store ids to addresses, which may be relative to `url`. By default there is one store, at the
    cluster's own root. `zones` maps store ids to zones. `storage`: see `sparklog.client.cluster.connect`.
    First probes every store, and `url`, where the chain will be. If an earlier call with the same `url` was interrupted
    before it wrote entry 0, this call completes what that one began. Raises ClusterAlreadyExists, InconsistentClusterId
    (a store belongs to another cluster), InvalidInput, DuplicateBrokerRegistration (two ids for one store), StoreUnfit,
    or a store's error. If a check fails, no INCARNATION is written.
    """
    root = absolute_url(url)
    reached = settings_here(storage_settings(storage or {}))
    metadata = open_metadata(root, reached)
    mirrors = Mirrors(
        metadata,
        lambda state, store: open_registered(root, store, state.stores[store].url, reached),
        lambda store: is_elsewhere(root, store.url),
    )
    follower = Follower(metadata, mirrors=mirrors)
    follower.catch_up()
    if follower.state.n >= 0:
        raise ClusterAlreadyExists(
            f"there is a cluster at {root} already, {follower.state.chain_id}: connect to it, or choose another place"
        )
    named = {StoreId(store): address for store, address in (stores or {DEFAULT_STORE: "."}).items()}
    check_store_ids(named)
    for zone in (zones or {}).values():
        check_zone(zone)
    settings = parse_cluster_config(config or {})
    chain_id = _left_by_a_failed_init(follower.store) or new_id()
    targets = {store: open_registered(root, store, address, reached) for store, address in named.items()}
    check_addresses(follower.store, [(store, target.url) for store, target in targets.items()])
    for target in {target.url: target for target in (follower.store, *targets.values())}.values():
        check_store(target, new_id())
    for store, target in targets.items():  # check all before marking the first: a refused init marks none
        _check_free(target, store, chain_id)
    check_apart(follower.store, targets)
    registered = tuple(
        NewStore(store, named[store], _mark(target, store, chain_id), (zones or {}).get(store, ""))
        for store, target in targets.items()
    )
    for store, target in targets.items():
        for other in sorted(targets.keys() - {store}):
            announce_peer(target, Peer(other, EntryNumber(0), targets[other].url), 0)
    committer = Committer(follower, author or default_author())
    committer.submit(committer.begin(CreateCluster(chain_id, registered, settings)))
    return chain_id


def _left_by_a_failed_init(place: ObjectStore) -> str | None:
    """Return the chain id with which an init began at `place` before it was interrupted: this init continues with it.

    It is read from the INCARNATION at `place`. None if there is no INCARNATION, or if `place` has objects that no init
    writes: they may belong to a cluster whose chain was lost, and must not become part of a new cluster.
    """
    if _holds_more_than_a_mark(place):
        return None
    mark = read_incarnation(place)
    return None if mark is None else mark.chain_id


def _check_free(target: ObjectStore, store: StoreId, chain_id: str) -> None:
    """Raise InconsistentClusterId if the store belongs to another cluster: it has an INCARNATION of another chain.

    Also raises it if the store has an INCARNATION of this chain together with data that no init writes. Accepts a store
    without an INCARNATION, even if it has other data.
    """
    mark = read_incarnation(target)
    if mark is not None:
        check_owner(mark, target, store, chain_id)
        if _holds_more_than_a_mark(target):
            raise of_another_cluster(mark, target, store)


def _mark(target: ObjectStore, store: StoreId, chain_id: str) -> str:
    """Write INCARNATION to the store, unless an earlier init of the same chain has written it. Returns its uuid.

    Raises the errors of `_check_free`.
    """
    mark, is_new = begin_incarnation(target, store, chain_id)
    if not is_new:
        _check_free(target, store, chain_id)
    return mark.incarnation


def _holds_more_than_a_mark(place: ObjectStore) -> bool:
    left_by_an_init = (INCARNATION, PROBES, PEERS)
    return not all(stored.key.startswith(left_by_an_init) for stored in place.list_keys(""))
