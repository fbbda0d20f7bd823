"""A process's connection to one cluster: its metadata store, the state that follows the chain, the committer."""

from __future__ import annotations

import os
import socket
import threading

import msgspec

from sparklog.chain.committer import Committer
from sparklog.chain.entry import Author
from sparklog.chain.follower import Follower
from sparklog.core.config.storage import StorageSettings
from sparklog.core.decide_append import existing_partition
from sparklog.core.errors import InconsistentClusterId, InvalidInput
from sparklog.core.plan import RangeToRead, plan_range
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.stores import StorePlaces, Stores, open_metadata, places_to_carry
from sparklog.storage.config_file import settings_here
from sparklog.storage.open_store import absolute_url, has_timeout, join_url

_PLATFORMS_OWN = StorageSettings()
_Key = tuple[int, str, bytes]  # process, address, settings


class Connection:
    """Everything one process needs of a cluster. Safe for threads; `shared` makes another one after a fork."""

    def __init__(self, url: str, author: Author | None = None, settings: StorageSettings = _PLATFORMS_OWN) -> None:
        """Open the cluster at `url`.

        `settings` take precedence over those of SPARKLOG_CONFIG, and these over the platform's.
        Raises ClusterNotFound, ChainDamaged, UnsupportedVersion, InvalidInput.
        """
        if url.startswith(("http://", "https://")):
            shown = url if "@" not in url else f"{url.partition('://')[0]}://…"  # before an @ may stand a password
            raise InvalidInput(
                f"{shown} is the address of a coordinator; this version connects to the place of the metadata itself "
                "(a path, file:///path, s3://bucket/prefix or hdfs://host/path)"
            )
        self.url = absolute_url(url)
        self._settings = settings_here(settings)
        self.follower = Follower(open_metadata(self.url, self._settings))
        self.follower.open()
        self.committer = Committer(self.follower, author or default_author())
        self._stores: Stores | None = None
        self._registered: tuple[object, ...] = ()

    def stores(self, state: ClusterState) -> Stores:
        """The cluster's stores as the state has them registered."""
        registered = tuple(state.stores.values())
        if self._stores is None or registered != self._registered:
            self._stores = Stores(StorePlaces(self.url, {each.store: each.url for each in registered}, self._settings))
            self._registered = registered
        return self._stores

    def hasty_stores(self, state: ClusterState, timeout_ms: int) -> Stores:
        """The same, opened anew: their calls to servers give up after `timeout_ms`."""
        urls = {each.store: each.url for each in state.stores.values()}
        hasty = {
            f"{store.lower()}.timeout_ms": str(timeout_ms)
            for store, url in urls.items()
            if has_timeout(join_url(self.url, url))
        }
        return Stores(StorePlaces(self.url, urls, StorageSettings(hasty).over(self._settings)))

    def places(self, state: ClusterState) -> StorePlaces:
        """The same for tasks: without secrets."""
        return places_to_carry(self.url, {each.store: each.url for each in state.stores.values()}, self._settings)

    def replan(self, plan: RangeToRead, at: Offset) -> RangeToRead:
        """What the chain says now of [at, plan.end): it begins later if the log start has risen (`scan.Replan`)."""
        with self.follower.current() as state:
            partition = existing_partition(state, TopicPartition(plan.topic_id, plan.partition))
            start = min(max(at, partition.log_start), plan.end)
            return plan_range(state, state.topics[plan.topic_id], plan.partition, OffsetRange(Offset(start), plan.end))

    def check_chain(self, chain_id: str) -> None:
        """Raise InconsistentClusterId if what was begun on cluster `chain_id` would go on on another one here."""
        found = self.follower.state.chain_id
        if found != chain_id:
            raise InconsistentClusterId(
                f"wanted cluster {chain_id}, found cluster {found} at {self.url}: it was deleted and created again"
            )

    def close(self) -> None:
        """Wait for what is still being written in the background."""
        self.committer.close()


def default_author() -> Author:
    """Who this process is, for people who read the chain: the host's name and the process id, no secrets."""
    return Author("client", f"{socket.gethostname()}:{os.getpid()}")


_shared: dict[_Key, Connection] = {}
_shared_lock = threading.Lock()


def shared(url: str, settings: StorageSettings = _PLATFORMS_OWN) -> Connection:
    """The process's one connection to the cluster at `url`: its state is kept and caught up at each use.

    A forked child gets its own. A metadata location that was deleted and made anew is opened anew.
    """
    key = _key(url, settings)
    with _shared_lock:
        found = _shared.get(key)
        if found is None or not found.follower.is_same_chain():
            for other in [each for each in _shared if each[0] != key[0]]:
                del _shared[other]
            found = _shared[key] = Connection(url, settings=settings)
        return found


def _key(url: str, settings: StorageSettings) -> _Key:
    return os.getpid(), absolute_url(url), msgspec.msgpack.encode(settings, order="deterministic")
