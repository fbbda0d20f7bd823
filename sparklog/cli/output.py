"""How rows, documents and closing lines reach people (tables) and programs (JSON), and what help pages end with.

A verb whose reader has left goes on: its exit code may still have something to say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparklog.cli.settings import settings
from sparklog.client.failures import one_line
from sparklog.core.readable import amount, point_in_time
from sparklog.host.streams import print_to

if TYPE_CHECKING:
    from sparklog.client.cluster import Cluster

Row = Mapping[str, Any]

COMMON_OPTIONS = "Also: --cluster URL, --config FILE, --format table|json (sparklog --help)."


def ending(*examples: str) -> str:
    """The end of a verb's help: its examples, one a line, and a word on the options of every verb."""
    lines = ["\b", "Examples:", *(f"  {each}" for each in examples), "", COMMON_OPTIONS]
    return "\n".join(lines)


def examples_of(help_ending: str) -> list[str]:
    """The examples that `ending` was given."""
    return [line.removeprefix("  ") for line in help_ending.split("\n") if line.startswith("  ")]


def connect() -> Cluster:
    """A connection to the cluster that the command line names. The caller closes it."""
    from sparklog.client.cluster import connect as connect_to

    return connect_to(settings.cluster())


def now_ms() -> int:
    """The machine's clock."""
    from sparklog.host.clock import SystemClock

    return SystemClock().now_ms()


def show_rows(rows: Iterable[Row], *, empty: str) -> None:
    """A table for people (`empty` if it has no rows), or one JSON array. All rows have the same names."""
    every = list(rows)
    if settings.json:
        print_json(every)
    elif every:
        print_to(sys.stdout, table(every))
    else:
        print_to(sys.stdout, empty)


def table(rows: Sequence[Row]) -> str:
    """The rows under their names, in aligned columns; numbers to the right. Nothing is cut, so it can be copied."""
    columns = []
    for name in rows[0]:
        cells = [label(name), *(human(name, row[name]) for row in rows)]
        width = max(len(each) for each in cells)
        numeric = all(row[name] is None or type(row[name]) in (int, float) for row in rows) and not name.endswith("_ms")
        columns.append([each.rjust(width) if numeric else each.ljust(width) for each in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def show_document(document: Row) -> None:
    """Name and value lines for people, or one JSON object."""
    if settings.json:
        print_json(document)
    else:
        print_values(document)


def print_values(document: Row) -> None:
    """A line for each name with its value; a list of more than one value takes a line for each."""
    width = max(len(label(name)) for name in document)
    for name, value in document.items():
        several = isinstance(value, (list, tuple)) and len(value) > 1
        for at, each in enumerate(value if several else [value]):
            print_to(sys.stdout, f"{'' if at else label(name):<{width}}  {human(name, each)}")


def print_json(value: object) -> None:
    """One JSON document on a line of stdout."""
    import msgspec

    print_to(sys.stdout, msgspec.json.encode(value).decode())


def print_warning(text: str) -> None:
    """A line on stderr that changes neither result nor exit code."""
    sys.stdout.flush()
    print_to(sys.stderr, f"warning: {one_line(text)}")


def status(text: str) -> None:
    """A line on stderr that says what takes a while now, for people who watch."""
    if sys.stderr.isatty():
        print(f"{text} …", file=sys.stderr)


def done(message: str, document: Row) -> None:
    """The end of a verb that changed something: a line for people, or the document as JSON."""
    if settings.json:
        print_json(document)
    else:
        print_to(sys.stdout, message)


# ---- values for people ------------------------------------------------------------------------------


def label(name: str) -> str:
    """A name without its unit: values for people carry theirs."""
    return name.removesuffix("_ms").removesuffix("_bytes").replace("_", " ")


def human(name: str, value: Any) -> str:
    """A value for people, by the unit in its name: points in time in ISO UTC, sizes in binary units."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_ms"):
        return point_in_time(value)
    if name.endswith("_bytes"):
        return amount(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(str(each) for each in value) or "-"
    return str(value)
