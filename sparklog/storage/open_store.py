"""Opens a store by its address: the only module that maps schemes to adapters."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

from sparklog.core.errors import InvalidInput
from sparklog.core.names.store_addresses import ON_A_SERVER, check_ends, is_relative, scheme_of
from sparklog.storage.local.store import LocalStore, local_path
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore


def open_store(url: str, settings: Mapping[str, str] | None = None) -> ObjectStore:
    """Open the store at `url`.

    `url` is a path (relative paths and ~ are fine), file:///path, s3://bucket/prefix, gs://bucket/prefix,
    abfs://container/prefix, hdfs://host/path or memory://name. `settings` complement the platform's own configuration,
    such as environment variables and profiles. Stores on disks and in memory have no settings.

    Nothing is read or created. Raises InvalidInput for an address that isn't a store's, or an unknown setting.
    """
    scheme = scheme_of(url)
    if settings and scheme not in ON_A_SERVER:
        raise InvalidInput(f"a store at {url!r} has no settings, found {', '.join(sorted(settings))}")
    match ON_A_SERVER.get(scheme, scheme) if scheme else "file":
        case "memory":
            return MemoryStore(url)
        case "s3":
            from sparklog.storage.s3.store import S3Store

            return S3Store(url, settings or {})
        case "gs":
            from sparklog.storage.cloud.store import gcs_store

            return gcs_store(url, settings or {})
        case "abfs":
            from sparklog.storage.cloud.store import azure_store

            return azure_store(url, settings or {})
        case "hdfs":
            from sparklog.storage.hdfs.store import HdfsStore

            return HdfsStore(url, settings or {})
        case "file":
            return LocalStore(url)
        case _:
            raise AssertionError(f"no adapter opens {scheme}://")


def absolute_url(url: str) -> str:
    """The canonical spelling of a store's address: a bare path becomes file:///absolute/path. Raises InvalidInput."""
    return open_store(url).url


def has_timeout(url: str) -> bool:
    """True if the store at this absolute address is on a server and so has the setting timeout_ms."""
    return url.partition("://")[0] in ON_A_SERVER


def is_same_place(url: str, other: str) -> bool:
    """True if two absolute addresses lead to the same place, with symbolic links resolved.

    False for an address that can't be opened: marks on stores have addresses that another process has written.
    """
    if url == other:
        return True
    if not (url.startswith("file://") and other.startswith("file://")):
        return False
    try:
        return os.path.realpath(local_path(url)) == os.path.realpath(local_path(other))
    except InvalidInput:
        return False


@lru_cache(maxsize=256)
def is_elsewhere(cluster_url: str, store_url: str) -> bool:
    """True if the address `store_url` of a registered store leads to another place than the cluster's own root.

    False for an address that can't be opened: such a store has no copies of the metadata, and holds up no commit.
    """
    root = absolute_url(cluster_url)
    try:
        return join_url(cluster_url, store_url) != root
    except InvalidInput:
        return False


def registered_url(cluster_url: str, store_url: str) -> str:
    """Return the absolute address of a registered store, or the registered address if that can't be opened."""
    try:
        return join_url(cluster_url, store_url)
    except InvalidInput:
        return store_url


def join_url(cluster_url: str, store_url: str) -> str:
    """Return the absolute address of a store. `store_url` may be relative to the cluster's address.

    '.' is the cluster's own root; 'zone-a' and '../zone-b' are resolved against `cluster_url` as a directory. A
    `store_url` that has a scheme, is absolute or begins with ~ does not depend on `cluster_url`. Raises InvalidInput
    for an illegal address, or if '..' leads out of the cluster's host or bucket.
    """
    if not store_url:
        raise InvalidInput("the address of a store is a URL, a path, or '.' for the cluster's own root, not empty")
    check_ends(store_url)
    if not is_relative(store_url):
        return absolute_url(store_url)
    scheme, _, rest = absolute_url(cluster_url).partition("://")
    # The authority (a host, a bucket or a name; empty in a file URL) stays as it is.
    authority, _, path = rest.partition("/")
    joined = posixpath.normpath(posixpath.join(path, quote(store_url) if scheme == "file" else store_url))
    if joined.split("/")[0] == "..":
        raise InvalidInput(f"the store {store_url!r} lies outside the cluster's address {cluster_url!r}")
    return absolute_url(f"{scheme}://{authority}/{joined if joined != '.' else ''}")
