"""The options common to every verb (cluster, config file, output format), accepted anywhere on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer

from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.storage.config_file import CONFIG_VARIABLE, ConfigFile, read_config_file

NAMES = ("--cluster", "--config", "--format")
_FORMATS = ("table", "json")

DRY_RUN = typer.Option(False, "--dry-run", help="Check the command and show what it would do; change nothing.")


class Settings:
    """The values of the common options (`NAMES`) on the current command line. `take` reads them."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def take(self, arguments: Sequence[str], names: Sequence[str] = NAMES) -> list[str]:
        """Store the options in `names` and return the other arguments. Arguments after `--` are returned unchanged.

        `names` must leave out the options that the command defines itself. Raises InvalidOption for a missing value or
        an unknown format.
        """
        self._given = {}
        rest: list[str] = []
        pending = iter(arguments)
        for argument in pending:
            if argument == "--":
                return [*rest, argument, *pending]
            name, equals, value = argument.partition("=")
            if name not in names:
                rest.append(argument)
                continue
            given = value if equals else next(pending, None)
            if not given:
                raise InvalidOption(f"{name} needs a value")
            self._given[name] = given
        if self._given.get("--format", "table") not in _FORMATS:
            raise InvalidOption(f"--format: wanted table or json, found {self._given['--format']!r}")
        return rest

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply --config to every store that is opened inside the `with` block, also by Spark tasks."""
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
        """True with `--format json`."""
        return self._given.get("--format") == "json"

    def cluster(self) -> str:
        """Return the cluster's address. Raises InvalidInput if none is given, or for a memory:// address.

        It is the first that is set of --cluster, `cluster` in --config, SPARKLOG_CLUSTER, and, without --config,
        `cluster` in SPARKLOG_CONFIG. The file given by --config is read even if --cluster is given, so that a mistake
        in it is noticed.
        """
        url = self.cluster_if_named()
        if url is None:
            raise InvalidInput(
                "no cluster is given: give --cluster URL, or set SPARKLOG_CLUSTER (such as file:///path)"
            )
        return url

    def cluster_if_named(self) -> str | None:
        """Return the cluster's address as `cluster` does, but None if no address is given.

        Raises InvalidInput for a memory:// address: such a cluster would end with this process.
        """
        url = self._first(self._given.get("--cluster"), "SPARKLOG_CLUSTER", lambda file: file.cluster)
        if not url:
            return None
        if url.startswith("memory:"):
            raise InvalidInput(f"{url} exists in one process only and would end with this one: use file:///path")
        return url

    def job_command(self, given: str | None) -> str:
        """Return the command that runs jobs. `given` is the value of the option.

        It is the first that is set of `given`, `job_command` in --config, SPARKLOG_JOB_COMMAND, and, without --config,
        `job_command` in SPARKLOG_CONFIG. If none is set, it is "local".
        """
        return self._first(given, "SPARKLOG_JOB_COMMAND", lambda file: file.job_command) or "local"

    def _first(self, given: str | None, variable: str, of: Callable[[ConfigFile], str | None]) -> str | None:
        """Return the first value that is set; None if none is.

        In this order: `given` (the option), the one in --config, the environment variable `variable`, and, without
        --config, the one in SPARKLOG_CONFIG. `of` reads the value from a config file.
        """
        config = self._given.get("--config")
        in_config = of(read_config_file(config, "--config")) if config else None
        value = given or in_config or os.environ.get(variable)
        if not value and not config and (config_file := os.environ.get(CONFIG_VARIABLE)):
            value = of(read_config_file(config_file, CONFIG_VARIABLE))
        return value


settings = Settings()
