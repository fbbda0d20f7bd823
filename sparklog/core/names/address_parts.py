"""Splits the addresses of stores: a parser for each scheme, which refuses what that kind of store can't have.

The adapters open stores by these parts. `check_store_address` calls the same parsers, so that no store is registered at
an address that its adapter refuses.
"""

from __future__ import annotations

import re
from typing import Final

from sparklog.core.config.key import shown
from sparklog.core.errors import InvalidInput
from sparklog.core.names.legal_keys import KEY_FORM, is_legal_key

_S3: Final = "s3://bucket/prefix"
_GS: Final = "gs://bucket/prefix"
_ABFS: Final = "abfs://container@account.dfs.core.windows.net/prefix or abfs://container/prefix"

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_MEMORY_URL: Final = re.compile(r"(?i:memory)://([A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)/?")
_S3_URL: Final = re.compile(r"s3[an]?://([^/]*)(?:/(.*))?", re.IGNORECASE | re.DOTALL)
_S3_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_GS_URL: Final = re.compile(r"(?i:gs|gcs)://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/([^@]*))?", re.DOTALL)
_ABFS_URL: Final = re.compile(
    r"(?i:abfss?)://(?=[^@/]{3,63}(?:[@/]|$))([a-z0-9](?:-?[a-z0-9])+)"
    r"(?:@([a-z0-9]{3,24})\.dfs\.([a-z0-9.-]+))?(?:/([^@]*))?",
    re.DOTALL,
)
_HDFS_URL: Final = re.compile(r"(?i:hdfs)://([A-Za-z0-9._-]+(?::[0-9]+)?|)(/.*|)", re.DOTALL)
_HDFS_PATH_PART: Final = re.compile(r"(?!\.\.?$)[^\x00-\x1f\x7f:]+")


def parse_file_url(url: str) -> str:
    """Return the absolute path of a `file:` URL, with each %xx decoded.

    Raises InvalidInput for another host, a relative path, and bytes that are not UTF-8 or have a zero byte: other bytes
    have no spelling that Java and Python decode alike.
    """
    try:
        encoded = url[len("file:") :].encode("utf-8", "surrogatepass")
        path = _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), encoded).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"a file URL has the bytes of UTF-8 behind its % signs, not {shown(url)}") from error
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise InvalidInput(f"a file URL is file:///absolute/path on this machine, not {shown(url)}")
        path = f"/{rest}"
    if not path.startswith("/"):
        raise InvalidInput(f"a file URL is file:///absolute/path, not {shown(url)}")
    if "\0" in path:
        raise InvalidInput(f"a path is not empty and has no zero byte, not {shown(url)}")
    return path


def parse_memory_url(url: str) -> str:
    """Return the name in memory://name. Raises InvalidInput."""
    match = _MEMORY_URL.fullmatch(url)
    if match is None:
        raise InvalidInput(f"a store in memory is memory://name, not {shown(url)}")
    return match[1]


def parse_s3_url(url: str) -> tuple[str, str]:
    """Return (bucket, prefix) from s3://bucket/prefix; the prefix is empty or ends with '/'. Raises InvalidInput."""
    if "@" in url:  # legal neither in a bucket nor in a prefix; secret keys before an '@' may contain '/'
        raise InvalidInput(f"an S3 store is {_S3}, without keys (or any other '@') in it")
    match = _S3_URL.fullmatch(url)
    if match is None:
        raise InvalidInput(f"an S3 store is {_S3}, not {shown(url)}")
    bucket = match[1]
    if _S3_BUCKET.fullmatch(bucket) is None:
        raise InvalidInput(f"an S3 store is {_S3}, found the bucket {shown(bucket)} in {shown(url)}")
    return bucket, _read_prefix(match[2], url, _S3)


def parse_gs_url(url: str) -> tuple[str, str]:
    """Return (bucket, prefix) from gs://bucket/prefix; the prefix is empty or ends with '/'. Raises InvalidInput."""
    match = _GS_URL.fullmatch(url)
    if match is None:
        raise InvalidInput(f"a store in Google Cloud Storage is {_GS}, not {shown(url)}")
    return match[1], _read_prefix(match[2], url, _GS)


def parse_abfs_url(url: str) -> tuple[str, str, dict[str, str]]:
    """Return (container, prefix, settings) from an abfs:// or abfss:// address. Raises InvalidInput.

    The prefix is empty or ends with '/'. The settings are the account's name and host, if the address has them.
    """
    match = _ABFS_URL.fullmatch(url)
    if match is None:
        address = "one with something else beside its '@'" if "@" in url else shown(url)
        raise InvalidInput(f"a store in Azure is {_ABFS}, not {address}")
    account, suffix = match[2], match[3]
    of_address = {"account_name": account, "account_host": f"{account}.blob.{suffix}"} if account else {}
    return match[1], _read_prefix(match[4], url, _ABFS), of_address


def parse_hdfs_url(url: str) -> tuple[str, str]:
    """Return (authority, path) from hdfs://host:port/path; the path does not end with '/'. Raises InvalidInput.

    The authority is empty in hdfs:///path, which names the file system `fs.defaultFS` of Hadoop's configuration.
    """
    match = _HDFS_URL.fullmatch(url)
    parts = [part for part in match[2].split("/") if part] if match else []
    if match is None or not all(map(_HDFS_PATH_PART.fullmatch, parts)):
        raise InvalidInput(
            "a store on HDFS is hdfs://host:port/path, hdfs://service/path or hdfs:///path (fs.defaultFS), "
            f"not {shown(url)}"
        )
    return match[1], "".join(f"/{part}" for part in parts)


def _read_prefix(path: str | None, url: str, address: str) -> str:
    """Return the prefix of keys in a store's address `url`: '' or a legal key and '/'. Raises InvalidInput.

    `path` is the part of `url` after the bucket. `address` is the general form of such addresses, for the error.
    """
    path = (path or "").rstrip("/")
    if path and not is_legal_key(path):
        raise InvalidInput(f"in a store {address} the prefix is a legal key ({KEY_FORM}), not {shown(url)}")
    return f"{path}/" if path else ""
