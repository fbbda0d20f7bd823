"""Addresses of stores in Google Cloud Storage and Azure, and the settings that are not part of the address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, TypeVar

from sparklog.core.errors import InvalidInput
from sparklog.storage.server_settings import DEFAULT_TIMEOUT_MS, TIMEOUT, check_names, read_prefix, read_values

_GS_URL: Final = re.compile(r"(?i:gs|gcs)://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/([^@]*))?", re.DOTALL)
_ABFS_URL: Final = re.compile(
    r"(?i:abfss?)://(?=[^@/]{3,63}(?:[@/]|$))([a-z0-9](?:-?[a-z0-9])+)"
    r"(?:@([a-z0-9]{3,24})\.dfs\.([a-z0-9.-]+))?(?:/([^@]*))?",
    re.DOTALL,
)
GS_ADDRESS: Final = "gs://bucket/prefix"
ABFS_ADDRESS: Final = "abfs://container@account.dfs.core.windows.net/prefix or abfs://container/prefix"


@dataclass(frozen=True, slots=True)
class GcsSettings:
    """Settings of one store. Unset ones are left to Google's libraries.

    Without `credentials_file`, these libraries use Application Default Credentials.
    """

    of: ClassVar[str] = "a store in Google Cloud Storage"

    endpoint_url: str | None = None
    credentials_file: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """Settings of one store. Azure's libraries look for unset ones in the environment.

    Without a key, these libraries use an identity, such as that of `az login`. `account_host` comes from the address,
    if the address names the account. `endpoint_url` is for other servers, such as an emulator, and needs an account's
    name and key.
    """

    of: ClassVar[str] = "a store in Azure"

    endpoint_url: str | None = None
    account_name: str | None = None
    account_host: str | None = None
    connection_string: str | None = field(default=None, repr=False)
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    timeout_ms: int = DEFAULT_TIMEOUT_MS


Settings = TypeVar("Settings", GcsSettings, AzureSettings)


def read_settings(kind: type[Settings], given: Mapping[str, str], of_address: Mapping[str, str]) -> Settings:
    """Return settings of type `kind`. `given` has settings as text; `of_address` has those in the store's address.

    Raises InvalidInput, whose message never shows a secret.
    """
    names = [setting.name for setting in fields(kind) if setting.name != "account_host"]
    check_names(kind.of, given, names)
    values: dict[str, Any] = {**given, **of_address, **read_values(given, TIMEOUT)}
    endpoint = given.get("endpoint_url")
    if endpoint is not None and not re.fullmatch(r"https?://[^/@?#]+/?", endpoint):
        raise InvalidInput("endpoint_url: wanted http://host:port or https://host:port, found something else")
    if "account_name" in of_address and given.get("account_name", of_address["account_name"]) != values["account_name"]:
        raise InvalidInput(
            f"account_name: the address names {of_address['account_name']!r}, found {given['account_name']!r}"
        )
    return kind(**values)


def parse_gs_url(url: str) -> tuple[str, str]:
    """Return (bucket, prefix) from gs://bucket/prefix; the prefix is empty or ends with '/'. Raises InvalidInput."""
    match = _GS_URL.fullmatch(url)
    if match is None:
        raise InvalidInput(f"a store in Google Cloud Storage is {GS_ADDRESS}, not {url!r}")
    return match[1], read_prefix(match[2], url, GS_ADDRESS)


def parse_abfs_url(url: str) -> tuple[str, str, dict[str, str]]:
    """Return (container, prefix, settings) from an abfs:// or abfss:// address. Raises InvalidInput.

    The prefix is empty or ends with '/'. The settings are the account's name and host, if the address has them.
    """
    match = _ABFS_URL.fullmatch(url)
    if match is None:
        shown = "one with something else beside its '@'" if "@" in url else repr(url)
        raise InvalidInput(f"a store in Azure is {ABFS_ADDRESS}, not {shown}")
    account, suffix = match[2], match[3]
    of_address = {"account_name": account, "account_host": f"{account}.blob.{suffix}"} if account else {}
    return match[1], read_prefix(match[4], url, ABFS_ADDRESS), of_address
