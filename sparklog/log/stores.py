"""The stores of a cluster, by id, each opened on first use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from sparklog.core.config.storage import METADATA_STORE, StorageSettings
from sparklog.core.plan import SliceToRead
from sparklog.core.types import StoreId
from sparklog.storage.config_file import settings_here
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import is_relative, join_url, open_store

# The environment variables that S3 clients read by themselves and that are not secret.
_S3_ENVIRONMENT: Final = {
    "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


class StorePlaces(msgspec.Struct, frozen=True):
    """Where a cluster's stores are, in a form that can be sent to tasks.

    `urls` are as registered: "." is the cluster's own root. `settings` contain no secrets: each process takes those
    from its own environment.
    """

    cluster: str
    urls: dict[StoreId, str]
    settings: StorageSettings = StorageSettings()


def places_to_carry(cluster: str, urls: Mapping[StoreId, str], settings: StorageSettings) -> StorePlaces:
    """The places for tasks. They include this process's S3 endpoint and region, as tasks may lack its environment."""
    plain = {
        f"{store}.{key}": value
        for store, url in [(METADATA_STORE, "."), *urls.items()]
        if join_url(cluster, url).startswith("s3://")
        for key, names in _S3_ENVIRONMENT.items()
        if (value := next((os.environ[name] for name in names if os.environ.get(name)), None))
    }
    return StorePlaces(cluster, dict(urls), settings.without_secrets().over(StorageSettings(plain)))


class Stores:
    """Opens registered stores. Each process makes its own."""

    def __init__(self, places: StorePlaces) -> None:
        self._places = places
        self._settings = settings_here(places.settings)
        self._open: dict[StoreId, ObjectStore] = {}

    def get(self, store: StoreId) -> ObjectStore:
        """The store with this id. Raises KeyError for an unknown one."""
        opened = self._open.get(store)
        if opened is None:
            opened = self._open[store] = open_registered(
                self._places.cluster, store, self._places.urls[store], self._settings
            )
        return opened

    def named(self, store: StoreId) -> str:
        """The id and address of a registered store, for messages."""
        opened = self._open.get(store)
        return f"store {store} at {self._places.urls[store] if opened is None else opened.url}"

    def id_of(self, store: ObjectStore) -> StoreId | None:
        """The id of a store that was opened here, or None."""
        return next((store_id for store_id, opened in self._open.items() if opened is store), None)

    def holding(self, part: SliceToRead) -> list[StoreId]:
        """The stores that hold the slice and are known here, in the order to try them."""
        return [store for store in part.stores if store in self._places.urls]


def open_registered(cluster: str, store: str, url: str, settings: StorageSettings) -> ObjectStore:
    """Open the store registered as `url`. An address relative to the cluster's uses the metadata's settings."""
    return open_store(join_url(cluster, url), settings.of(store, at_root=is_relative(url)))


def open_metadata(cluster: str, settings: StorageSettings) -> ObjectStore:
    """Open the store that holds the metadata chain of the cluster."""
    return open_store(cluster, settings.of(METADATA_STORE))
