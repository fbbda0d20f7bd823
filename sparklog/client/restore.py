"""Restore a cluster whose metadata is lost, from the copies of its chain on other stores (REPLICATION 4, F-08).

    find all stores and read their copies -> check that nothing is missing -> mark each store as that of the new chain,
    OWNER/<number>, and close its copies -> find and read again, until there is no new store -> check again
    -> entry and snapshot of the new chain, and with the entry it has begun

The marks come before the last reading: what a process of the lost chain acknowledged before, is read; after that it
finds a mark, and acknowledges and announces nothing. A run that is refused or killed can be run again, with the same
result: the chain that a restore begins follows from the lost one and the new place, and so does the number of its
first entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import msgspec

from sparklog.chain import snapshot
from sparklog.chain.copied_chain import close
from sparklog.chain.copy_place import CopyPlace
from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.follower import Follower
from sparklog.chain.head import Draft, Head
from sparklog.chain.owner import Owner, decoded, encoded, is_mark, put_owner
from sparklog.chain.requests import Copy
from sparklog.chain.store_copy import put
from sparklog.client.connection import Connection
from sparklog.client.found_stores import FoundStores, not_there
from sparklog.core.commands import FenceStore
from sparklog.core.config.storage import storage_settings
from sparklog.core.coordinators import Author
from sparklog.core.decide.restore import restored_records
from sparklog.core.decide.stores import decide_fence_store
from sparklog.core.errors import (
    ChainDamaged,
    ClusterAlreadyExists,
    Conflict,
    InvalidInput,
    OutcomeUnknown,
    SparklogError,
    StoreUnavailable,
)
from sparklog.core.records import AppliedCommand, At, ClusterRestored, Record
from sparklog.core.state import first_entry
from sparklog.core.types import CommandId, EntryNumber, StoreId
from sparklog.host.dice import new_id
from sparklog.log.stores import open_metadata
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import LOG, entry_key, parse_entry_key
from sparklog.storage.open_store import absolute_url, join_url
from sparklog.storage.probe import check_store


class Restored(msgspec.Struct, frozen=True):
    """What was found, and what became of it, or would.

    `copies`: the entry up to which each store has the lost chain, or -1; `last`: up to which they have it together, and
    `time_ms` when that was written. `first`: the first entry of the new chain, whose id is None in a dry run. `fenced`:
    the stores left out. `checkpoint`: the newest entry as of which a store has checkpoints, or -1. `newer`: what says
    that the lost chain had more than that, or None.
    """

    cluster: str
    previous: str
    chain_id: str | None
    copies: dict[StoreId, int]
    last: int
    time_ms: int
    first: int
    stores: dict[StoreId, str]
    fenced: tuple[StoreId, ...]
    topics: int
    checkpoint: int = -1
    newer: str | None = None
    copied: bool = False


def restore_cluster(
    url: str,
    sources: Mapping[str, str],
    *,
    without: Collection[str] = (),
    storage: Mapping[str, str] | None = None,
    take_over: bool = False,
    accept_loss: bool = False,
    dry_run: bool = False,
) -> Restored:
    """Restore a cluster, with its metadata at `url`. `sources`: ids and addresses of some of its stores, or all.

    The others are found by what these say. Every store must be there with its INCARNATION; those that are lost, too,
    are named in `without`, and are fenced. `take_over` gives up a restore to another place that has not begun.
    `accept_loss` restores also if something says that the lost chain had more than the copies.

    Raises ClusterAlreadyExists (`url` has metadata), ClusterNotFound (no copies), Conflict (another restore was faster,
    or began elsewhere), InvalidInput, StoreUnavailable (a store is not there), ChainDamaged (something is missing, or
    damaged on all stores that have it).
    """
    given = {StoreId(store): absolute_url(address) for store, address in sources.items()}
    if not given:
        raise InvalidInput("a restore needs the address of a store that has copies of the metadata: --from ID=URL")
    left_out = frozenset(map(StoreId, without))
    if both := left_out & given.keys():
        raise InvalidInput(f"wanted stores either in --from or in --without, found {', '.join(sorted(both))} in both")
    restore = _Restore(absolute_url(url), given, left_out, storage or {}, take_over, accept_loss)
    return restore.run(dry_run=dry_run)


class _Restore:
    def __init__(
        self,
        url: str,
        given: Mapping[StoreId, str],
        without: frozenset[StoreId],
        storage: Mapping[str, str],
        take_over: bool,
        accept_loss: bool,
    ) -> None:
        self._url = url
        self._settings = settings_here(storage_settings(storage))
        self._place = open_metadata(url, self._settings)
        self._given = given
        self._without = without
        self._take_over = take_over
        self._accept_loss = accept_loss
        self._stores = FoundStores(url, given, without, self._settings, accept_loss=accept_loss)

    def run(self, *, dry_run: bool) -> Restored:
        stores = self._stores
        stores.find()
        begun = self._begun()
        if begun is not None:
            return self._finish(*begun, dry_run=dry_run)
        self._check_lost()
        self._check()
        owner = self._owner(dry_run=dry_run)
        report = self._report(owner)
        if dry_run:
            return report
        if report.newer is not None and not self._accept_loss:
            raise self._more(report.newer)
        check_store(self._place, new_id())
        marked: set[StoreId] = set()
        while new := sorted(stores.found.keys() - marked):
            for store in new:
                self._mark(store, owner)
            for store in new:
                close(CopyPlace(stores.found[store].target, stores.chain_id), owner)
            marked.update(new)
            stores.find()
        self._check_again(owner)
        report = self._report(owner)
        self._begin(owner)
        return msgspec.structs.replace(report, chain_id=owner.chain_id, copied=self._copied())

    # ---- what there is --------------------------------------------------------------------------

    def _begun(self) -> tuple[Entry, bytes] | None:
        """The first entry that an earlier run of this restore has put here. Raises ClusterAlreadyExists, Conflict."""
        key = self._place.first_key_after(LOG, LOG)
        here = Follower(self._place).catch_up()
        if key is None and here.n < 0:
            return None
        if key is not None:
            n = parse_entry_key(key)
            body = bytes(self._place.get(key))
            if is_mark(body):
                raise Conflict(f"{_given_up(decoded(body, key, self._place.url))}: give another place")
            entry = decode_entry(n, body, self._place.url)
            known = (self._stores.chain_id, *(owner.chain_id for _, owner in self._pending()))
            if _restored_by(entry) is not None and entry.chain_id in known:
                return entry, body
        if here.n >= 0:
            raise ClusterAlreadyExists(
                f"wanted a place without metadata, found cluster {here.state.chain_id} at {self._url}: if it lives, "
                "there is nothing to restore; else give another place, or move its meta/ away"
            )
        raise ClusterAlreadyExists(
            f"wanted a place without metadata, found {key} at {self._url}: give another place, or move its meta/ away"
        )

    def _check_lost(self) -> None:
        """Refuse if the newest chain, which an earlier restore has begun, lives at its place."""
        stores = self._stores
        marks = [found.owners.get(self._own_number()) for found in stores.found.values()]
        for place in {mark.cluster for mark in marks if mark is not None and mark.chain_id == stores.chain_id}:
            try:
                there = Follower(open_metadata(place, self._settings)).catch_up().state.chain_id
            except SparklogError:  # it can't be read: so it may well be lost
                continue
            if there == stores.chain_id:
                raise Conflict(
                    f"cluster {stores.chain_id} is not lost: an earlier restore has begun it at {place}, and it is "
                    f"there; connect to {place}, or move its meta/ away"
                )

    def _pending(self) -> list[tuple[int, Owner]]:
        """The marks of restores of this chain, by number: none of them has copies, so none may have begun."""
        own = self._own_number()
        return sorted(
            {
                (number, owner)
                for found in self._stores.found.values()
                for number, owner in found.owners.items()
                if number > own
            },
            key=lambda mark: (mark[0], mark[1].chain_id),
        )

    def _own_number(self) -> int:
        return len(self._stores.head.state.ancestors)

    def _check(self) -> None:
        """Check that every store is there that may have copies, and that no other cluster owns one."""
        stores, state = self._stores, self._stores.head.state
        unknown = (self._without | self._given.keys()) - set(state.stores) - set(stores.peers)
        if unknown:
            raise InvalidInput(
                f"wanted stores of the cluster, {', '.join(sorted(state.stores))}; found {', '.join(sorted(unknown))}"
            )
        for store in sorted(state.stores.keys() - self._without):
            stores.registered(state.stores[store])
        for store, peer in sorted(stores.peers.items()):
            if store in state.stores or store in self._without or store in stores.found:
                continue
            if peer.damaged:
                raise not_there(store, "it was announced, and what was said of it is damaged")
            if peer.url is not None:
                raise not_there(
                    store,
                    f"{stores.missing.get(store, 'not found')}; it was announced after entry {peer.n:,}, and is not "
                    "registered in what was found, so it may have all that came later",
                )
        for store, found in sorted(stores.found.items()):
            for number, owner in found.owners.items():
                if number <= self._own_number() and owner.chain_id not in state.lineage:
                    raise Conflict(
                        f"store {store} at {found.target.url} belongs to cluster {owner.chain_id} at {owner.cluster}, "
                        f"which is another restore of the same cluster: leave it out with --without {store}"
                    )
        if not set(state.stores) & set(stores.found):
            raise InvalidInput("a restore needs at least one registered store that is not lost")

    def _report(self, owner: Owner) -> Restored:
        stores, state = self._stores, self._stores.head.state
        return Restored(
            self._url,
            stores.chain_id,
            None,
            stores.copies(),
            state.n,
            state.time_ms,
            self._first(owner),
            {store: stores.found[store].target.url for store in sorted(state.stores.keys() & stores.found.keys())},
            tuple(sorted(self._without & state.stores.keys())),
            len(state.topics),
            stores.newest_checkpoint(),
            stores.newer(),
        )

    def _more(self, newer: str) -> ChainDamaged:
        last = self._stores.head.n
        return ChainDamaged(
            f"the copies of cluster {self._stores.chain_id} end with entry {last:,}, but {newer}: writes that were "
            f"acknowledged after entry {last:,} would be lost; give the stores that have them with --from, or restore "
            "without these writes, with --accept-loss"
        )

    # ---- whose restore it is --------------------------------------------------------------------

    def _owner(self, *, dry_run: bool) -> Owner:
        """The mark that this restore puts: that of an earlier run of it, or a new one. Raises Conflict."""
        pending = self._pending()
        name = hashlib.sha256(f"{self._stores.chain_id} {self._url}".encode()).hexdigest()[:32]
        mine = next((each for each in pending if each[1].chain_id == name), None)
        number = self._own_number() + 1 if mine is None else mine[0]
        others = [(n, owner) for n, owner in pending if n >= number and owner.chain_id != name]
        if not others:
            given_up = () if mine is None else mine[1].given_up
            return Owner(sparklog_owner=name, previous=self._stores.chain_id, cluster=self._url, given_up=given_up)
        if not self._take_over:
            raise self._elsewhere(others[-1][1])
        if mine is not None:
            raise Conflict(
                f"a restore to {self._url} and one to {others[-1][1].cluster} have both put marks: give another place, "
                "and both up, with --take-over"
            )
        last = others[-1][1]
        given_up = (*last.given_up, last.chain_id)
        owner = Owner(sparklog_owner=name, previous=self._stores.chain_id, cluster=self._url, given_up=given_up)
        if not dry_run:
            for n, other in others:
                self._give_up(n, other, owner)
        return owner

    def _number(self, owner: Owner) -> int:
        return self._own_number() + 1 + len(owner.given_up)

    def _first(self, owner: Owner) -> EntryNumber:
        return first_entry(self._number(owner))

    def _give_up(self, number: int, other: Owner, owner: Owner) -> None:
        """Make sure that another restore never begins: put a mark into the place of its first entry."""
        key = entry_key(first_entry(number))
        try:
            there = put(open_metadata(other.cluster, self._settings), key, encoded(owner))
        except SparklogError as error:
            raise StoreUnavailable(
                f"whether the restore to {other.cluster} has begun can't be known: {error.message}; make that place "
                f"reachable, or run that restore again, with --cluster {other.cluster}"
            ) from error
        if there is not None and not is_mark(there):
            raise self._elsewhere(other)

    def _elsewhere(self, other: Owner) -> Conflict:
        marked = sorted(
            store for store, found in self._stores.found.items() if other.chain_id in map(_chain, found.owners.values())
        )
        return Conflict(
            f"cluster {other.previous} is restored as {other.chain_id} at {other.cluster}, says store "
            f"{', '.join(marked)}: if that restore did not end, run it again with --cluster {other.cluster}; or, if it "
            "has not begun there, give it up with --take-over"
        )

    # ---- what is done ---------------------------------------------------------------------------

    def _mark(self, store: StoreId, owner: Owner) -> None:
        there = put_owner(self._stores.found[store].target, self._number(owner), owner)
        if there != owner:
            raise self._elsewhere(there)

    def _check_again(self, owner: Owner) -> None:
        """Check what was read behind the marks as before them, and that each store has its mark."""
        self._check()
        for store, found in sorted(self._stores.found.items()):
            newest = max(found.owners.items(), default=None)
            if newest is not None and newest[0] >= self._number(owner) and newest[1] != owner:
                raise self._elsewhere(newest[1])
            if newest != (self._number(owner), owner):
                raise StoreUnavailable(
                    f"store {store} at {found.target.url} has lost the mark of this restore: run it again"
                )
        newer = self._stores.newer()
        if newer is not None and not self._accept_loss:
            raise self._more(newer)

    def _begin(self, owner: Owner) -> None:
        """Put the first entry of the new chain, then its snapshot: with its manifest the cluster can be opened."""
        head, stores = self._stores.head, self._stores.found
        first = self._first(owner)
        at = At(first, head.state.time_ms)  # every run of this restore makes the same entry
        draft = Draft(head)
        places = {
            store.store: stores[store.store].target.url for store in head.state.stores.values() if store.store in stores
        }
        urls = {store: url for store, url in places.items() if url != join_url(self._url, head.state.stores[store].url)}
        commands: list[AppliedCommand] = []

        def add(records: tuple[Record, ...]) -> None:
            command_id = CommandId(f"{len(commands):08x}{owner.chain_id[8:]}")
            command = AppliedCommand(command_id, first, records)
            draft.apply_command(command, at)
            commands.append(command)

        add(restored_records(draft.state, owner.chain_id, urls, owner.given_up, at))
        for store in sorted(self._without & head.state.stores.keys()):
            records = decide_fence_store(draft.state, FenceStore(store))
            if records:
                add(records)
        author = Author("restore", self._url)
        body = encode_entry(
            Entry(owner.chain_id, first, author, owner.chain_id, head.entry_hash, at.time_ms, tuple(commands))
        )
        draft.end_entry(at, author, body)
        there = put(self._place, entry_key(first), body)
        if there is not None and is_mark(there):
            raise Conflict(f"{_given_up(decoded(there, entry_key(first), self._place.url))}: give another place")
        if there is not None:
            raise Conflict(
                f"{entry_key(first)} at {self._url} is of an earlier run of this restore with other stores: run it "
                "again, and it goes on with that"
            )
        self._put_snapshot(draft.head())

    def _finish(self, entry: Entry, body: bytes, *, dry_run: bool) -> Restored:
        """Go on after the first entry, which an earlier run has put: it says all."""
        stores = self._stores
        restored = _restored_by(entry)
        if restored is None:
            raise AssertionError("the first entry of a restored chain says so")
        if stores.chain_id != entry.chain_id:
            head = stores.read_up_to(restored.last)
            draft = Draft(head)
            draft.apply(entry, body, {})
            state = draft.state
            if not dry_run:
                self._put_snapshot(draft.head())
        else:
            state = stores.head.state
        previous = state.ancestors[-1 - len(restored.given_up)]
        return Restored(
            self._url,
            previous,
            entry.chain_id,
            stores.copies(),
            restored.last,
            entry.time_ms,
            entry.n,
            {store.store: join_url(self._url, store.url) for store in state.stores.values() if not store.fenced},
            tuple(sorted(store.store for store in state.stores.values() if store.fenced)),
            len(state.topics),
            copied=not dry_run and self._copied(),
        )

    def _put_snapshot(self, head: Head) -> None:
        snapshot.write(self._place, snapshot.prepare(head.state, head.entry_hash, {}))
        there = Follower(self._place).catch_up().state.chain_id
        if there != head.state.chain_id:
            raise OutcomeUnknown(f"the snapshot of entry {head.n} at {self._url} is of cluster {there}")

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


def _restored_by(entry: Entry) -> ClusterRestored | None:
    """The record with which a restored chain begins, if the entry has it."""
    records = (record for command in entry.commands for record in command.records)
    return next((record for record in records if isinstance(record, ClusterRestored)), None)


def _chain(owner: Owner) -> str:
    return owner.chain_id


def _given_up(owner: Owner) -> str:
    return f"the restore to this place was given up in favour of {owner.chain_id} at {owner.cluster}"
