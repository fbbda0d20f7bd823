"""The stores of a cluster, by id, each opened when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping

from sparklog.core.errors import DataLoss
from sparklog.core.types import NamedObject, StoreId
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import join_url, open_store


class Stores:
    """Opens registered stores. `urls` are as registered: "." is the cluster's own root. Made per process."""

    def __init__(self, cluster_url: str, urls: Mapping[StoreId, str]) -> None:
        self._cluster_url = cluster_url
        self._urls = dict(urls)
        self._open: dict[StoreId, ObjectStore] = {}

    def get(self, store: StoreId) -> ObjectStore:
        """The store of this id. Raises KeyError for an unknown one."""
        found = self._open.get(store)
        if found is None:
            found = self._open[store] = open_store(join_url(self._cluster_url, self._urls[store]))
        return found

    def holding(self, named: NamedObject) -> list[ObjectStore]:
        """The stores that held the object when it was named, the first one to be tried first."""
        known = [self.get(holder.store) for holder in named.object.holders if holder.store in self._urls]
        if not known:
            raise DataLoss(f"object {named.number} is on none of the cluster's stores {sorted(self._urls)}")
        return known
