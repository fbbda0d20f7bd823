"""Restore a cluster whose metadata is lost, from the copies of its chain on other stores (REPLICATION 4, F-08).

    the copies say which stores there are -> each is marked as that of the new chain, OWNER/<number>, and its copy is
    closed -> the copies are read to their end -> entry and snapshot of the new chain, and with that it exists

The marks come before the reading: what a process of the lost chain acknowledged before, is read; after that it finds a
mark and acknowledges nothing. It can be killed anywhere and run again, with the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from sparklog.chain import snapshot
from sparklog.chain.copied_chain import CopiedChain, close, last_copied
from sparklog.chain.copy_place import CopyPlace
from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.follower import Follower
from sparklog.chain.head import Draft, Head
from sparklog.chain.owner import Owner, put_owner, read_owner
from sparklog.chain.requests import Copy
from sparklog.chain.store_copy import put
from sparklog.client.connection import Connection
from sparklog.core.checkpoints import HIGH_WATERMARKS
from sparklog.core.commands import FenceStore
from sparklog.core.config.storage import storage_settings
from sparklog.core.coordinators import Author
from sparklog.core.decide.restore import restored_records
from sparklog.core.decide.stores import decide_fence_store
from sparklog.core.errors import (
    ClusterAlreadyExists,
    ClusterNotFound,
    Conflict,
    InvalidInput,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.records import AppliedCommand, At, ClusterRestored, Record
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import CommandId, EntryNumber, StoreId
from sparklog.host.dice import new_id
from sparklog.log.checkpoint_files import newest_checkpoint
from sparklog.log.incarnation import read_incarnation
from sparklog.log.stores import open_metadata, open_registered
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import (
    LOG,
    block_entries,
    copies_prefix,
    entry_block,
    entry_key,
    parse_entry_key,
    snapshot_key,
)
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url, join_url
from sparklog.storage.probe import check_store


class Restored(msgspec.Struct, frozen=True):
    """What was found, and what became of it, or would.

    `copies`: the entry up to which each store that was read has the lost chain; `last`: up to which they have it
    together. `first`: the first entry of the new chain, whose id is None in a dry run. `fenced`: the stores left out.
    `checkpoint`: the newest entry as of which a store has checkpoints, or -1. The lost chain had at least that one.
    """

    cluster: str
    previous: str
    chain_id: str | None
    copies: dict[StoreId, int]
    last: int
    first: int
    stores: dict[StoreId, str]
    fenced: tuple[StoreId, ...]
    topics: int
    copied: bool = False
    checkpoint: int = -1


def restore_cluster(
    url: str,
    sources: Mapping[str, str],
    *,
    without: Collection[str] = (),
    storage: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Restored:
    """Restore the cluster whose copies are on `sources` (store ids and their addresses), with its metadata at `url`.

    Every registered store must be there with its INCARNATION, at the address in `sources` or else its registered one;
    those that are lost, too, are named in `without`, and are fenced. Raises ClusterAlreadyExists (`url` has metadata),
    ClusterNotFound (no copies), Conflict (another restore was faster, or began elsewhere), InvalidInput,
    StoreUnavailable (a store is not there), ChainDamaged.
    """
    return _Restore(absolute_url(url), sources, without, storage or {}).run(dry_run=dry_run)


class _Restore:
    def __init__(
        self, url: str, sources: Mapping[str, str], without: Collection[str], storage: Mapping[str, str]
    ) -> None:
        if not sources:
            raise InvalidInput("a restore needs the address of a store that has copies of the metadata: --from ID=URL")
        self._url = url
        self._settings = settings_here(storage_settings(storage))
        self._place = open_metadata(url, self._settings)
        self._addresses = {StoreId(store): absolute_url(address) for store, address in sources.items()}
        self._sources = {store: self._opened(store, address) for store, address in self._addresses.items()}
        self._without = frozenset(map(StoreId, without))

    def run(self, *, dry_run: bool) -> Restored:
        chain_id, is_done = self._lost_chain()
        last = None if is_done is None else is_done.last
        state = self._read(list(self._sources.values()), chain_id, last).state
        targets = self._targets(state)
        stores = [*targets.values(), *(store for name, store in self._sources.items() if name not in targets)]
        found = self._restored(state, None, targets, chain_id)
        if dry_run:
            return found
        check_store(self._place, new_id())
        owner = self._owned(targets, len(state.ancestors) + 1, chain_id)
        for target in targets.values():
            close(CopyPlace(target, chain_id), owner)
        head = self._read(stores, chain_id, last)
        self._begin(head, owner, targets)
        found = self._restored(head.state, owner.chain_id, targets, chain_id)
        return msgspec.structs.replace(found, copied=self._copied())

    # ---- what there is --------------------------------------------------------------------------

    def _lost_chain(self) -> tuple[str, ClusterRestored | None]:
        """The chain to restore; and what an earlier run of this restore put here, if there was one."""
        owners = {store: _newest_owner(store, target) for store, target in self._sources.items()}
        begun = {
            chain: owner for chain, owner, _ in owners.values() if owner is not None and owner.cluster == self._url
        }
        follower = Follower(self._place)
        here = follower.catch_up().state
        if here.n >= 0 and here.chain_id not in begun:
            raise ClusterAlreadyExists(
                f"wanted a place without metadata, found cluster {here.chain_id} at {self._url}: if it lives, there is "
                "nothing to restore; else give another place, or move its meta/ away"
            )
        first = self._place.first_key_after(LOG, LOG)
        is_done = None if first is None else self._begun_here(first, begun)
        chains = set()
        for store, (chain_id, owner, target) in owners.items():
            # A place that is empty may have been that of an earlier restore, and be lost again.
            if owner is None or (is_done is None and self._has_copies(chain_id)):
                chains.add(chain_id)
            elif chain_id in begun:
                chains.add(owner.previous)
            else:
                raise Conflict(
                    f"cluster {owner.previous} was restored as {chain_id} at {owner.cluster}, says store {store} at "
                    f"{target.url}, and no store of --from has a copy of that: give one that has, or, if the restore "
                    f"did not end, run it again with --cluster {owner.cluster}"
                )
        if len(chains) > 1:
            raise Conflict(f"wanted stores of one cluster, found those of {', '.join(sorted(chains))}")
        return chains.pop(), is_done

    def _has_copies(self, chain_id: str) -> bool:
        prefix = copies_prefix(chain_id)
        return any(target.first_key_after(prefix, prefix) is not None for target in self._sources.values())

    def _begun_here(self, key: str, begun: Mapping[str, Owner]) -> ClusterRestored:
        """What an earlier run of this restore has put here. Raises ClusterAlreadyExists for anything else."""
        entry = decode_entry(parse_entry_key(key), self._place.get(key), self._place.url)
        for command in entry.commands:
            for record in command.records:
                if isinstance(record, ClusterRestored) and entry.chain_id in begun:
                    return record
        raise ClusterAlreadyExists(
            f"wanted a place without metadata, found {key} at {self._url}: give another place, or move its meta/ away"
        )

    def _read(self, stores: list[ObjectStore], chain_id: str, last: int | None) -> Head:
        head = Follower(CopiedChain(stores, chain_id, last)).catch_up()
        if head.n < 0:
            where = ", ".join(store.url for store in stores)
            raise ClusterNotFound(
                f"wanted copies of the metadata of cluster {chain_id}, found none that begin at its entry 0 or with a "
                f"snapshot, at {where} (metadata.copies of that cluster was 0, or other stores have them)"
            )
        return head

    def _targets(self, state: ClusterState) -> dict[StoreId, ObjectStore]:
        """The stores of the cluster, by id. Raises if one is not there and was not named as lost."""
        unknown = (self._without | self._sources.keys()) - set(state.stores)
        if unknown:
            raise InvalidInput(
                f"wanted stores of the cluster, {', '.join(sorted(state.stores))}; found {', '.join(sorted(unknown))}"
            )
        targets = {}
        for store in sorted(state.stores.values(), key=lambda each: each.store):
            if store.store not in self._without:
                targets[store.store] = self._target(store)
        return targets

    def _target(self, store: Store) -> ObjectStore:
        address = self._addresses.get(store.store) or join_url(self._url, store.url)
        try:
            target = self._opened(store.store, address)
            mark = read_incarnation(target)
        except SparklogError as error:
            raise _not_there(store, address, str(error)) from error
        if mark is None or mark.incarnation != store.incarnation:
            found = "none" if mark is None else mark.incarnation
            raise _not_there(store, address, f"wanted INCARNATION {store.incarnation}, found {found}")
        return target

    def _restored(
        self, state: ClusterState, chain_id: str | None, targets: Mapping[StoreId, ObjectStore], previous: str
    ) -> Restored:
        copies = {store: last_copied(CopyPlace(target, previous)) for store, target in self._sources.items()}
        return Restored(
            self._url,
            previous,
            chain_id,
            copies,
            state.n,
            _first_entry(state),
            {store: target.url for store, target in targets.items()},
            tuple(sorted(self._without)),
            len(state.topics),
            checkpoint=max((_newest_checkpoint(target, previous) for target in targets.values()), default=-1),
        )

    # ---- what is done ---------------------------------------------------------------------------

    def _owned(self, targets: Mapping[StoreId, ObjectStore], number: int, previous: str) -> Owner:
        """Mark every store. In the order of their ids, so that of two restores one is refused by the first store."""
        owner: Owner | None = None
        for store, target in targets.items():
            mine = owner or Owner(sparklog_owner=new_id(), previous=previous, cluster=self._url)
            there = put_owner(target, number, mine)
            if there != mine and (owner is not None or (there.previous, there.cluster) != (previous, self._url)):
                raise Conflict(
                    f"cluster {previous} is restored as {there.chain_id} at {there.cluster}, says store {store} at "
                    f"{target.url}: if that restore did not end, run it again with --cluster {there.cluster}"
                )
            owner = there
        if owner is None:
            raise InvalidInput("a restore needs at least one store that is not lost")
        return owner

    def _begin(self, head: Head, owner: Owner, targets: Mapping[StoreId, ObjectStore]) -> None:
        """Put the first entry of the new chain, then its snapshot: with its manifest the cluster is there."""
        first = EntryNumber(_first_entry(head.state))
        at = At(first, head.state.time_ms)  # every run of this restore makes the same entry
        draft = Draft(head)
        urls = {
            store: target.url
            for store, target in targets.items()
            if target.url != join_url(self._url, head.state.stores[store].url)
        }
        commands: list[AppliedCommand] = []

        def add(records: tuple[Record, ...]) -> None:
            command_id = CommandId(f"{len(commands):08x}{owner.chain_id[8:]}")
            command = AppliedCommand(command_id, first, records)
            draft.apply_command(command, at)
            commands.append(command)

        add(restored_records(draft.state, owner.chain_id, urls, at))
        for store in sorted(self._without):
            records = decide_fence_store(draft.state, FenceStore(store))
            if records:
                add(records)
        author = Author("restore", self._url)
        body = encode_entry(
            Entry(owner.chain_id, first, author, owner.chain_id, head.entry_hash, at.time_ms, tuple(commands))
        )
        draft.end_entry(at, author, body)
        if put(self._place, entry_key(first), body) is not None:
            raise Conflict(
                f"{entry_key(first)} at {self._url} is of an earlier run of this restore with other stores: run it "
                "with the same --from and --without, or give another place"
            )
        after = draft.head()
        snapshot.write(self._place, snapshot.prepare(after.state, after.entry_hash, {}))
        there = Follower(self._place).catch_up().state.chain_id
        if there != owner.chain_id:
            raise OutcomeUnknown(f"{snapshot_key(first)} at {self._url} is of cluster {there}")

    def _copied(self) -> bool:
        """Give the new chain its own copies. The next commit does that, too."""
        connection = Connection(self._url, settings=self._settings)
        follower = connection.follower
        try:
            if follower.copies is None or not follower.copies_wanted(follower.state):
                return False
            body = bytes(follower.store.get(entry_key(follower.head.n)))
            follower.copies.perform(Copy(follower.head, body))
            return True
        except SparklogError:
            return False
        finally:
            connection.close()

    def _opened(self, store: StoreId, address: str) -> ObjectStore:
        return open_registered(self._url, store, address, self._settings)


def _newest_owner(store: StoreId, target: ObjectStore) -> tuple[str, Owner | None, ObjectStore]:
    """The chain that owns the store, and the newest mark of a restore, if any."""
    mark = read_incarnation(target)
    if mark is None:
        raise StoreUnavailable(f"store {store} at {target.url}: wanted a store of a cluster, found no INCARNATION")
    owner: Owner | None = None
    number = 1
    while (newer := read_owner(target, number)) is not None:
        owner, number = newer, number + 1
    return (mark.chain_id if owner is None else owner.chain_id), owner, target


def _newest_checkpoint(target: ObjectStore, chain_id: str) -> int:
    found = newest_checkpoint(target, chain_id, HIGH_WATERMARKS)
    return -1 if found is None else found[0]


def _first_entry(state: ClusterState) -> int:
    """The first entry of the restored chain.

    It leaves out a whole block of numbers: the lost chain may have gone on a little, with entries that nobody was told
    of. So no number stands for two entries, and no upload that was begun on the lost chain is above FLOOR.
    """
    return block_entries(entry_block(state.n) + 2).start


def _not_there(store: Store, address: str, found: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"store {store.store} at {address}: {found}; give its address with --from {store.store}=URL; if it is lost, "
        f"too, leave it out with --without {store.store}"
    )
