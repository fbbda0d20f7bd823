"""Checks whether the stores and the metadata can be reached, for the pages and `/metrics`. A check is called a look.

The chain does not show that a store is lost or can't be reached. Each check has a thread of its own that ends with the
process, because a store may never answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future
from functools import partial
from typing import Final

from sparklog.client.stores.store_look import StoreLook, look_at
from sparklog.core.config.storage import METADATA_STORE
from sparklog.core.describe.readable import duration
from sparklog.core.errors import SparklogError
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId
from sparklog.host.daemon import in_daemon
from sparklog.log.cluster_stores import Stores
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import registered_url

_Target = tuple[StoreId, int]  # a store, and its registration

PATIENCE_MS: Final = 20_000  # as that of sparklog cluster health


class StoreLooks:
    """Checks the stores, and keeps the newest result of each. Call `begin` and `newest` in one thread.

    `metadata` is the store of the chain. If no registered store is at its address, it is checked as well, and its
    result has the id METADATA_STORE.
    """

    def __init__(self, open_stores: Callable[[ClusterState], Stores], metadata: ObjectStore) -> None:
        self._open_stores = open_stores
        self._metadata = metadata
        self._under_way: dict[_Target, tuple[Future[None], int]] = {}  # with the time of its beginning
        self._newest: dict[_Target, StoreLook] = {}
        self._wanted: Set[_Target] = frozenset()  # those of the last `begin`
        self._lock = threading.Lock()

    def begin(self, state: ClusterState, now_ms: int) -> None:
        """Begin to check each store whose last check has ended. `now_ms` is the time of the monotonic clock."""
        targets: dict[_Target, Callable[[], StoreLook]] = {
            (store.store, store.registration): partial(self._look_at_store, store, state)
            for store in state.stores.values()
        }
        if all(registered_url(self._metadata.url, store.url) != self._metadata.url for store in state.stores.values()):
            targets[StoreId(METADATA_STORE), 0] = partial(look_at, self._metadata, None)
        with self._lock:
            self._wanted = targets.keys()
            self._newest = {key: look for key, look in self._newest.items() if key in targets}
        self._under_way = {key: at for key, at in self._under_way.items() if key in targets and not at[0].done()}
        for key, look in targets.items():
            if key not in self._under_way:
                self._under_way[key] = in_daemon(partial(self._look, key, look), f"sparklog-look-{key[0]}"), now_ms

    def newest(self, now_ms: int) -> Mapping[StoreId, StoreLook]:
        """The newest result for each store. If a store has not answered for PATIENCE_MS, the result says so."""
        with self._lock:
            newest = {store: look for (store, _), look in self._newest.items()}
        for (store, _), (looking, began_ms) in self._under_way.items():
            if not looking.done() and now_ms - began_ms >= PATIENCE_MS:
                newest[store] = StoreLook(f"no answer in {duration(now_ms - began_ms)}")
        return newest

    def _look_at_store(self, store: Store, state: ClusterState) -> StoreLook:
        return look_at(self._open_stores(state).get(store.store), store.incarnation)

    def _look(self, key: _Target, look: Callable[[], StoreLook]) -> None:
        try:
            newest = look()
        except SparklogError as error:
            newest = StoreLook(str(error))
        except Exception as error:
            newest = StoreLook(f"the look itself failed with {error!r}")
        with self._lock:
            if key in self._wanted:  # else the store was removed or registered again meanwhile
                self._newest[key] = newest
