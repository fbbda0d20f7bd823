"""The form of a store's address. Each adapter checks what only it knows, such as legal names of buckets."""

from __future__ import annotations

import re
from typing import Final

from sparklog.core.config.key import did_you_mean, shown
from sparklog.core.errors import InvalidInput

MAX_LENGTH: Final = 2_048
# The schemes of stores on servers, each with the one of canonical addresses. `open_store` has an adapter for each.
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
_KNOWN: Final = ("file", *ON_A_SERVER, "memory")
_OFFERED: Final = ("file", *dict.fromkeys(ON_A_SERVER.values()), "memory", "http")
_WITH_HOST: Final = "|".join((*ON_A_SERVER, "memory", "http", "https"))
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NO_SLASHES: Final = re.compile(f"(?i:{_WITH_HOST}):(?!/)")
_NO_COLON: Final = re.compile(f"(?i:file|{_WITH_HOST})//|:/")  # a typo, not the name of a directory
_KAFKA_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):[0-9]+(?:,.*)?")
_FILE: Final = re.compile(r"(?i:file):(//(localhost)?/|/(?!/)).*")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_HOST_AND_PATH: Final = re.compile(r"[A-Za-z0-9]+://[^/?#]+(/[^?#]*)?")


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
    """Raise InvalidInput if an address begins or ends with a blank: usually a slip, and the name of another folder."""
    if url != url.strip():
        raise InvalidInput(f"the address of a store has no blank at its ends, found {url!r}")


def is_relative(url: str) -> bool:
    """True if a store's address is relative to the address of its cluster, such as 'zone-a'."""
    is_absolute = url.startswith(("/", "~")) or _SCHEME.match(url) or _NO_COLON.match(url)
    return not (is_absolute or _KAFKA_ADDRESS.fullmatch(url))


def check_store_address(url: str) -> None:
    """Raise InvalidInput unless `url` has the form of a store's address, absolute or relative to the cluster's.

    Every process opens the stores that are registered, so an address without this form would stop all of them.
    """
    check_ends(url)
    if not url:
        raise InvalidInput("the address of a store is a URL, a path, or '.' for the cluster's own root, not empty")
    if len(url) > MAX_LENGTH or not url.isprintable():
        raise InvalidInput(f"the address of a store has up to {MAX_LENGTH:,} printable characters, found {shown(url)}")
    scheme = scheme_of(url)
    if scheme is not None and (_FILE if scheme == "file" else _HOST_AND_PATH).fullmatch(url) is None:
        wanted = "file:///path" if scheme == "file" else f"{scheme}:// and a name"
        raise InvalidInput(f"wanted the address of a store, {wanted}, found {shown(url)}")
    if url.startswith("~"):
        raise InvalidInput(f"~ is another folder for each user, so a store has an absolute path, found {shown(url)}")
    if scheme == "file":
        decoded_path(url)


def decoded_path(url: str) -> str:
    """Return what stands behind `file:` in a URL, with each %xx decoded.

    Raises InvalidInput unless that is UTF-8 without a zero byte: other bytes have no spelling that Java and Python
    decode alike.
    """
    try:
        encoded = url[len("file:") :].encode("utf-8", "surrogatepass")
        path = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), encoded).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"a file URL has the bytes of UTF-8 behind its % signs, not {shown(url)}") from error
    if "\0" in path:
        raise InvalidInput(f"a path is not empty and has no zero byte, not {shown(url)}")
    return path
