"""A process's connection to one cluster: its metadata store, the state that follows the chain, the committer."""

from __future__ import annotations

import os
import socket
import threading

from sparklog.chain.committer import Committer
from sparklog.chain.entry import Author
from sparklog.chain.follower import Follower
from sparklog.core.decide_append import existing_partition
from sparklog.core.errors import InvalidInput
from sparklog.core.plan import RangeToRead, plan_range
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.stores import Stores
from sparklog.storage.open_store import absolute_url, open_store


class Connection:
    """Everything one process needs of a cluster. Safe for threads; `shared` makes another one after a fork."""

    def __init__(self, url: str, author: Author | None = None) -> None:
        """Open the cluster at `url`. Raises ClusterNotFound, ChainDamaged, UnsupportedVersion, InvalidInput."""
        if url.startswith(("http://", "https://")):
            raise InvalidInput(
                f"{url} is the address of a coordinator; this version connects to the place of the metadata itself "
                "(file:///path or a bare path)"
            )
        self.url = absolute_url(url)
        self.follower = Follower(open_store(self.url))
        self.follower.open()
        self.committer = Committer(self.follower, author or default_author())
        self._stores: Stores | None = None
        self._registered: tuple[object, ...] = ()

    def stores(self, state: ClusterState) -> Stores:
        """The cluster's stores as the state has them registered."""
        registered = tuple(state.stores.values())
        if self._stores is None or registered != self._registered:
            self._stores = Stores(self.url, {each.store: each.url for each in registered})
            self._registered = registered
        return self._stores

    def replan(self, plan: RangeToRead, at: Offset) -> RangeToRead:
        """What the chain says now of [at, plan.end): it begins later if the log start has risen (`scan.Replan`)."""
        with self.follower.current() as state:
            partition = existing_partition(state, TopicPartition(plan.topic_id, plan.partition))
            start = min(max(at, partition.log_start), plan.end)
            return plan_range(state, state.topics[plan.topic_id], plan.partition, OffsetRange(Offset(start), plan.end))

    def close(self) -> None:
        """Wait for what is still being written in the background."""
        self.committer.close()


def default_author() -> Author:
    """Who this process is, for people who read the chain: the host's name and the process id, no secrets."""
    return Author("client", f"{socket.gethostname()}:{os.getpid()}")


_shared: dict[tuple[int, str], Connection] = {}
_shared_lock = threading.Lock()


def shared(url: str) -> Connection:
    """The process's one connection to the cluster at `url`: its state is kept and caught up at each use.

    A forked child gets its own. A metadata location that was deleted and made anew is opened anew.
    """
    key = (os.getpid(), absolute_url(url))
    with _shared_lock:
        found = _shared.get(key)
        if found is None or not found.follower.is_same_chain():
            for other in [each for each in _shared if each[0] != key[0]]:
                del _shared[other]
            found = _shared[key] = Connection(url)
        return found


def forget_shared(url: str) -> None:
    """Drop the process's connection to the cluster at `url`, so that the next use opens it anew."""
    with _shared_lock:
        _shared.pop((os.getpid(), absolute_url(url)), None)
