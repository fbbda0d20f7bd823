"""A process's connection to one cluster: it opens the metadata store, follows the chain and submits commands."""

from __future__ import annotations

import os
import socket
import threading
from functools import partial

import msgspec
from msgspec.structs import replace

from sparklog.chain.commit.committer import DEFAULT_TIMEOUT_MS
from sparklog.chain.follow.follower import Follower
from sparklog.chain.mirror.mirrors import Mirrors
from sparklog.client.commits.client_committer import ClientCommitter
from sparklog.client.waiting import Waiting
from sparklog.core.commands import Command
from sparklog.core.config.storage import NO_SETTINGS, StorageSettings
from sparklog.core.coordination import Author
from sparklog.core.decide.command import decide
from sparklog.core.errors import InconsistentClusterId
from sparklog.core.reading.plan import RangeToRead, replanned
from sparklog.core.records import At, CommandResult, Record
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import EntryNumber, Offset, StoreId, TopicId
from sparklog.host.clock import now_ms
from sparklog.host.fork import after_fork_in_child
from sparklog.log.cluster_stores import (
    StoreAddresses,
    Stores,
    addresses_in,
    addresses_to_carry,
    open_metadata,
    open_registered,
)
from sparklog.log.incarnation import check_incarnation
from sparklog.storage.config_file import settings_here
from sparklog.storage.http.calls import Calls
from sparklog.storage.http.coordinator_addresses import Coordinators, is_coordinator
from sparklog.storage.http.store import HttpStore
from sparklog.storage.keys import META, entry_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url, has_timeout, is_elsewhere, registered_url

_Key = tuple[int, str, bytes]  # process, address, settings


