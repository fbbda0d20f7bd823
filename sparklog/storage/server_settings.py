"""Settings that all stores on servers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparklog.core.config.key import ConfigKey, ValueType, did_you_mean
from sparklog.core.errors import InvalidInput

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
