"""Adds a store to a cluster: opens it, probes it, marks it with its INCARNATION, and registers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from sparklog.chain.entry import hash_of
from sparklog.chain.owner import Owner, owners_on, put_owner
from sparklog.chain.peers import Peer, announce_peer
from sparklog.client.connection import Connection
from sparklog.client.stores.returning_store import check_same_place, lost_while_fenced
from sparklog.core.commands import NewStore, RegisterStore, RemoveStore, ReportLoss
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.describe.readable import counted
from sparklog.core.errors import (
    ChainDamaged,
    Conflict,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidInput,
    KeyExists,
    KeyNotFound,
    NotEnoughReplicas,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.lookup import registered_store
from sparklog.core.state import Store
from sparklog.core.types import EntryNumber, StoreId
from sparklog.host.dice import new_id
from sparklog.log.incarnation import (
    Incarnation,
    begin_incarnation,
    check_incarnation,
    check_owner,
    read_incarnation,
)
from sparklog.storage.keys import INCARNATION, PROBES, entry_key, owner_key
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url, is_elsewhere, registered_url
from sparklog.storage.probe import check_store

_MEMORY = "memory://"
_ANNOUNCED_AT_ONCE = 16


def add_store(
    connection: Connection, store: StoreId, url: str, zone: str | None = None, *, dry_run: bool = False
) -> Store:
    """Register a new store, or a fenced store that is back. Returns the registered store.

    A fenced store that comes back with another INCARNATION, or none, was wiped: its loss is reported, and it is
    registered as empty. If it lacks objects (restored from an old backup), this loss is reported in the same way, so
    that the store leads no partition whose records it lacks. If a call is interrupted, the next one completes it.
    `zone` None: the zone that the store has had, or none if it is new. With `dry_run`, checks everything, and marks and
    registers nothing.

    Raises DuplicateBrokerRegistration, InconsistentClusterId, InvalidInput, StoreUnfit, NotEnoughReplicas (see
    `announce`), ChainDamaged (a damaged OWNER mark), and the store's errors.
    """
    state = connection.newest_state()
    known, chain_id, lineage = state.stores.get(store), state.chain_id, state.lineage
    others = [(other.store, registered_url(connection.url, other.url)) for other in state.stores.values()]
    target = connection.open_store(store, url)
    mark = read_incarnation(target)
    if mark is not None:
        check_owner(mark, target, store, *lineage)
    wiped = known is not None and (mark is None or mark.incarnation != known.incarnation)
    if known is not None and wiped:
        _check_comes_back_empty(known, mark, target.url, registered_url(connection.url, known.url), zone)
    check_addresses(connection.follower.store, [*(other for other in others if other[0] != store), (store, target.url)])
    check_beside_metadata(connection, store, target)
    lost = () if known is None or wiped else lost_while_fenced(connection, known, target, zone)
    zone = (known.zone if known is not None else "") if zone is None else zone

    def command(incarnation: str, announced: Mapping[StoreId, int], number: int | None) -> RegisterStore | ReportLoss:
        if known is not None and (wiped or lost):
            return ReportLoss(store, known.registration, incarnation, lost)
        return RegisterStore(NewStore(store, url, incarnation, zone), dict(announced), number)

    incarnation = mark.incarnation if mark is not None else new_id()
    connection.decided(command(incarnation, {}, None))  # raises a refusal before anything is written
    check_store(target, new_id())
    if dry_run:
        return Store(store, state.next_registration, url, incarnation, zone)
    if mark is None:
        mark, _ = begin_incarnation(target, store, chain_id)
    _claim(store, target, lineage, connection.url)
    announced, number = announce(connection, store, target)
    connection.submit(command(mark.incarnation, announced, number))
    state = connection.newest_state()
    return registered_store(state, store)  # raises if it was removed again meanwhile


def remove_store(connection: Connection, store: StoreId) -> None:
    """Remove the registration of a store without replicas, and announce the removal to the other stores.

    Raises BrokerIdNotRegistered, and Conflict if the store has a replica, is the only one that is not fenced, or is the
    last one that may have copies of the metadata.
    """
    result = connection.submit(removal(connection, store))
    state = connection.newest_state()
    stores, ancestors = connection.stores(state), len(state.ancestors)
    others = sorted(state.registrations().keys() - {store})
    for other in others:
        with suppress(SparklogError):  # without this, a restore asks for the store, and an option leaves it out
            announce_peer(stores.get(other), Peer(store, EntryNumber(result.n), None), ancestors)


def removal(connection: Connection, store: StoreId) -> RemoveStore:
    """Return the command that removes a store, with the other stores that may have copies of the metadata."""
    state = connection.newest_state()
    others = {
        other: number
        for other, number in state.registrations().items()
        if other != store and is_elsewhere(connection.url, state.stores[other].url)
    }
    return RemoveStore(store, others)


def announce(connection: Connection, store: StoreId, target: ObjectStore) -> tuple[dict[StoreId, int], int]:
    """Announce a new store to all other stores, and the other stores to the new one, at `target`.

    Returns the registrations of the other stores that may have a mirror of the metadata, and the registration that the
    new store will get. Raises NotEnoughReplicas if a store that may have a mirror can't be reached, and
    InconsistentClusterId if the chain of a restored cluster owns one of the stores by now.
    """
    state = connection.newest_state()
    stores, ancestors = connection.stores(state), len(state.ancestors)
    copies = effective_cluster(state.config).metadata_copies if state.config else 0
    others = [other for other in state.stores.values() if other.store != store]
    announced: dict[StoreId, int] = {}
    failures = []
    for other in others:
        url = registered_url(connection.url, other.url)
        announce_peer(target, Peer(other.store, EntryNumber(state.n), url), ancestors)
        try:
            _announce_next(stores.get(other.store), Peer(store, EntryNumber(state.n + 1), target.url), ancestors)
            check_incarnation(stores.get(other.store), other.incarnation)  # or it may have lost a restore's mark, too
        except InconsistentClusterId:
            raise
        except SparklogError as error:
            failures.append(f"store {other.store}: {error}")
            continue
        if not other.fenced and is_elsewhere(connection.url, other.url):
            announced[other.store] = other.registration
    may_have_mirrors = [other for other in others if not other.fenced and is_elsewhere(connection.url, other.url)]
    if copies and len(announced) < len(may_have_mirrors):
        raise NotEnoughReplicas(
            f"store {store} has to be announced to {counted(len(may_have_mirrors), 'store')} that may have copies of "
            f"the metadata (metadata.copies), and only {len(announced)} could be reached: {'; '.join(failures)}; fence "
            "those that are lost"
        )
    return announced, state.next_registration


def _announce_next(target: ObjectStore, peer: Peer, ancestors: int) -> None:
    """Announce `peer` to the store `target`, under the number `peer.n`, or the next one that is not taken.

    A number may be taken, because an interrupted `add_store` has announced the same store at another address.
    `ancestors`: how often the cluster was restored. Raises Conflict after 17 attempts, and the other errors of
    `announce_peer`.
    """
    for n in range(peer.n, peer.n + _ANNOUNCED_AT_ONCE):
        try:
            return announce_peer(target, replace(peer, n=EntryNumber(n)), ancestors)
        except InconsistentClusterId:  # a further announcement could fail in another way, and hide this
            raise
        except Conflict:
            continue
    return announce_peer(target, replace(peer, n=EntryNumber(peer.n + _ANNOUNCED_AT_ONCE)), ancestors)


def _claim(store: StoreId, target: ObjectStore, lineage: Sequence[str], cluster: str) -> None:
    """Put the OWNER marks of a restored cluster on a store, so that processes of the lost chains change nothing there.

    Does nothing if the cluster was never restored. Raises InconsistentClusterId (another restore's mark), ChainDamaged.
    """
    if len(lineage) == 1:
        return
    *ancestors, chain_id = lineage
    mine = Owner(chain_id=chain_id, previous=ancestors[-1], cluster=cluster)
    for number in range(1, len(ancestors) + 1):
        put_owner(target, number, mine)
    owners, damaged = owners_on(target)
    if damaged:
        raise ChainDamaged(
            f"{owner_key(min(damaged))} of store {store} at {target.url} is damaged, and may be the mark of another "
            "restore of this cluster: put it back from a backup, or add an empty store at another address"
        )
    for owner in owners.values():
        if owner.chain_id not in lineage:
            raise InconsistentClusterId(
                f"store {store} at {target.url} is marked by cluster {owner.chain_id} at {owner.cluster}, another "
                "restore of this cluster: add an empty store at another address"
            )


def _check_comes_back_empty(known: Store, mark: Incarnation | None, url: str, known_url: str, zone: str | None) -> None:
    """Refuse to register a wiped store, unless it is fenced and comes back at its registered address and zone.

    Raises DuplicateBrokerRegistration if the store is not fenced (then its agent reports the loss), or if it is at
    another address, which may be a mistake. Raises InvalidInput if `zone` is another zone.
    """
    actual = "none" if mark is None else mark.incarnation
    what = f"store {known.store} is registered with {INCARNATION} {known.incarnation}, found {actual} at {url}"
    if not known.fenced:
        raise DuplicateBrokerRegistration(
            f"{what}: if it was wiped, its agent reports the loss and fills it again; another store needs another id"
        )
    check_same_place(known, f"{what}: a store that was wiped", url, known_url, zone)


def check_addresses(metadata: ObjectStore, addresses: Iterable[tuple[StoreId, str]]) -> None:
    """Raise DuplicateBrokerRegistration if two stores have the same address.

    Raise InvalidInput if a store is in the memory of this process, but the metadata is not: the store would be lost
    when the process ends.
    """
    seen: dict[str, StoreId] = {}
    for store, url in addresses:
        if url in seen:
            raise DuplicateBrokerRegistration(
                f"wanted stores at addresses of their own, found {seen[url]} and {store} at {url}"
            )
        seen[url] = store
        if url.startswith(_MEMORY) and not metadata.url.startswith(_MEMORY):
            raise InvalidInput(f"store {store} at {url} would end with this process, the cluster at {metadata.url} not")


def check_beside_metadata(connection: Connection, store: StoreId, target: ObjectStore) -> None:
    """Raise DuplicateBrokerRegistration if the store is at the place of the metadata, but has another address.

    Such a store would get a mirror of the metadata, which would be lost together with the original. A store with the
    address of the metadata gets none, so it is allowed.
    """
    head = connection.follower.head
    if target.url == absolute_url(connection.url):
        return
    with suppress(KeyNotFound):
        if hash_of(bytes(target.get(entry_key(head.n)))) == head.entry_hash:
            raise DuplicateBrokerRegistration(
                f"wanted store {store} at a place of its own, found the metadata at {target.url}: to put it there, "
                f"give it the address {connection.url}"
            )


def check_apart(metadata: ObjectStore, targets: Mapping[StoreId, ObjectStore]) -> None:
    """Check that no two ids are for the same place, which links and mounts can hide from `check_addresses`.

    Puts the same key into each store, and removes it afterwards. A store that already has the key is at the place of
    another id. The place of the metadata counts as a store here, because each store at another address may get a mirror
    of the metadata. Raises DuplicateBrokerRegistration.
    """
    key = f"{PROBES}{new_id()}-apart"
    put: list[ObjectStore] = []
    at_metadata = any(target.url == metadata.url for target in targets.values())
    places = targets if at_metadata else {StoreId(METADATA_STORE): metadata, **targets}
    try:
        for store, target in places.items():
            put.append(target)
            with suppress(OutcomeUnknown):
                _put_own(target, key, store)
    finally:
        for target in put:
            with suppress(SparklogError):
                target.delete(key)


def _put_own(target: ObjectStore, key: str, store: StoreId) -> None:
    try:
        target.put_if_absent(key, store.encode())
    except KeyExists:
        try:
            other = bytes(target.get(key)).decode()
        except KeyNotFound as absent:
            message = f"store {store} at {target.url} refuses {key} as taken, and it is not there"
            raise StoreUnavailable(message) from absent
        if other != store:
            raise DuplicateBrokerRegistration(
                f"wanted stores at places of their own, found that {other} and {store} are one, at {target.url}"
            ) from None
