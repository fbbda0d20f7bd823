"""Restores a cluster whose metadata is lost, from the mirrors of its chain on other stores.

    find all stores and read their mirrors -> check that nothing is missing -> put the mark OWNER/<number> of the new
    chain on each store -> find and read again, until there is no new store -> check again
    -> put the beginning of the new chain: now it has begun -> put its first entry and snapshot under their own keys

All stores are marked before the mirrors are read for the last time. So the restore reads every entry that a process of
the lost chain acknowledged before its store was marked. Once a process finds the mark, it acknowledges and announces
nothing. After a failure the restore can be run again: the new run finishes a restore that has begun, and gives up one
that has not (`restore_owner.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing, suppress

import msgspec

from sparklog.chain.chain_requests import MirrorEntry
from sparklog.chain.entry import Entry, decode_entry, encode_entry
from sparklog.chain.follow.follower import Follower
from sparklog.chain.head import Draft
from sparklog.chain.mirror.mirror import put
from sparklog.chain.mirror.restored_beginning import (
    Beginning,
    beginnings_at,
    encoded_beginning,
    manifest_in,
)
from sparklog.chain.owner import Owner, decoded, is_owner_mark, put_owner
from sparklog.chain.snapshot import snapshot
from sparklog.chain.snapshot.chunks import put_chunk
from sparklog.client.connection import Connection
from sparklog.client.restoring.found_stores import FoundStores
from sparklog.client.restoring.restore_checks import check_lost, check_stores
from sparklog.client.restoring.restore_owner import (
    choose_owner,
    give_up,
    marked_for_another,
    number_of,
    pending,
    taken_over,
)
from sparklog.core.commands import FenceStore
from sparklog.core.config.storage import storage_settings
from sparklog.core.coordination import Author
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
from sparklog.core.records import AppliedCommand, At, ClusterRestored, Record, StoreFenced
from sparklog.core.state import first_entry
from sparklog.core.types import CommandId, EntryNumber, StoreId
from sparklog.host.dice import new_id
from sparklog.log.cluster_stores import open_metadata
from sparklog.storage.config_file import settings_here
from sparklog.storage.keys import LOG, entry_key, restore_key, snapshot_key
from sparklog.storage.open_store import absolute_url, is_same_place, registered_url
from sparklog.storage.probe import check_store


class Restored(msgspec.Struct, frozen=True):
    """The outcome of a restore, or of its dry run.

    `previous` is the id of the lost chain. `chain_id` is that of the new chain; None in a dry run, unless an earlier
    run has begun the new chain. `copies`: the entry up to which each store has the lost chain, -1 if it has nothing of
    it; {} if the stores have mirrors of the new chain already. `last`: the entry up to which all stores together have
    the lost chain, and `time_ms` the time of this entry. `first`: the first entry of the new chain.

    `stores`: the addresses of the found stores; `fenced`: the stores left out. `topics`: the number of topics.
    `checkpoint`: the newest entry for which a store has a checkpoint, -1 without any. `newer`: a text with evidence
    that the lost chain had entries after `last`, or None. `copied`: true if this run has put the new chain on mirrors.
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
    """Restore a cluster whose metadata is lost, with its new metadata at `url`.

    `sources`: ids and addresses of at least one of its stores, through which the others are found. Every store must be
    reachable with its INCARNATION, except those in `without`: they count as lost, and are fenced. `take_over`: if a
    restore to another place has marked stores, but has not begun, give it up. `accept_loss`: restore even if there is
    evidence that the lost chain had entries that no mirror has. `dry_run`: check everything, and change nothing.

    Raises ClusterAlreadyExists (`url` has metadata), ClusterNotFound (no mirrors), Conflict (another restore was
    faster, or began elsewhere), InvalidInput, StoreUnavailable (a store was not found), ChainDamaged (an object is
    missing, or damaged on all stores that have it).
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
        try:
            stores.find()
        except ChainDamaged:
            check_lost(stores, self._settings)  # a cluster that lives needs no restore, however damaged its copies are
            raise
        begun = self._begun()
        if begun is not None:
            return self._finish(*begun, dry_run=dry_run)
        check_lost(stores, self._settings)
        self._check()
        owner, others = choose_owner(stores, self._url, take_over=self._take_over)
        newer = stores.newer()
        if dry_run:
            return self._report(owner, newer)
        if newer is not None and not self._accept_loss:
            raise self._more(newer)
        check_store(self._place, new_id())
        for number, other in others:
            give_up(number, other, owner, self._settings)
        marked: set[StoreId] = set()
        while new := stores.found.keys() - marked:
            for store in sorted(new):
                self._mark(store, owner)
            marked |= new
            stores.find()
            newer = stores.newer()
            if stores.chain_id != owner.previous:
                return self._overtaken(owner)
        self._check_again(owner, newer)
        report = self._report(owner, newer)
        self._begin(owner)
        return msgspec.structs.replace(report, chain_id=owner.chain_id, copied=self._put_on_mirrors())

    # ---- the present state ----------------------------------------------------------------------

    def _begun(self) -> tuple[Beginning, Entry] | None:
        """The new chain's beginning and first entry, if an earlier run has put them at this place; else None.

        Raises ClusterAlreadyExists if the place has other metadata, or the beginning of another cluster, and
        ChainDamaged if the metadata there is damaged.
        """
        stores = self._stores
        here = {owner.chain_id for _, owner in pending(stores) if is_same_place(owner.cluster, self._url)}
        for number, beginning in beginnings_at(self._place):
            begun = manifest_in(beginning, number, self._place.url)
            if begun.chain_id in (stores.chain_id, *here) or stores.chain_id in begun.ancestors:
                return beginning, decode_entry(first_entry(number), beginning.entry, self._place.url)
            if begun.chain_id not in stores.head.state.ancestors:
                raise ClusterAlreadyExists(
                    f"wanted a place without metadata, found the beginning of cluster {begun.chain_id} at {self._url}, "
                    f"restored from cluster {begun.ancestors[-1]}: give another place, or move its meta/ away"
                )
        head = Follower(self._place).catch_up()
        if head.n >= 0:
            raise ClusterAlreadyExists(
                f"wanted a place without metadata, found cluster {head.state.chain_id} at {self._url}: if it lives, "
                "there is nothing to restore; otherwise give another place, or move its meta/ away"
            )
        key = self._place.first_key_after(LOG, LOG)
        if key is not None:
            raise ClusterAlreadyExists(
                f"wanted a place without metadata, found {key} at {self._url}: give another place, or move its meta/ "
                "away"
            )
        return None

    def _overtaken(self, owner: Owner) -> Restored:
        """Finish the restore that another run has begun at this place meanwhile; returns its outcome.

        Raises Conflict if the other run restores to another place.
        """
        begun = self._begun()
        if begun is None:
            stores = self._stores
            marks = (found_store.owners.get(stores.restores) for found_store in stores.found.values())
            place = next((mark.cluster for mark in marks if mark is not None), "another place")
            raise Conflict(
                f"cluster {owner.previous} was restored as {stores.chain_id} to {place} meanwhile, by another run: "
                f"connect to {place}"
            )
        return self._finish(*begun, dry_run=False)

    def _check(self) -> None:
        check_stores(self._stores, self._given, self._without)

    def _report(self, owner: Owner, newer: str | None) -> Restored:
        stores, state = self._stores, self._stores.head.state
        checkpoint = -1
        with suppress(SparklogError):  # a store may fail by now, and a value for display is no reason to give up
            checkpoint = stores.newest_checkpoint()
        return Restored(
            self._url,
            stores.chain_id,
            None,
            stores.mirrored_to(),
            state.n,
            state.time_ms,
            first_entry(number_of(stores, owner)),
            {store: stores.found[store].target.url for store in sorted(state.stores.keys() & stores.found.keys())},
            tuple(sorted(self._without & state.stores.keys())),
            len(state.topics),
            checkpoint,
            newer,
        )

    def _more(self, newer: str) -> ChainDamaged:
        last = self._stores.head.n
        return ChainDamaged(
            f"the copies of cluster {self._stores.chain_id} end with entry {last:,}, but {newer}: writes that were "
            f"acknowledged after entry {last:,} would be lost; give the stores that have them with --from, or restore "
            "without these writes, with --accept-loss"
        )

    # ---- the steps ------------------------------------------------------------------------------

    def _mark(self, store: StoreId, owner: Owner) -> None:
        """Put the mark `owner` on a store, also under the numbers of given-up restores, so that no number is missing.

        Raises Conflict if another restore has marked the store.
        """
        found_store = self._stores.found[store]
        numbers = range(self._stores.restores + 1, number_of(self._stores, owner) + 1)
        marks = [
            put_owner(found_store.target, number, owner) for number in numbers if number not in found_store.damaged
        ]
        if marks[-1] != owner:
            raise marked_for_another(self._stores, store, marks[-1])

    def _check_again(self, owner: Owner, newer: str | None) -> None:
        """Repeat the checks once all stores are marked, and check that each store has the mark `owner`.

        `newer`: evidence of entries that no mirror has, or None (`FoundStores.newer`). The writes in such entries would
        be lost, so ChainDamaged is raised, unless the caller accepts loss. Raises Conflict if another restore has
        marked a store, StoreUnavailable if a store has lost the mark, and the errors of `check_stores`.
        """
        self._check()
        number = number_of(self._stores, owner)
        for store, found_store in sorted(self._stores.found.items()):
            newest = max(found_store.owners.items(), default=None)
            if newest is not None and newest[0] >= number and newest[1] != owner:
                raise marked_for_another(self._stores, store, newest[1])
            if newest != (number, owner):
                raise StoreUnavailable(
                    f"store {store} at {found_store.target.url} has lost the mark of this restore: run it again"
                )
        if newer is not None and not self._accept_loss:
            raise self._more(newer)

    def _begin(self, owner: Owner) -> None:
        """Put the beginning of the new chain: one object with its first entry and the manifest of a snapshot.

        From then on the restore has begun. Then the entry and the manifest are put under their own keys (`_open`).
        Raises Conflict if another run has begun this restore or has given it up, and the errors of `_open`.
        """
        head, stores = self._stores.head, self._stores.found
        first = first_entry(number_of(self._stores, owner))
        at = At(first, head.state.time_ms)  # the time of the last entry of the lost chain
        draft = Draft(head)
        places = {
            store.store: stores[store.store].target.url for store in head.state.stores.values() if store.store in stores
        }
        known = {store.store: registered_url(self._url, store.url) for store in head.state.stores.values()}
        urls = {store: url for store, url in places.items() if url != known[store]}
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
        after = draft.head()
        *chunks, (_, manifest) = snapshot.objects_of(snapshot.prepare(after.state, after.entry_hash, {}))
        for key, chunk in chunks:
            put_chunk(self._place, key, chunk)
        beginning = Beginning(body, manifest)
        key = restore_key(number_of(self._stores, owner))
        existing = put(self._place, key, encoded_beginning(beginning))
        if existing is not None and is_owner_mark(existing):
            raise taken_over(decoded(existing, key, self._place.url))
        if existing is not None:
            raise Conflict(f"another run of this restore has begun at {self._url}: run it again, and it finishes that")
        self._open(first, beginning)

    def _open(self, first: EntryNumber, beginning: Beginning) -> None:
        """Put the first entry and the snapshot's manifest under their own keys, so that the cluster can be opened.

        Raises Conflict if the key of the first entry has another entry, and OutcomeUnknown if another cluster is found
        at the place afterwards.
        """
        if put(self._place, entry_key(first), beginning.entry) is not None:
            raise Conflict(f"{entry_key(first)} at {self._url} is not the first entry of this restore")
        put(self._place, snapshot_key(first), beginning.manifest)
        follower = Follower(self._place)
        follower.catch_up()
        wanted = decode_entry(first, beginning.entry, self._place.url).chain_id
        if follower.state.chain_id != wanted:
            raise OutcomeUnknown(
                f"wanted cluster {wanted} at {self._url}, found {follower.state.chain_id or 'none'}: run it again"
            )

    def _finish(self, beginning: Beginning, entry: Entry, *, dry_run: bool) -> Restored:
        """Finish a restore that another run has begun here, with this beginning and first entry; return its outcome."""
        stores = self._stores
        restored = _restored_by(entry)
        if restored is None:
            raise AssertionError("the first entry of a restored chain says so")
        done = stores.chain_id == entry.chain_id
        if not (dry_run or done):
            self._open(entry.n, beginning)
        state = stores.head.state
        previous = state.ancestors[-1 - len(restored.given_up)] if done else stores.chain_id
        return Restored(
            self._url,
            previous,
            entry.chain_id,
            {} if done else stores.mirrored_to(),
            restored.last,
            entry.time_ms,
            entry.n,
            {
                store: found_store.target.url
                for store, found_store in sorted(stores.found.items())
                if store in state.stores
            },
            tuple(sorted(record.store for record in _records_of(entry) if isinstance(record, StoreFenced))),
            len(state.topics),
            copied=not dry_run and self._put_on_mirrors(),
        )

    def _put_on_mirrors(self) -> bool:
        """Copy the new chain to its mirrors. Returns False if that failed, or if no mirrors are wanted.

        After a failure, the next commit copies it.
        """
        with suppress(SparklogError), closing(Connection(self._url, settings=self._settings)) as connection:
            follower = connection.follower
            if follower.mirrors is not None and follower.mirrors_wanted(follower.state):
                body = bytes(follower.store.get(entry_key(follower.head.n)))
                follower.mirrors.perform(MirrorEntry(follower.head, body))
                return True
        return False


def _records_of(entry: Entry) -> list[Record]:
    return [record for command in entry.commands for record in command.records]


def _restored_by(entry: Entry) -> ClusterRestored | None:
    """The record ClusterRestored, which is in the first entry of every restored chain; None if this entry has none."""
    return next((record for record in _records_of(entry) if isinstance(record, ClusterRestored)), None)
