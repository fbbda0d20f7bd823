"""The stores of a cluster, by id, each opened on first use, and the order in which a reader tries them (KIP-392)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from sparklog.chain.owner import check_owner
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.config.storage import METADATA_STORE, StorageSettings
from sparklog.core.errors import Damaged, KeyNotFound, SparklogError
from sparklog.core.names.store_addresses import is_relative
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.state import ClusterState
from sparklog.core.types import StoreId
from sparklog.host.clock import SystemClock
from sparklog.host.recent_failures import RecentFailures
from sparklog.storage.config_file import settings_here
from sparklog.storage.object_store import ObjectStore
from sparklog.storage.open_store import join_url, open_store, registered_url

ZONE_VARIABLE: Final = "SPARKLOG_ZONE"
FAILED_READS: Final = RecentFailures(SystemClock().monotonic_ms)  # of stores, by `failure_key`

# Environment variables that each kind of store's client reads by itself, without the secret ones.
_ENVIRONMENT: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "s3": {
        "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    "abfs": {"account_name": ("AZURE_STORAGE_ACCOUNT_NAME",)},
}


class StoreAddresses(msgspec.Struct, frozen=True):
    """The addresses of a cluster's stores, in a form that can be sent to tasks.

    `urls` are as registered: "." is the cluster's own root. `settings` contain no secrets: each process takes secrets
    from its own environment. `zones` has the zones of the reachable stores, `zone` the zone of the reader. In a process
    with SPARKLOG_ZONE in its environment, that is used instead of `zone`: the tasks of a job run in several zones.
    `ancestors` is the number of times that the cluster was restored; None if it has no copies of its metadata,
    and so can't be restored.
    """

    cluster: str
    urls: dict[StoreId, str]
    settings: StorageSettings = StorageSettings()
    zones: dict[StoreId, str] = {}
    zone: str = ""
    ancestors: int | None = None

    def failure_key(self, store: StoreId) -> str:
        """The key of a store in the RecentFailures of this process, which may use several clusters."""
        return f"{self.urls[store]} of {self.cluster}"


def addresses_in(state: ClusterState, cluster: str, settings: StorageSettings) -> StoreAddresses:
    """The addresses of the stores that are registered in `state`."""
    stores = state.stores.values()
    urls = {store.store: store.url for store in stores}
    zones = {store.store: store.zone for store in stores if store.reachable}
    ancestors = len(state.ancestors) if effective_cluster(state.config).metadata_copies else None
    return StoreAddresses(cluster, urls, settings, zones, ancestors=ancestors)


def addresses_to_carry(addresses: StoreAddresses) -> StoreAddresses:
    """Return the addresses to send to tasks: without secrets, with settings from this process's environment.

    These settings are endpoints, regions and account names. Settings that the addresses already have stay as they are.
    """
    plain = {
        f"{store}.{key}": value
        for store, url in [(METADATA_STORE, "."), *addresses.urls.items()]
        if "@" not in (address := registered_url(addresses.cluster, url))  # it names the account
        for key, names in _ENVIRONMENT.get(address.partition("://")[0], {}).items()
        if (value := next((os.environ[name] for name in names if os.environ.get(name)), None))
    }
    settings = addresses.settings.without_secrets().over(StorageSettings(plain))
    return msgspec.structs.replace(addresses, settings=settings)


class Stores:
    """Opens registered stores, each on its first use. Each process creates its own object of this class."""

    def __init__(self, addresses: StoreAddresses, failures: RecentFailures = FAILED_READS) -> None:
        self.addresses = addresses
        self._zone = os.environ.get(ZONE_VARIABLE) or addresses.zone
        self._failures = failures
        self._settings = settings_here(addresses.settings)
        self._open: dict[StoreId, ObjectStore] = {}

    def at(self, addresses: StoreAddresses) -> Stores:
        """Return the stores at these addresses, as another object.

        If the cluster's address and the settings have not changed, stores whose addresses have not changed stay open.
        """
        moved = Stores(addresses, self._failures)
        if (addresses.cluster, addresses.settings) == (self.addresses.cluster, self.addresses.settings):
            if addresses.urls == self.addresses.urls:
                moved._open = self._open
            else:
                kept = self.addresses.urls.items() & addresses.urls.items()
                moved._open = {store: self._open[store] for store, _ in kept if store in self._open}
        return moved

    def get(self, store: StoreId) -> ObjectStore:
        """Return the store with this id. Raises KeyError for an unknown id, and the errors of opening a store."""
        opened = self._open.get(store)
        if opened is None:
            opened = self._open[store] = open_registered(
                self.addresses.cluster, store, self.addresses.urls[store], self._settings
            )
        return opened

    def check_owner(self, store: StoreId) -> None:
        """Raise InconsistentClusterId if a restored cluster owns the store. Call this before deleting objects there.

        Checks nothing if the cluster has no copies of its metadata, because then it can't be restored.
        """
        if self.addresses.ancestors is not None:
            check_owner(self.get(store), self.addresses.ancestors)

    def named(self, store: StoreId) -> str:
        """Return the id and address of a registered store as text, for messages."""
        opened = self._open.get(store)
        return f"store {store} at {self.addresses.urls[store] if opened is None else opened.url}"

    def id_of(self, store: ObjectStore) -> StoreId | None:
        """Return the id of `store` if this object has opened it, else None."""
        return next((store_id for store_id, opened in self._open.items() if opened is store), None)

    def holding(self, part: SliceToRead) -> list[StoreId]:
        """Return the registered stores that hold the slice, in the order to try them.

        Stores in the reader's zone come first, and stores that failed lately in this process come last. Otherwise the
        order is that of `part.stores`.
        """
        known = (store for store in part.stores if store in self.addresses.urls)
        return sorted(known, key=lambda store: (self.has_failed(store), not self._is_near(store)))

    def note_failure(self, store: StoreId, error: SparklogError) -> None:
        """Record a failed read, so that the store is tried last for a while. Missing or damaged objects don't count."""
        if not isinstance(error, KeyNotFound | Damaged):
            self._failures.note(self.addresses.failure_key(store))

    def has_failed(self, store: StoreId) -> bool:
        """True if a read from this store failed in this process less than FAILED_FOR_MS ago."""
        return self._failures.is_recent(self.addresses.failure_key(store))

    def _is_near(self, store: StoreId) -> bool:
        return self._zone != "" and self.addresses.zones.get(store) == self._zone


def open_registered(cluster: str, store: str, url: str, settings: StorageSettings) -> ObjectStore:
    """Open the store registered as `url`. The settings of the metadata store are defaults if `url` is relative."""
    return open_store(join_url(cluster, url), settings.of(store, at_root=is_relative(url)))


def open_metadata(cluster: str, settings: StorageSettings) -> ObjectStore:
    """Open the store that holds the metadata chain of the cluster."""
    return open_store(cluster, settings.of(METADATA_STORE))
