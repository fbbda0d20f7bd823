"""Human-readable numbers for messages and tables: counts with their noun, sizes, durations, points in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB")
_DURATIONS: Final = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000))
_SIBILANTS: Final = ("s", "x", "ch", "sh")
_REPR_LENGTH: Final = 95


def counted(number: int, noun: str) -> str:
    """A count with its noun: 1 record, 2,000 records. The noun must be regular; of several words, the last gets the
    plural.
    """
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def one_line_repr(kind: str, *parts: str) -> str:
    """Return a `repr` such as <Consumer orders, group billing>, cut to 97 characters if it is longer."""
    text = f"{kind} {', '.join(parts)}"
    return f"<{text}>" if len(text) <= _REPR_LENGTH else f"<{text[: _REPR_LENGTH - 1]}…>"


def printable(text: str, kept: str = "") -> str:
    """The text with an escape, such as \\x1b, for each character that a terminal or a browser obeys and does not show.

    These are control characters, such as ESC and line breaks, and those that change the direction of the text. The
    characters in `kept` stay.
    """
    if text.isprintable():
        return text
    return "".join(character if character in kept else _escaped(character) for character in text)


def numbered(count: int) -> str:
    """The numbers of `count` partitions: partitions 0 to 5, or only partition 0."""
    return "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"


def plural(noun: str) -> str:
    """The plural of a regular noun: records, entries, batches."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_SIBILANTS) else f"{noun}s"


def amount(size_bytes: int) -> str:
    """A number of bytes: 12.3 MiB."""
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def exact_amount(size_bytes: int) -> str:
    """A number of bytes, exact enough to compare with a setting or a file: 1,048,588 bytes (1.0 MiB)."""
    exact = counted(size_bytes, "byte")
    return exact if size_bytes < 1024 else f"{exact} ({amount(size_bytes)})"


def duration(length_ms: int) -> str:
    """A duration, not rounded: 7 days; 1 minute 30 seconds; 1.5 seconds; 20 ms."""
    if length_ms < 0:
        return f"-{duration(-length_ms)}"
    parts, rest_ms = [], length_ms
    for noun, unit_ms in _DURATIONS:
        number, rest_ms = divmod(rest_ms, unit_ms)
        if number:
            parts.append(counted(number, noun))
    if rest_ms >= 1000 or (parts and rest_ms):
        parts.append("1 second" if rest_ms == 1000 else f"{rest_ms / 1000:g} seconds")
    return " ".join(parts) or f"{rest_ms} ms"


def point_in_time(at_ms: int) -> str:
    """A time in UTC: 2013-01-31T23:59:59.000Z. Outside the years 1 to 9999: the number of milliseconds, and a note."""
    return _iso(at_ms * 1000) or f"{at_ms} ms ({_beyond_calendar(at_ms)})"


def point_in_time_us(at_us: int) -> str:
    """As `point_in_time`, but with microseconds, unless it is a whole number of ms: 2013-01-31T23:59:59.000001Z."""
    return _iso(at_us) or f"{at_us} us ({_beyond_calendar(at_us)})"


def setting_ms(name: str, value_ms: int) -> str:
    """A setting in milliseconds, as it is written and in readable form: retention.ms=604800000 (7 days)."""
    return f"{name}={value_ms}" if value_ms < 1000 else f"{name}={value_ms} ({duration(value_ms)})"


def setting_bytes(name: str, value_bytes: int) -> str:
    """A setting in bytes, as it is written and in readable form: segment.bytes=1073741824 (1.0 GiB)."""
    return f"{name}={value_bytes}" if value_bytes < 1024 else f"{name}={value_bytes} ({amount(value_bytes)})"


def labels_of(names: Iterable[str]) -> dict[str, str]:
    """Return the label of each name: its words without the unit, because `human` formats the value by its unit.

    Names that differ only in their units get different labels: if there is a name `deleted`, the label of
    `deleted_bytes` is "deleted size", and that of `deleted_ms` is "deleted time".
    """
    known = list(names)
    bare = {name: name.removesuffix("_ms").removesuffix("_bytes") for name in known}
    often = Counter(bare.values())
    kinds = {name: " size" if name.endswith("_bytes") else " time" if name.endswith("_ms") else "" for name in known}
    return {name: bare[name].replace("_", " ") + (kinds[name] if often[bare[name]] > 1 else "") for name in known}


def human(name: str, value: Any) -> str:
    """Return `value` as human-readable text.

    If `name` ends with `_ms`, the text is a time in ISO UTC. If it ends with `_bytes`, the text is a size in binary
    units. The text is printable, because many values are names that others chose.
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_ms"):
        return point_in_time(value)
    if name.endswith("_bytes"):
        return amount(value)
    if isinstance(value, (list, tuple)):
        return printable(", ".join(str(item) for item in value)) or "-"
    return printable(str(value))


def text_table(rows: Sequence[Mapping[str, Any]], footer: Mapping[str, Any] | None = None) -> str:
    """Return the rows (at least one) as a table with a header. Numbers are right-aligned. Values are never cut.

    All rows have the same keys, and so has the `footer`, which is the last line.
    """
    columns = []
    labels = labels_of(rows[0])
    for name in rows[0]:
        values = [row[name] for row in (*rows, *(() if footer is None else (footer,)))]
        cells = [labels[name], *(human(name, value) for value in values)]
        width = max(len(cell) for cell in cells)
        numeric = all(row[name] is None or type(row[name]) in (int, float) for row in rows) and not name.endswith("_ms")
        columns.append([cell.rjust(width) if numeric else cell.ljust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _beyond_calendar(at: int) -> str:
    return "after the year 9999" if at > 0 else "before the year 1"


def _iso(at_us: int) -> str | None:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    except OverflowError:
        return None
    timespec = "microseconds" if at_us % 1000 else "milliseconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
