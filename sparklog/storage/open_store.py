"""From the address of a store to the store: the only place that knows which scheme is which adapter."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import quote

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidInput
from sparklog.storage.local.store import LocalStore
from sparklog.storage.memory import MemoryStore
from sparklog.storage.object_store import ObjectStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NO_SLASHES = re.compile(r"(?i:s3|s3a|s3n|hdfs|https?|memory):(?!/)")
_NO_COLON = re.compile(r"(?i:file|s3|s3a|s3n|hdfs|https?|memory)//|:/")  # as directories nobody means them
_SCHEMES = ("file", "s3", "hdfs", "memory", "http")
_KAFKA_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]+(?:,.*)?")


def open_store(url: str, settings: Mapping[str, str] | None = None) -> ObjectStore:
    """The store at `url`: a path (also relative, also with ~), file:///path, s3://bucket/prefix, hdfs://host/path or
    memory://name. `settings` say how it is reached where the platform's own places don't; disks have none.

    Nothing is read or made. Raises InvalidInput for an address that is no store's, or a setting that is not known.
    """
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else None
    if "@" in url and (_NO_SLASHES.match(url) or scheme not in (None, "file")):
        raise InvalidInput("the address of a store holds no user, key or password (no '@'), so it is not shown here")
    if _NO_SLASHES.match(url) and not _KAFKA_ADDRESS.fullmatch(url):
        raise InvalidInput(f"the address of a store has '//' behind its scheme, found {url!r}")
    if not url.strip() or _NO_COLON.match(url):
        raise InvalidInput(f"a store is a path, or has '://' behind its scheme, found {url!r}")
    if settings and scheme not in ("s3", "s3a", "s3n", "hdfs"):
        raise InvalidInput(f"a store at {url!r} has no settings, found {', '.join(sorted(settings))}")
    match scheme:
        case "memory":
            return MemoryStore(url)
        case "file":
            return LocalStore(url)
        case "s3" | "s3a" | "s3n":
            from sparklog.storage.s3.store import S3Store

            return S3Store(url, settings or {})
        case "hdfs":
            from sparklog.storage.hdfs.store import HdfsStore

            return HdfsStore(url, settings or {})
        case "http" | "https":
            raise InvalidInput(f"{scheme}:// is the address of a coordinator, not of a store, found {url!r}")
        case None if _KAFKA_ADDRESS.fullmatch(url):
            raise InvalidInput(
                f"this is a Kafka address; a cluster is file://, s3://, hdfs:// or http://, found {url!r}"
            )
        case None:
            return LocalStore(url)
        case _:
            raise InvalidInput(
                "a store is a path, file:///path, s3://bucket/prefix, hdfs://host/path or memory://name, "
                f"not {scheme}:// in {url!r}{did_you_mean(scheme, _SCHEMES)}"
            )


def absolute_url(url: str) -> str:
    """The one spelling of a store's address: a bare path becomes file:///absolute/path. Raises InvalidInput."""
    return open_store(url).url


def has_timeout(url: str) -> bool:
    """Whether the store at this absolute address is a server's, which has the setting timeout_ms."""
    return url.startswith(("s3://", "hdfs://"))


def is_relative(store_url: str) -> bool:
    """Whether the address of a store counts from its cluster's."""
    return not (
        store_url.startswith(("/", "~"))
        or _SCHEME.match(store_url)
        or _NO_COLON.match(store_url)
        or _KAFKA_ADDRESS.fullmatch(store_url)
    )


def join_url(cluster_url: str, store_url: str) -> str:
    """The address of a store that may be registered relative to the cluster: '.' lives at the cluster's own root.

    `store_url` with a scheme, absolute or with ~ stands for itself; 'zone-a' and '../zone-b' are taken from
    `cluster_url` as from a directory. Raises InvalidInput, also if '..' leads out of the cluster's host or bucket.
    """
    if not store_url:
        raise InvalidInput("the address of a store is a URL, a path, or '.' for the cluster's own root, not empty")
    if not is_relative(store_url):
        return absolute_url(store_url)
    scheme, _, rest = absolute_url(cluster_url).partition("://")
    # Before the path stands a host, a bucket or a name, which stays; in a file URL it is empty.
    authority, _, path = rest.partition("/")
    joined = posixpath.normpath(posixpath.join(path, quote(store_url) if scheme == "file" else store_url))
    if joined.split("/")[0] == "..":
        raise InvalidInput(f"the store {store_url!r} leads out of the cluster's address {cluster_url!r}")
    return absolute_url(f"{scheme}://{authority}/{joined if joined != '.' else ''}")
