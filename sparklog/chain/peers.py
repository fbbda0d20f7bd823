"""Peers: each store has announcements of the cluster's other stores, so that a restore finds all stores from any one.

    copies/peers/<store>/<n>      put if absent: the address of <store> as of entry n, or that entry n removed it

A store is announced to the others before it is registered. So the chain up to entry n, and the announcements on all
stores in that state, name every store that may have a mirror newer than n. After the put, the owner of the target is
checked. So a process whose chain was restored elsewhere gets an error, and registers no more stores.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sparklog.chain.framing import frame, unframe
from sparklog.chain.mirror.mirror import put
from sparklog.chain.owner import check_owner
from sparklog.core.errors import ChainDamaged, Conflict
from sparklog.core.types import EntryNumber, StoreId
from sparklog.storage.keys import INCARNATION, PEERS, parse_peer_key, peer_key
from sparklog.storage.object_store import ObjectStore


class Peer(msgspec.Struct, frozen=True):
    """An announcement of a store, as of entry `n`. `url` is absolute; None if the store was removed from the cluster.

    `damaged` is never stored. It is True if the announcement can't be read; then `url` is None too.
    """

    store: StoreId
    n: EntryNumber
    url: str | None
    damaged: bool = False


def announce_peer(target: ObjectStore, peer: Peer, ancestors: int) -> None:
    """Announce `peer` to the store at `target`. `ancestors` is the number of times that the cluster was restored.

    Raises InconsistentClusterId, Conflict (the target has a different announcement of the same store and entry), and
    the store's errors.
    """
    key = peer_key(peer.store, peer.n)
    if put(target, key, frame("peer", msgspec.json.encode(peer))) is not None:
        raise Conflict(f"{key} at {target.url} says something else than {peer}: try again")
    check_owner(target, ancestors, [INCARNATION, key])  # the owner is read at the place that has the announcement


def peers_on(target: ObjectStore) -> list[Peer]:
    """Return all announcements on the store, outdated ones too. Raises UnsupportedVersion, and the store's errors."""
    named = [parse_peer_key(stored.key) for stored in target.list_keys(PEERS)]
    return [_peer(target, StoreId(store), n) for store, n in filter(None, named)]


def newest_of(peers: Iterable[Peer]) -> dict[StoreId, Peer]:
    """Return the newest announcement of each store. If two are as of the same entry, a readable one is preferred."""
    newest: dict[StoreId, Peer] = {}
    for peer in sorted(peers, key=lambda peer: (peer.n, not peer.damaged)):
        newest[peer.store] = peer
    return newest


def _peer(target: ObjectStore, store: StoreId, n: EntryNumber) -> Peer:
    key = peer_key(store, n)
    try:
        return msgspec.json.decode(unframe("peer", target.get(key), key, target.url), type=Peer)
    except (ChainDamaged, msgspec.DecodeError):
        return Peer(store, n, None, damaged=True)
