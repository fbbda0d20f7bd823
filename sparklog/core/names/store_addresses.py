"""The form of a store's address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from sparklog.core.config.key import did_you_mean, shown
from sparklog.core.errors import InvalidInput
from sparklog.core.names.address_parts import (
    parse_abfs_url,
    parse_file_url,
    parse_gs_url,
    parse_hdfs_url,
    parse_memory_url,
    parse_s3_url,
)

MAX_LENGTH: Final = 2_048
# The schemes of stores on servers, each with the scheme of its canonical address. `open_store` has an adapter for each.
ON_A_SERVER: Final = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfs",
    "hdfs": "hdfs",
}
_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "file": parse_file_url,
    "s3": parse_s3_url,
    "gs": parse_gs_url,
    "abfs": parse_abfs_url,
    "hdfs": parse_hdfs_url,
    "memory": parse_memory_url,
}
_KNOWN: Final = ("file", *ON_A_SERVER, "memory")
_OFFERED: Final = ("file", *dict.fromkeys(ON_A_SERVER.values()), "memory", "http")
_WITH_HOST: Final = "|".join((*ON_A_SERVER, "memory", "http", "https"))
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NO_SLASHES: Final = re.compile(f"(?i:{_WITH_HOST}):(?!/)")
_NO_COLON: Final = re.compile(f"(?i:file|{_WITH_HOST})//|:/")  # a typo, not the name of a directory
_KAFKA_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]+(?:,.*)?")


def scheme_of(url: str) -> str | None:
    """Return the scheme of a store's address, in lower case; None for a path. Raises InvalidInput for other texts."""
    check_ends(url)
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match else None
    # The address of a container may name its account behind an '@'.
    if "@" in url and (_NO_SLASHES.match(url) or scheme not in (None, "file", "abfs", "abfss")):
        raise InvalidInput("the address of a store holds no user, key or password (no '@'), so it is not shown here")
    if _NO_SLASHES.match(url) and not _KAFKA_ADDRESS.fullmatch(url):
        raise InvalidInput(f"the address of a store has '//' after its scheme, found {shown(url)}")
    if not url or _NO_COLON.match(url):
        raise InvalidInput(f"a store is a path, or has '://' after its scheme, found {shown(url)}")
    if scheme in ("http", "https"):
        raise InvalidInput(f"{scheme}:// is the address of a coordinator, not of a store, found {shown(url)}")
    if scheme is None and _KAFKA_ADDRESS.fullmatch(url):
        raise InvalidInput(
            "this is a Kafka address; a cluster is file://, s3://, gs://, abfs://, hdfs:// or http://, "
            f"found {shown(url)}"
        )
    if scheme is not None and scheme not in _KNOWN:
        raise InvalidInput(
            "a store is a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, abfs://container/prefix, "
            "hdfs://host/path or memory://name, "
            f"not {scheme[:MAX_LENGTH]}:// in {shown(url)}{did_you_mean(scheme, _OFFERED)}"
        )
    return scheme


def check_ends(url: str) -> None:
    """Raise InvalidInput if an address begins or ends with a space: usually a slip, which would name another folder."""
    if url != url.strip():
        raise InvalidInput(f"the address of a store has no blank at its ends, found {url!r}")


def is_relative(url: str) -> bool:
    """True if a store's address is relative to the address of its cluster, such as 'zone-a'."""
    is_absolute = url.startswith(("/", "~")) or _SCHEME.match(url) or _NO_COLON.match(url)
    return not (is_absolute or _KAFKA_ADDRESS.fullmatch(url))


def check_store_address(url: str) -> None:
    """Raise InvalidInput unless `url` has the form of a store's address, absolute or relative to the cluster's.

    `open_store` accepts every such address, except a relative one that does not fit the cluster's.
    """
    check_ends(url)
    if not url:
        raise InvalidInput("the address of a store is a URL, a path, or '.' for the cluster's own root, not empty")
    if len(url) > MAX_LENGTH or not url.isprintable():
        raise InvalidInput(f"the address of a store has up to {MAX_LENGTH:,} printable characters, found {shown(url)}")
    scheme = scheme_of(url)
    if scheme is not None:
        _PARSERS[ON_A_SERVER.get(scheme, scheme)](url)
    if scheme == "hdfs" and not parse_hdfs_url(url)[0]:
        raise InvalidInput(f"machines differ in fs.defaultFS, so a store is hdfs://host/path, found {shown(url)}")
    if url.startswith("~"):
        raise InvalidInput(f"~ is another folder for each user, so a store has an absolute path, found {shown(url)}")
