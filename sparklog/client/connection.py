"""A process's connection to one cluster: the metadata store, the follower of the chain, and the committer."""

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
from sparklog.client.commits.coordinated import Coordinated
from sparklog.client.waiting import Waiting
from sparklog.core.commands import Command
from sparklog.core.config.storage import StorageSettings
from sparklog.core.coordination import Author
from sparklog.core.decide.command import decide
from sparklog.core.errors import InconsistentClusterId
from sparklog.core.reading.plan import RangeToRead, replanned
from sparklog.core.records import At, CommandResult, Record
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import EntryNumber, Offset, StoreId
from sparklog.host.clock import now_ms
from sparklog.host.fork import after_fork_in_child
from sparklog.log.cluster_stores import StorePlaces, Stores, open_metadata, open_registered, places_in, places_to_carry
from sparklog.log.incarnation import check_incarnation
from sparklog.storage.config_file import settings_here
from sparklog.storage.http.calls import Calls
from sparklog.storage.http.coordinator_addresses import Coordinators, is_coordinator
from sparklog.storage.http.store import HttpStore
from sparklog.storage.keys import META, entry_key
from sparklog.storage.local.store import LocalStore
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import absolute_url, has_timeout, is_elsewhere, join_url

_PLATFORMS_OWN = StorageSettings()
_Key = tuple[int, str, bytes]  # process, address, settings


class Connection:
    """Everything that a process needs to use a cluster. Thread-safe; after a fork `shared` makes a new one."""

    def __init__(self, url: str, author: Author | None = None, settings: StorageSettings = _PLATFORMS_OWN) -> None:
        """Open the cluster at `url`: the place of its metadata, or addresses of coordinators, separated by commas.

        With addresses of coordinators, this process follows the chain through them, and needs no access to the place of
        the metadata. The connection's own `url` is that place in either case: relative addresses of stores begin there,
        and tasks read the chain there.
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
            mirrors = Mirrors(metadata, self._registered, self._is_elsewhere, _check_life)
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
        self.committer = Coordinated(self.follower, author or default_author(), calls, self.coordinators)
        self.waiting = Waiting(self.committer)
        self._stores: Stores | None = None

    def stores(self, state: ClusterState) -> Stores:
        """The cluster's stores, as registered in `state`."""
        places = places_in(state, self.url, self._settings)
        stores = self._stores
        if stores is None or stores.places != places:
            stores = self._stores = Stores(places) if stores is None else stores.at(places)
        return stores

    def _registered(self, state: ClusterState, store: StoreId) -> ObjectStore:
        return self.stores(state).get(store)

    def _is_elsewhere(self, store: Store) -> bool:
        return is_elsewhere(self.url, store.url)

    def hasty_stores(self, state: ClusterState, timeout_ms: int) -> Stores:
        """The cluster's stores, newly opened. Their calls to servers give up after `timeout_ms`."""
        places = places_in(state, self.url, self._settings)
        hasty = {
            f"{store.lower()}.timeout_ms": str(timeout_ms)
            for store, url in places.urls.items()
            if has_timeout(join_url(self.url, url))
        }
        return Stores(replace(places, settings=StorageSettings(hasty).over(self._settings)))

    def places(self, state: ClusterState) -> StorePlaces:
        """The places of the cluster's stores, for tasks: without secrets."""
        return places_to_carry(places_in(state, self.url, self._settings))

    def open_store(self, store: StoreId, url: str) -> ObjectStore:
        """Open a store that may not be registered yet, at an address that may be relative to the cluster's."""
        return open_registered(self.url, store, url, self._settings)

    def decided(self, command: Command) -> tuple[ClusterState, tuple[Record, ...]]:
        """The newest state, and the records that a commit of the command would lead to.

        Changes nothing. Raises the error that the commit would raise.
        """
        submission = self.committer.begin(command)
        state = self.follower.newest_state()
        return state, decide(state, submission, At(EntryNumber(state.n + 1), now_ms())).records

    def submit(self, command: Command, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> CommandResult:
        """Commit one new command. Raises the command's error, OutcomeUnknown, RequestTimedOut."""
        return self.committer.submit(self.committer.begin(command), timeout_ms)

    def replan(self, plan: RangeToRead, at: Offset) -> RangeToRead:
        """A new plan for [at, plan.end) by the newest state (`scan.Replan`).

        It begins at the log start if that is higher. `lost` has every lost range that overlaps it, old ones too. Raises
        the errors of `right_up_to`.
        """
        state = self.follower.newest_state()
        return replanned(state, plan, at)

    def check_chain(self, chain_id: str) -> None:
        """Raise InconsistentClusterId if this is not cluster `chain_id`, on which the caller's work began."""
        present = self.follower.state.chain_id
        if present != chain_id:
            raise InconsistentClusterId(
                f"wanted cluster {chain_id}, found cluster {present} at {self.url}: it was deleted and created again"
            )

    def close(self) -> None:
        """Wait for background writes to finish."""
        self.committer.close()


def _check_life(target: ObjectStore, store: Store) -> None:
    check_incarnation(target, store.incarnation)


def default_author() -> Author:
    """The name of this process in the chain, for people: host name and process id, no secrets."""
    return Author("client", f"{socket.gethostname()}:{os.getpid()}")


_shared: dict[_Key, Connection] = {}
_shared_lock = threading.Lock()


def _replace_lock() -> None:
    """Replace the lock: another thread of the parent, opening a connection, may have held it."""
    global _shared_lock
    _shared_lock = threading.Lock()


after_fork_in_child(_replace_lock)


def shared(url: str, settings: StorageSettings = _PLATFORMS_OWN) -> Connection:
    """The process's shared connection to the cluster at `url`. It keeps its state, which catches up at each use.

    A forked child gets its own connection. If the cluster was deleted and created again, it is opened again.
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
