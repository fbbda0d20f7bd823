"""Looks at each registered store, for the pages and `/metrics`: the chain does not say whether one is lost.

Each look has a thread of its own that ends with the process, because a store may never answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from sparklog.client.store_look import StoreLook, look_at
from sparklog.core.errors import SparklogError
from sparklog.core.readable import duration
from sparklog.core.state import ClusterState, Store
from sparklog.core.types import StoreId
from sparklog.log.stores import Stores

PATIENCE_MS: Final = 20_000  # as that of sparklog cluster health


class StoreLooks:
    """The newest look at each store. `begin` and `newest` are to be called in one thread."""

    def __init__(self, open_stores: Callable[[ClusterState], Stores]) -> None:
        self._open_stores = open_stores
        self._under_way: dict[tuple[StoreId, int], tuple[threading.Thread, int]] = {}  # with the time of its beginning
        self._newest: dict[tuple[StoreId, int], StoreLook] = {}
        self._lock = threading.Lock()

    def begin(self, state: ClusterState, now_ms: int) -> None:
        """Begin a look at each store, unless the last one is still under way. `now_ms`: of the monotonic clock."""
        registered = {(store.store, store.registration): store for store in state.stores.values()}
        with self._lock:
            self._newest = {key: look for key, look in self._newest.items() if key in registered}
        self._under_way = {key: at for key, at in self._under_way.items() if at[0].is_alive()}
        for key, store in registered.items():
            if key not in self._under_way:
                thread = threading.Thread(
                    target=self._look, args=(key, store, state), name=f"sparklog-look-{store.store}", daemon=True
                )
                self._under_way[key] = thread, now_ms
                thread.start()

    def newest(self, now_ms: int) -> Mapping[StoreId, StoreLook]:
        """The newest look at each store that was looked at. One that does not answer has no answer as its problem."""
        with self._lock:
            newest = {store: look for (store, _), look in self._newest.items()}
        for (store, _), (thread, began_ms) in self._under_way.items():
            if thread.is_alive() and now_ms - began_ms >= PATIENCE_MS:
                newest[store] = StoreLook(f"no answer in {duration(now_ms - began_ms)}")
        return newest

    def _look(self, key: tuple[StoreId, int], store: Store, state: ClusterState) -> None:
        try:
            look = look_at(self._open_stores(state).get(store.store), store.incarnation)
        except SparklogError as error:
            look = StoreLook(str(error))
        except Exception as error:
            look = StoreLook(f"the look itself failed with {error!r}")
        with self._lock:
            self._newest[key] = look
