"""The options of every verb: which cluster, which config file, which output format; taken wherever they stand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.storage.config_file import CONFIG_VARIABLE, read_config_file

NAMES = ("--cluster", "--config", "--format")
_FORMATS = ("table", "json")

DRY_RUN = typer.Option(False, "--dry-run", help="Check it and say what would be done; change nothing.")


class Settings:
    """What the command line says about `NAMES`. One command line after the other; `take` begins the next."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def take(self, arguments: Sequence[str], names: Sequence[str] = NAMES) -> list[str]:
        """Remember the options of `names`, and return the other arguments. What follows `--` is left alone.

        A command that has options of its own by one of these names does without ours.

        Raises InvalidOption for a missing value or an unknown format.
        """
        self._given = {}
        rest: list[str] = []
        pending = iter(arguments)
        for each in pending:
            if each == "--":
                return [*rest, each, *pending]
            name, has_value, value = each.partition("=")
            if name not in names:
                rest.append(each)
                continue
            found = value if has_value else next(pending, None)
            if not found:
                raise InvalidOption(f"{name} needs a value")
            self._given[name] = found
        if self._given.get("--format", "table") not in _FORMATS:
            raise InvalidOption(f"--format: wanted table or json, found {self._given['--format']!r}")
        return rest

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """While this command line runs, its --config is the file of all who open a store, Spark's tasks included."""
        given, before = self._given.get("--config"), os.environ.get(CONFIG_VARIABLE)
        if not given:
            yield
            return
        os.environ[CONFIG_VARIABLE] = os.path.abspath(given)
        try:
            yield
        finally:
            if before is None:
                del os.environ[CONFIG_VARIABLE]
            else:
                os.environ[CONFIG_VARIABLE] = before

    @property
    def json(self) -> bool:
        """Whether results are JSON."""
        return self._given.get("--format") == "json"

    def cluster(self) -> str:
        """The address: --cluster, `cluster` in --config, SPARKLOG_CLUSTER, `cluster` in SPARKLOG_CONFIG.

        A config file that is named is read, so that a wrong one never goes unseen. Raises InvalidInput.
        """
        given = self._given.get("--config")
        in_given = read_config_file(given, "--config").cluster if given else None
        found = self._given.get("--cluster") or in_given or os.environ.get("SPARKLOG_CLUSTER")
        if not found and not given and (named := os.environ.get(CONFIG_VARIABLE)):
            found = read_config_file(named, CONFIG_VARIABLE).cluster
        if not found:
            raise InvalidInput("which cluster? give --cluster URL, or set SPARKLOG_CLUSTER (for example file:///path)")
        if found.startswith("memory:"):
            raise InvalidInput(f"{found} lives in one process and would end with this one: use file:///path")
        return found


settings = Settings()
