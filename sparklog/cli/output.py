"""Prints the output of verbs: tables and lines for people, or JSON for programs.

A verb continues if the reader of stdout closes the pipe, because its exit code may still matter.

`ending` makes the epilog of a verb's help page, with examples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sparklog.cli.common_options import settings
from sparklog.client.error_line import one_line
from sparklog.core.describe.readable import human, labels_of, text_table
from sparklog.host.standard_streams import print_to

if TYPE_CHECKING:
    from msgspec import Struct

    from sparklog.client.cluster import Cluster

Row = Mapping[str, Any]

COMMON_OPTIONS = "Also: --cluster URL, --config FILE, --format table|json (sparklog --help)."


def ending(*examples: str) -> str:
    """Return the epilog of a verb's help page: its examples, one per line, and the common options."""
    lines = ["\b", "Examples:", *(f"  {example}" for example in examples), "", COMMON_OPTIONS]
    return "\n".join(lines)


def examples_of(help_ending: str) -> list[str]:
    """The examples in an epilog made by `ending`."""
    return [line.removeprefix("  ") for line in help_ending.split("\n") if line.startswith("  ")]


def connect() -> Cluster:
    """Connect to the cluster that the command line names. The caller closes the connection."""
    from sparklog.client.cluster import connect as connect_to

    return connect_to(settings.cluster())


def now_ms() -> int:
    """Milliseconds since the epoch, by the machine's clock."""
    from sparklog.host.clock import SystemClock

    return SystemClock().now_ms()


def show_rows(rows: Iterable[Row], *, empty: str) -> None:
    """Print a table (the text `empty` if there are no rows), or one JSON array with --format json.

    All rows must have the same keys.
    """
    listed = list(rows)
    if settings.json:
        print_json(listed)
    elif listed:
        print_to(sys.stdout, text_table(listed))
    else:
        print_to(sys.stdout, empty)


def json_row(row: Struct) -> dict[str, Any]:
    """Return the fields of a row of `core/describe`. A time in microseconds is one in milliseconds: `oldest_ms`."""
    from msgspec import structs

    fields = structs.asdict(row).items()
    return dict(
        (f"{name[:-3]}_ms", value and value // 1000) if name.endswith("_us") else (name, value)
        for name, value in fields
    )


def show_document(document: Row) -> None:
    """Print a line for each name and value, or one JSON object with --format json."""
    if settings.json:
        print_json(document)
    else:
        print_values(document)


def print_values(document: Row) -> None:
    """Print a line for each name and value. A list with several values gets a line for each value."""
    labels = labels_of(document)
    width = max(map(len, labels.values()))
    for name, value in document.items():
        several = isinstance(value, (list, tuple)) and len(value) > 1
        for line, item in enumerate(value if several else [value]):
            print_to(sys.stdout, f"{'' if line else labels[name]:<{width}}  {human(name, item)}")


def print_json(value: object) -> None:
    """Print one JSON document as one line on stdout."""
    import msgspec

    print_to(sys.stdout, msgspec.json.encode(value).decode())


def print_warning(text: str) -> None:
    """Print a warning as one line on stderr. The exit code stays the same."""
    sys.stdout.flush()
    print_to(sys.stderr, f"warning: {one_line(text)}")


def status(text: str) -> None:
    """Print a progress line on stderr before a slow step, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"{text} …", file=sys.stderr)


def done(message: str, document: Row) -> None:
    """Print the result of a verb that changed something: the line `message`, or `document` with --format json."""
    if settings.json:
        print_json(document)
    else:
        print_to(sys.stdout, message)
