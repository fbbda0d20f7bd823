"""Opens a store by its address: the only module that maps schemes to adapters."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidInput
from sparklog.storage.local.store import LocalStore, local_path
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NO_SLASHES = re.compile(r"(?i:s3|s3a|s3n|gs|gcs|abfss?|hdfs|https?|memory):(?!/)")
_NO_COLON = re.compile(
    r"(?i:file|s3|s3a|s3n|gs|gcs|abfss?|hdfs|https?|memory)//|:/"
)  # a typo, not the name of a directory
_SCHEMES = ("file", "s3", "gs", "abfs", "hdfs", "memory", "http")
_ON_A_SERVER = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs")
_KAFKA_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]+(?:,.*)?")


def open_store(url: str, settings: Mapping[str, str] | None = None) -> ObjectStore:
    """Open the store at `url`.

    `url` is a path (relative paths and ~ are fine), file:///path, s3://bucket/prefix, gs://bucket/prefix,
    abfs://container/prefix, hdfs://host/path or memory://name. `settings` complement the platform's own configuration,
    such as environment variables and profiles. Stores on disks and in memory have no settings.

    Nothing is read or created. Raises InvalidInput for an address that isn't a store's, or an unknown setting.
    """
    if url != url.strip():  # usually a slip, and it would be the name of another folder
        raise InvalidInput(f"the address of a store has no blank at its ends, found {url!r}")
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else None
    # The address of a container may name its account behind an '@'.
    if "@" in url and (_NO_SLASHES.match(url) or scheme not in (None, "file", "abfs", "abfss")):
        raise InvalidInput("the address of a store holds no user, key or password (no '@'), so it is not shown here")
    if _NO_SLASHES.match(url) and not _KAFKA_ADDRESS.fullmatch(url):
        raise InvalidInput(f"the address of a store has '//' after its scheme, found {url!r}")
    if not url or _NO_COLON.match(url):
        raise InvalidInput(f"a store is a path, or has '://' after its scheme, found {url!r}")
    if settings and scheme not in _ON_A_SERVER:
        raise InvalidInput(f"a store at {url!r} has no settings, found {', '.join(sorted(settings))}")
    match scheme:
        case "memory":
            return MemoryStore(url)
        case "file":
            return LocalStore(url)
        case "s3" | "s3a" | "s3n":
            from sparklog.storage.s3.store import S3Store

            return S3Store(url, settings or {})
        case "gs" | "gcs":
            from sparklog.storage.fsspec.store import gcs_store

            return gcs_store(url, settings or {})
        case "abfs" | "abfss":
            from sparklog.storage.fsspec.store import azure_store

            return azure_store(url, settings or {})
        case "hdfs":
            from sparklog.storage.hdfs.store import HdfsStore

            return HdfsStore(url, settings or {})
        case "http" | "https":
            raise InvalidInput(f"{scheme}:// is the address of a coordinator, not of a store, found {url!r}")
        case None if _KAFKA_ADDRESS.fullmatch(url):
            raise InvalidInput(
                "this is a Kafka address; a cluster is file://, s3://, gs://, abfs://, hdfs:// or http://, "
                f"found {url!r}"
            )
        case None:
            return LocalStore(url)
        case _:
            raise InvalidInput(
                "a store is a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, abfs://container/prefix, "
                "hdfs://host/path or memory://name, "
                f"not {scheme}:// in {url!r}{did_you_mean(scheme, _SCHEMES)}"
            )


def absolute_url(url: str) -> str:
    """The canonical spelling of a store's address: a bare path becomes file:///absolute/path. Raises InvalidInput."""
    return open_store(url).url


def has_timeout(url: str) -> bool:
    """True if the store at this absolute address is on a server and so has the setting timeout_ms."""
    return url.startswith(("s3://", "gs://", "abfs://", "hdfs://"))


def is_relative(store_url: str) -> bool:
    """True if a store's address is relative to the address of its cluster, such as 'zone-a'."""
    return not (
        store_url.startswith(("/", "~"))
        or _SCHEME.match(store_url)
        or _NO_COLON.match(store_url)
        or _KAFKA_ADDRESS.fullmatch(store_url)
    )


def is_same_place(url: str, other: str) -> bool:
    """True if two absolute addresses lead to the same place, with symbolic links resolved."""
    if url == other:
        return True
    if not (url.startswith("file://") and other.startswith("file://")):
        return False
    return os.path.realpath(local_path(url)) == os.path.realpath(local_path(other))


@lru_cache(maxsize=256)
def is_elsewhere(cluster_url: str, store_url: str) -> bool:
    """True if the address `store_url` of a registered store leads to another place than the cluster's own root."""
    return join_url(cluster_url, store_url) != absolute_url(cluster_url)


def join_url(cluster_url: str, store_url: str) -> str:
    """Return the absolute address of a store. `store_url` may be relative to the cluster's address.

    '.' is the cluster's own root; 'zone-a' and '../zone-b' are resolved against `cluster_url` as a directory. A
    `store_url` that has a scheme, is absolute or begins with ~ does not depend on `cluster_url`. Raises InvalidInput
    for an illegal address, or if '..' leads out of the cluster's host or bucket.
    """
    if not store_url:
        raise InvalidInput("the address of a store is a URL, a path, or '.' for the cluster's own root, not empty")
    if store_url != store_url.strip():
        raise InvalidInput(f"the address of a store has no blank at its ends, found {store_url!r}")
    if not is_relative(store_url):
        return absolute_url(store_url)
    scheme, _, rest = absolute_url(cluster_url).partition("://")
    # The authority (a host, a bucket or a name; empty in a file URL) stays as it is.
    authority, _, path = rest.partition("/")
    joined = posixpath.normpath(posixpath.join(path, quote(store_url) if scheme == "file" else store_url))
    if joined.split("/")[0] == "..":
        raise InvalidInput(f"the store {store_url!r} lies outside the cluster's address {cluster_url!r}")
    return absolute_url(f"{scheme}://{authority}/{joined if joined != '.' else ''}")
