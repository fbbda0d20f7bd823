"""What verbs share: which cluster and which format, and how rows, documents and lines reach the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparklog.core.errors import InvalidOption

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster

Row = Mapping[str, Any]


class Settings:
    """The options of every verb, taken out of the command line wherever they stand."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def take(self, arguments: Sequence[str]) -> list[str]:
        """Remember --cluster, --config and --format, and return the other arguments. Raises InvalidOption."""
        self.values = {}
        rest: list[str] = []
        pending = iter(arguments)
        for each in pending:
            if each == "--":
                return [*rest, each, *pending]
            name, has_value, value = each.partition("=")
            if name not in ("--cluster", "--config", "--format"):
                rest.append(each)
                continue
            if not has_value:
                found = next(pending, None)
                if found is None:
                    raise InvalidOption(f"{name} needs a value")
                value = found
            self.values[name[2:]] = value
        if self.values.get("format", "table") not in ("table", "json"):
            raise InvalidOption(f"--format is table or json, found {self.values['format']!r}")
        return rest

    @property
    def json(self) -> bool:
        """Whether results are JSON."""
        return self.values.get("format") == "json"

    def cluster(self) -> str:
        """The address: --cluster, SPARKLOG_CLUSTER, or `cluster` of the config file. Raises InvalidOption."""
        address = self.values.get("cluster") or os.environ.get("SPARKLOG_CLUSTER") or self._configured()
        if not address:
            raise InvalidOption("which cluster? give --cluster URL, or set SPARKLOG_CLUSTER")
        return address

    def _configured(self) -> str | None:
        path = self.values.get("config") or os.environ.get("SPARKLOG_CONFIG")
        if not path:
            return None
        import tomllib

        try:
            with open(path, "rb") as file:
                found = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InvalidOption(f"--config {path} can't be read: {error}") from error
        if unknown := set(found) - {"cluster"}:
            raise InvalidOption(f"--config {path}: wanted 'cluster', found {', '.join(sorted(unknown))}")
        return str(found["cluster"]) if "cluster" in found else None


settings = Settings()


def connect() -> Cluster:
    """A connection to the cluster that the command line names."""
    from sparklog.client.cluster import connect as connect_to

    return connect_to(settings.cluster())


def show_rows(rows: Iterable[Row], columns: Sequence[str], *, empty: str = "none") -> None:
    """A table for people (`empty` if it has no rows), or one JSON array. Columns missing in a row stay blank."""
    every = list(rows)
    if settings.json:
        print_json(every)
        return
    if not every:
        print(empty)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), int) for row in every)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in every:
        table.add_row(*(human(column, row.get(column)) for column in columns))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table)


def show_document(document: Row) -> None:
    """Name and value lines for people, or one JSON object."""
    if settings.json:
        print_json(document)
        return
    width = max(len(name) for name in document)
    for name, value in document.items():
        print(f"{name.replace('_', ' '):<{width}}  {human(name, value)}")


def print_json(value: object) -> None:
    """One JSON document on a line of stdout."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def human(name: str, value: Any) -> str:
    """A value for people, by the unit in its name: times in ISO UTC, sizes in binary units."""
    if value is None:
        return "-"
    if name.endswith("_ms") and isinstance(value, int):
        return time_of(value)
    if name.endswith("bytes") and isinstance(value, int):
        return size_of(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(str(each) for each in value)
    return str(value)


def time_of(at_ms: int) -> str:
    """2013-01-31T23:59:59.000Z."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_of(size_bytes: int) -> str:
    """12.3 MiB."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def key_values(given: Sequence[str], option: str) -> dict[str, object]:
    """KEY=VALUE arguments as a map. Raises InvalidOption."""
    found: dict[str, object] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{option} is KEY=VALUE, found {each!r}")
        found[key] = value
    return found


def done(message: str, document: Row) -> None:
    """The end of a verb that changed something: a line for people, or the document as JSON."""
    if settings.json:
        print_json(document)
    else:
        print(message)
