"""The options of every verb: which cluster, which config file, which output format; taken wherever they stand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sparklog.core.config_key import did_you_mean
from sparklog.core.errors import InvalidOption

NAMES = ("--cluster", "--config", "--format")
_FORMATS = ("table", "json")
_CONFIG_KEYS = ("cluster",)


class Settings:
    """What the command line says about `NAMES`. One command line after the other; `take` begins the next."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def take(self, arguments: Sequence[str]) -> list[str]:
        """Remember the options of `NAMES`, and return the other arguments. What follows `--` is left alone.

        Raises InvalidOption for a missing value or an unknown format.
        """
        self._given = {}
        rest: list[str] = []
        pending = iter(arguments)
        for each in pending:
            if each == "--":
                return [*rest, each, *pending]
            name, has_value, value = each.partition("=")
            if name not in NAMES:
                rest.append(each)
                continue
            found = value if has_value else next(pending, None)
            if not found:
                raise InvalidOption(f"{name} needs a value")
            self._given[name] = found
        if self._given.get("--format", "table") not in _FORMATS:
            raise InvalidOption(f"--format: wanted table or json, found {self._given['--format']!r}")
        return rest

    @property
    def json(self) -> bool:
        """Whether results are JSON."""
        return self._given.get("--format") == "json"

    def cluster(self) -> str:
        """The address: --cluster, `cluster` in --config, SPARKLOG_CLUSTER, `cluster` in SPARKLOG_CONFIG.

        A config file that is named is read, so that a wrong one never goes unseen. Raises InvalidOption.
        """
        given = self._given.get("--config")
        in_given = _configured("--config", given) if given else None
        found = self._given.get("--cluster") or in_given or os.environ.get("SPARKLOG_CLUSTER")
        if not found and not given and (named := os.environ.get("SPARKLOG_CONFIG")):
            found = _configured("SPARKLOG_CONFIG", named)
        if not found:
            raise InvalidOption("which cluster? give --cluster URL, or set SPARKLOG_CLUSTER (for example file:///path)")
        if found.startswith("memory:"):
            raise InvalidOption(f"{found} lives in one process and would end with this one: use file:///path")
        return found


def _configured(source: str, path: str) -> str | None:
    """The address in a config file, or None if it holds none."""
    import tomllib

    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        hint = "; a config key of the cluster goes by --cluster-config KEY=VALUE" if "=" in path else ""
        raise InvalidOption(f"{source}: {path} can't be read: {error.strerror}{hint}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise InvalidOption(f"{source}: {path} is not TOML: {error}") from error
    for key in found:
        if key not in _CONFIG_KEYS:
            near = did_you_mean(key, _CONFIG_KEYS)
            raise InvalidOption(f"{source}: {path}: wanted {', '.join(_CONFIG_KEYS)}, found {key!r}{near}")
    address = found.get("cluster")
    if address is not None and (not isinstance(address, str) or not address):
        raise InvalidOption(f'{source}: {path}: wanted cluster = "URL", found {address!r}')
    return address


settings = Settings()
