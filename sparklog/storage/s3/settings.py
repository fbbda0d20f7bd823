"""The settings of S3 stores, which are not part of their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from sparklog.core.config.key import ConfigKey, ValueType
from sparklog.core.errors import InvalidInput
from sparklog.storage.server_settings import DEFAULT_TIMEOUT_MS, TIMEOUT, check_names, read_values

_PATH_STYLE: Final = ConfigKey("path_style", ValueType.BOOL, None, "")
_CHOICES: Final = {
    "encryption": ("AES256", "aws:kms", "aws:kms:dsse"),
    "request_payer": ("requester",),
}


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of one store. botocore looks for unset ones in its usual places (environment, profile, role)."""

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    encryption: str | None = None
    kms_key_id: str | None = None
    request_payer: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


SETTINGS: Final = tuple(S3Settings.__dataclass_fields__)


def read_s3_settings(given: Mapping[str, str]) -> S3Settings:
    """Parse settings from text. Raises InvalidInput, which never shows the value of a secret."""
    check_names("an S3 store", given, SETTINGS)
    values: dict[str, Any] = {**given, **read_values(given, TIMEOUT, _PATH_STYLE)}
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            raise InvalidInput(f"{name}: wanted one of {', '.join(choices)}, found {given[name]!r}")
    _check_together(given)
    return S3Settings(**values)


def _check_together(given: Mapping[str, str]) -> None:
    if ("access_key_id" in given) != ("secret_access_key" in given):
        raise InvalidInput("access_key_id and secret_access_key go together, found one of them")
    if "session_token" in given and "access_key_id" not in given:
        raise InvalidInput("session_token goes with access_key_id and secret_access_key, found it alone")
    if "profile" in given and "access_key_id" in given:
        raise InvalidInput("keys come from profile or from access_key_id and secret_access_key, found both")
    if "kms_key_id" in given and not given.get("encryption", "").startswith("aws:kms"):
        raise InvalidInput("kms_key_id goes with encryption = aws:kms or aws:kms:dsse, found it without")
    if "endpoint_url" in given:
        check_endpoint(given["endpoint_url"], "endpoint_url")


def check_endpoint(url: str, named_by: str) -> None:
    """Raise InvalidInput if `url` isn't the http or https address of a server.

    The error begins with `named_by`, the setting or variable, and never shows a password.
    """
    if "@" in url:  # urlsplit misses the user if there is no scheme, or a '/' in the password
        raise InvalidInput(f"{named_by} holds no user and password: keys are access_key_id and secret_access_key")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(f"{named_by}: wanted http://host:port or https://host:port, found {url!r}")