class Connection:
    """The follower of the chain, the committer and the stores of one cluster. Thread-safe.

    A forked child must not use its parent's connection; `shared` opens a new one there.
    """

    def __init__(self, url: str, author: Author | None = None, settings: StorageSettings = NO_SETTINGS) -> None:
        """Open the cluster at `url`: the address of its metadata, or addresses of coordinators, separated by commas.

        With addresses of coordinators, this process follows the chain through them, and needs no access to the
        metadata. In either case the attribute `url` is the address of the metadata: addresses of stores may be relative
        to it, and Spark tasks read the chain there.
        `settings` take precedence over the file that SPARKLOG_CONFIG names, and that file over the platform's own
        configuration.
        Raises ClusterNotFound, ChainDamaged, UnsupportedVersion, InvalidInput, AccessRefused.
        """
        self._settings = settings_here(settings)
        calls = Calls(partial(settings_here, settings))
        self.coordinators = Coordinators(url, calls) if is_coordinator(url) else None
        if self.coordinators is None:
            self.url = absolute_url(url)
            metadata = open_metadata(self.url, self._settings)
            mirrors = Mirrors(metadata, self._registered, self._is_elsewhere, _check_incarnation)
            self.follower = Follower(metadata, mirrors=mirrors)
        else:
            cluster = self.coordinators.cluster()
            self.coordinators.chain_id = cluster.chain_id
            self.url = absolute_url(cluster.metadata)
            self.follower = Follower(HttpStore(self.coordinators))
        self.follower.open()
        if isinstance(self.follower.store, LocalStore):
            self.follower.store.keep_to(META, lambda: entry_key(self.follower.head.n))
        if self.coordinators is not None:
            self.check_chain(cluster.chain_id)
        self.committer = ClientCommitter(self.follower, author or default_author(), calls, self.coordinators)
        self.waiting = Waiting(self.committer)
        self.warned_of_expired: set[TopicId] = set()  # topics for which a warning was logged
        self._stores: Stores | None = None

    def stores(self, state: ClusterState) -> Stores:
        """The cluster's stores, as registered in `state`."""
        addresses = addresses_in(state, self.url, self._settings)
        stores = self._stores
        if stores is None or stores.addresses != addresses:
            stores = self._stores = Stores(addresses) if stores is None else stores.at(addresses)
        return stores

    def _registered(self, state: ClusterState, store: StoreId) -> ObjectStore:
        return self.stores(state).get(store)

    def _is_elsewhere(self, store: Store) -> bool:
        return is_elsewhere(self.url, store.url)

    def hasty_stores(self, state: ClusterState, timeout_ms: int) -> Stores:
        """Open the cluster's stores once more. Calls to a store on a server then fail after `timeout_ms`."""
        addresses = addresses_in(state, self.url, self._settings)
        hasty = {
            f"{store.lower()}.timeout_ms": str(timeout_ms)
            for store, url in addresses.urls.items()
            if has_timeout(registered_url(self.url, url))
        }
        return Stores(replace(addresses, settings=StorageSettings(hasty).over(self._settings)))

    def addresses(self, state: ClusterState) -> StoreAddresses:
        """The addresses and settings of the cluster's stores, without secrets, to be sent to Spark tasks."""
        return addresses_to_carry(addresses_in(state, self.url, self._settings))

    def open_store(self, store: StoreId, url: str) -> ObjectStore:
        """Open a store, registered or not, at `url`, which may be relative to the cluster's address."""
        return open_registered(self.url, store, url, self._settings)

    def newest_state(self) -> ClusterState:
        """Catch up with the chain, and return its newest state, an immutable value."""
        return self.follower.newest_state()

    def decided(self, command: Command) -> tuple[ClusterState, tuple[Record, ...]]:
        """Return the newest state, and the chain records to which a commit of the command would lead now.

        Commits nothing. Raises the error with which the commit would fail.
        """
        submission = self.committer.begin(command)
        state = self.newest_state()
        return state, decide(state, submission, At(EntryNumber(state.n + 1), now_ms())).records

    def submit(self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one new command. Raises the command's error, OutcomeUnknown, RequestTimedOut."""
        return self.committer.submit(self.committer.begin(command), timeout_ms)

    def replan(self, plan: RangeToRead, at: Offset) -> RangeToRead:
        """Plan [at, plan.end) again from the newest state, without offsets below the log start.

        Implements `scan.Replan`. The new plan's `lost` has every lost range that overlaps these offsets, even one
        that was lost after `plan` was made. Raises UnknownTopicOrPartition (the topic was deleted, or created again),
        InconsistentClusterId (the plan is of another cluster), UnknownLeaderEpoch (the plan is newer than the state).
        """
        state = self.newest_state()
        return replanned(state, plan, at)

    def check_chain(self, chain_id: str) -> None:
        """Raise InconsistentClusterId unless the cluster's chain id is `chain_id`."""
        present = self.follower.state.chain_id
        if present != chain_id:
            raise InconsistentClusterId(
                f"wanted cluster {chain_id}, found cluster {present} at {self.url}: it was deleted and created again"
            )

    def close(self) -> None:
        """Wait until a snapshot of the state that this process is writing is complete."""
        self.committer.close()


def _check_incarnation(target: ObjectStore, store: Store) -> None:
    check_incarnation(target, store.incarnation)


def default_author() -> Author:
    """Return the author named in entries of this process: "client", with host name and process id."""
    return Author("client", f"{socket.gethostname()}:{os.getpid()}")


_shared: dict[_Key, Connection] = {}
_shared_lock = threading.Lock()


def _replace_lock() -> None:
    """Replace `_shared_lock` in a forked child, because a thread of the parent may have held it during the fork."""
    global _shared_lock
    _shared_lock = threading.Lock()


after_fork_in_child(_replace_lock)


def shared(url: str, settings: StorageSettings = NO_SETTINGS) -> Connection:
    """Return the connection to the cluster at `url` that all callers in this process with the same settings share.

    The first call opens it. A forked child opens its own. It is opened again if the cluster was deleted and created
    again. Raises the errors of `Connection`.
    """
    key = _key(url, settings)
    with _shared_lock:
        connection = _shared.get(key)
        if connection is None or not _is_same(connection):
            for inherited in [shared_key for shared_key in _shared if shared_key[0] != key[0]]:
                del _shared[inherited]
            connection = _shared[key] = Connection(url, settings=settings)
        return connection


def _is_same(connection: Connection) -> bool:
    try:
        return connection.follower.is_same_chain()
    except InconsistentClusterId:  # its coordinators serve another cluster by now
        return False


def _key(url: str, settings: StorageSettings) -> _Key:
    return (
        os.getpid(),
        url if is_coordinator(url) else absolute_url(url),
        msgspec.msgpack.encode(settings, order="deterministic"),
    )
