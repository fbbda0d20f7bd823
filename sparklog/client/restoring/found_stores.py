"""Finds the stores of a cluster whose metadata is lost, starting from some of them, and reads the chain from mirrors.

On each store, the mirror of the chain names the registered stores, and the peers name stores that were only announced.
These stores are looked for and read, too, until no new store is found. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

import msgspec

from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Head
from sparklog.chain.mirror.mirror_place import MirrorPlace
from sparklog.chain.mirror.mirrored_chain import MirroredChain, begins, beyond, last_mirrored
from sparklog.chain.owner import Owner, owners_on
from sparklog.chain.peers import Peer, newest_of, peers_on
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.storage import StorageSettings
from sparklog.core.describe.checkpoints import HIGH_WATERMARKS
from sparklog.core.errors import ChainDamaged, ClusterNotFound, Conflict, InvalidInput, SparklogError, StoreUnavailable
from sparklog.core.state import Store
from sparklog.core.types import StoreId
from sparklog.log.checkpoint_files import newest_checkpoint
from sparklog.log.cluster_stores import open_registered
from sparklog.log.incarnation import Incarnation, read_incarnation
from sparklog.storage.keys import SNAPSHOTS, parse_snapshot_key
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import registered_url


class FoundStore(msgspec.Struct, frozen=True):
    """A store that answers. `mark`: the contents of its file INCARNATION.

    `owners`: its marks OWNER/<number>, by number. `damaged`: the numbers of those that can't be read.
    """

    target: ObjectStore
    mark: Incarnation
    owners: dict[int, Owner]
    damaged: frozenset[int]

    @property
    def chains(self) -> set[str]:
        """The ids of the chains that have owned the store, as far as its marks say."""
        return {self.mark.chain_id, *(owner.chain_id for owner in self.owners.values())}


class FoundStores:
    """Finds the stores of a lost cluster. `given`: addresses of stores by id; `without`: stores not to look for.

    `cluster`: the address to which relative addresses of stores belong. `accept_loss`: if an entry is damaged on all
    stores, end the chain before it instead of raising ChainDamaged.

    After `find`: `found` has the stores that answer, and `missing` the reason for each store that was not found.
    `chain_id` is the newest chain that has a mirror on a found store, and `head` the newest state of that chain.
    """

    def __init__(
        self,
        cluster: str,
        given: Mapping[StoreId, str],
        without: Collection[StoreId],
        settings: StorageSettings,
        *,
        accept_loss: bool,
    ) -> None:
        self.found: dict[StoreId, FoundStore] = {}
        self.missing: dict[StoreId, str] = {}
        self.peers: dict[StoreId, Peer] = {}
        self.chain_id = ""
        self.head = Head()
        self._cluster = cluster
        self._given = given
        self._without = without
        self._settings = settings
        self._accept_loss = accept_loss

    def find(self) -> None:
        """Look for all stores, also those known from an earlier call, and read their mirrors and marks again.

        Raises ClusterNotFound (no store has a mirror), Conflict (stores of several clusters), StoreUnavailable (a
        store in `given` is missing), ChainDamaged.
        """
        addresses: dict[StoreId, set[str]] = {store: {address} for store, address in self._given.items()}
        self.found, self.missing = {}, {}
        damaged: ChainDamaged | None = None
        while self._look_for(addresses):
            self.peers = newest_of(peer for store in self.found for peer in self._peers(store))
            damaged = None
            try:
                self._read()
            except ChainDamaged as error:  # a store that is found next may have the object whole
                damaged = error
            for peer in self.peers.values():
                if peer.url is not None:
                    addresses.setdefault(peer.store, set()).add(peer.url)
            for known in self.head.state.stores.values():
                addresses.setdefault(known.store, set()).add(registered_url(self._cluster, known.url))
            addresses = {store: places for store, places in addresses.items() if store not in self._without}

        for store in self._given:
            if store in self.missing:
                raise StoreUnavailable(f"store {store}: {self.missing[store]}")
        if damaged is not None:
            raise damaged
        if self.head.n < 0:
            where = ", ".join(found_store.target.url for found_store in self.found.values())
            missing = "".join(f"; store {store}: {why}" for store, why in sorted(self.missing.items()))
            raise ClusterNotFound(
                "wanted copies of the metadata of a cluster that begin at its entry 0 or with a snapshot, found none "
                f"at {where} (its metadata.copies was 0, or other stores have them){missing}"
            )

    @property
    def restores(self) -> int:
        """The number of the restore that began the chain `chain_id`; 0 if it is the cluster's first chain."""
        return len(self.head.state.ancestors)

    def mirrored_to(self) -> dict[StoreId, int]:
        """The entry up to which the mirror on each found store is whole; -1 for a store without a mirror.

        A store that can't be read is left out. The result is for display only.
        """
        mirrored = {}
        for store in sorted(self.found):
            with suppress(SparklogError):
                mirrored[store] = last_mirrored(self._place(store))
        return mirrored

    def newer(self) -> str | None:
        """Return evidence, as text, of a chain newer than `chain_id` or of entries after `head`; None if there is none.

        If a found store seems to have newer entries, the mirrors are first read again, and `head` may change: a chain
        that is still alive may have written these entries after the last read.
        """
        for store, found_store in sorted(self.found.items()):
            for number, owner in found_store.owners.items():
                if number > self.restores and owner.previous != self.chain_id:
                    return (
                        f"store {store} at {found_store.target.url} has the mark of a restore of cluster "
                        f"{owner.previous}, which came later, and no store that was found has copies of it"
                    )
        what = self._what_is_newer()
        if what is not None:
            self._read()  # if the lost chain is alive, it may just have written it
        if what is not None and what[0] > self.head.n:
            return what[1]
        if self.head.state.config and not effective_cluster(self.head.state.config).metadata_copies:
            return "metadata.copies is 0 from there on, so later entries have no copies"
        return None

    def newest_checkpoint(self) -> int:
        """Return the number of the newest entry for which a found store has a checkpoint; -1 without a checkpoint.

        The lost chain had entries at least up to this one.
        """
        newest = [
            newest_checkpoint(found_store.target, self.chain_id, HIGH_WATERMARKS) for found_store in self.found.values()
        ]
        return max((checkpoint[0] for checkpoint in newest if checkpoint is not None), default=-1)

    def registered(self, store: Store) -> FoundStore:
        """The found store that is registered as `store`.

        Raises StoreUnavailable if it is missing, or if its INCARNATION differs from the registered one.
        """
        found_store = self.found.get(store.store)
        if found_store is None:
            raise not_there(store.store, self.missing.get(store.store, "it was not looked for"))
        actual = found_store.mark.incarnation
        if actual != store.incarnation:
            wanted = f"wanted INCARNATION {store.incarnation} at {found_store.target.url}, found {actual}"
            raise not_there(store.store, wanted)
        return found_store

    def _what_is_newer(self) -> tuple[int, str] | None:
        for store in sorted(self.found):
            what = beyond(self._place(store), self.head.n)
            if what is not None:
                n, named = what
                return n, f"store {store} at {self.found[store].target.url} has {named}"
        n = self.newest_checkpoint()
        return (n, f"a store has a checkpoint as of entry {n:,}") if n > self.head.n else None

    # ---- one store ------------------------------------------------------------------------------

    def _look_for(self, addresses: Mapping[StoreId, Collection[str]]) -> bool:
        """Look for the stores in `addresses` that were not found yet. Returns True if it finds any of them."""
        new = [store for store in addresses if store not in self.found and self._look(store, addresses[store])]
        return bool(new)

    def _look(self, store: StoreId, addresses: Collection[str]) -> bool:
        """Look for a store at these addresses. Returns True if it was found; otherwise notes the reason in `missing`.

        Prefers an address where the store has the registered INCARNATION. Raises InvalidInput if the address in `given`
        is not valid.
        """
        given = self._given.get(store)
        registered = self.head.state.stores.get(store)
        other_life: FoundStore | None = None
        for address in sorted(addresses, key=lambda address: (address != given, address)):
            try:
                target = open_registered(self._cluster, store, address, self._settings)
                mark = read_incarnation(target)
                if mark is None:
                    self.missing.setdefault(store, f"wanted a store of a cluster at {address}, found no INCARNATION")
                    continue
                found_store = FoundStore(target, mark, *owners_on(target))
                if address != given and self._chains().isdisjoint(found_store.chains):
                    self.missing[store] = f"the store at {address} belongs to another cluster, {mark.chain_id}"
                else:
                    if registered is None or mark.incarnation == registered.incarnation:
                        return self._has_found(store, found_store)
                    other_life = other_life or found_store
            except SparklogError as error:
                if isinstance(error, InvalidInput) and address == given:
                    raise
                self.missing[store] = f"at {address}: {error}"
        return other_life is not None and self._has_found(store, other_life)

    def _has_found(self, store: StoreId, found_store: FoundStore) -> bool:
        self.found[store] = found_store
        self.missing.pop(store, None)
        return True

    def _chains(self) -> set[str]:
        """The ids of all chains of the cluster that are named in the state, or in the marks of found stores."""
        return set(self.head.state.lineage).union(*(found_store.chains for found_store in self.found.values()))

    def _peers(self, store: StoreId) -> list[Peer]:
        return peers_on(self.found[store].target)

    def _place(self, store: StoreId) -> MirrorPlace:
        return MirrorPlace(self.found[store].target, self.chain_id)

    def _targets(self) -> list[ObjectStore]:
        return [self.found[store].target for store in sorted(self.found)]

    # ---- the chain ------------------------------------------------------------------------------

    def _read(self) -> None:
        """Set `chain_id` and `head` to the newest chain with mirrors and its newest state, if there is one."""
        chain_id = self._newest_chain()
        if chain_id is None:
            return
        if chain_id != self.chain_id:
            self.chain_id, self.head = chain_id, Head()
        chain = MirroredChain(self._targets(), chain_id, accept_loss=self._accept_loss)
        follower = Follower(chain)
        newest = chain.first_key_after(SNAPSHOTS, SNAPSHOTS)
        if newest is None or parse_snapshot_key(newest) <= self.head.n:
            follower.publish(self.head)  # a newer snapshot is read instead: the entries up to it may be on no store
        follower.catch_up()
        follower.publish(self.head)  # no entry that was read before is given up
        self.head = follower.head

    def _newest_chain(self) -> str | None:
        """The id of the newest chain that has a mirror on a found store; None without any mirror.

        The newest chain is that of the latest restore. A chain without a mirror does not count: it has not begun, or
        has no acknowledged writes. Raises Conflict if two chains are from restores with the same number.
        """
        numbers = {found_store.mark.chain_id: 0 for found_store in self.found.values()}
        for found_store in self.found.values():
            numbers.update({owner.chain_id: number for number, owner in found_store.owners.items()})
        mirrored = {chain: number for chain, number in numbers.items() if self._has_mirror(chain)}
        newest = [chain for chain, number in mirrored.items() if number == max(mirrored.values())]
        if len(newest) > 1:
            named = "; ".join(f"{chain}: {', '.join(self._stores_of(chain))}" for chain in sorted(newest))
            raise Conflict(f"wanted stores of one cluster, found those of {named}: leave out with --without, or --from")
        return newest[0] if newest else None

    def _has_mirror(self, chain_id: str) -> bool:
        return any(begins(MirrorPlace(target, chain_id)) for target in self._targets())

    def _stores_of(self, chain_id: str) -> list[StoreId]:
        return sorted(store for store, found_store in self.found.items() if chain_id in found_store.chains)


def not_there(store: StoreId, reason: str) -> StoreUnavailable:
    """The error for a store that a restore needs and did not find. `reason`: a text that says why."""
    return StoreUnavailable(
        f"store {store}: {reason}; give its address with --from {store}=URL; if it is lost, too, or was removed from "
        f"the cluster since, leave it out with --without {store}"
    )
