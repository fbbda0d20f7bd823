"""The settings of stores in Google Cloud Storage and Azure, which are not part of their addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from sparklog.core.errors import InvalidInput
from sparklog.storage.server_settings import DEFAULT_TIMEOUT_MS, TIMEOUT, check_names, read_values


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
