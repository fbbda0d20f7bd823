"""Settings that all stores on servers have, and the parser of the prefix in a bucket's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparklog.core.config.key import ConfigKey, ValueType, did_you_mean
from sparklog.core.errors import InvalidInput
from sparklog.storage.keys import check_key

DEFAULT_TIMEOUT_MS: Final = 30_000
TIMEOUT: Final = ConfigKey("timeout_ms", ValueType.INT, DEFAULT_TIMEOUT_MS, "", minimum=100, maximum=3_600_000)


def check_names(kind: str, given: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise InvalidInput for a setting that is not in `names`. `kind` is for the error, such as "an S3 store"."""
    for name in given:
        if name not in names:
            raise InvalidInput(f"{kind} has the settings {', '.join(names)}, not {name!r}{did_you_mean(name, names)}")


def read_values(given: Mapping[str, str], *keys: ConfigKey) -> dict[str, Any]:
    """Parse the settings in `given` that `keys` define, and return their values by name. Raises InvalidInput.

    Other settings, and those that are not given, are left out.
    """
    values = {}
    for key in keys:
        if key.name in given:
            value = key.read(given[key.name])
            if value is None:
                raise InvalidInput(f"{key.name}: wanted {key.legal()}, found {given[key.name]!r}")
            values[key.name] = value
    return values


def read_prefix(path: str | None, url: str, address: str) -> str:
    """Return the prefix of keys in a store's address `url`: '' or a legal key and '/'. Raises InvalidInput.

    `path` is the part of `url` after the bucket. `address` is the general form of such addresses, for the error.
    """
    path = (path or "").rstrip("/")
    if not path:
        return ""
    try:
        return f"{check_key(path)}/"
    except InvalidInput as error:
        raise InvalidInput(f"in a store {address} the prefix is a legal key: {error.message} in {url!r}") from error
