"""Numbers and times as the pages show them."""

from __future__ import annotations

from urllib.parse import quote

from sparklog.core.describe.readable import amount, human, point_in_time

_STEPS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def number(value: float | None) -> str:
    """Format a number: 1,234,567; 12.3; - for None."""
    if value is None:
        return "-"
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if value >= 0.1 else f"{value:.2g}"


def size(size_bytes: int | None) -> str:
    """Format a size: 12.3 MiB; - for None."""
    return "-" if size_bytes is None else amount(size_bytes)


def cell(value: object, name: str) -> str:
    """Format a value of a table by the unit in its name, as the command line does, but a number with commas."""
    has_unit = name.endswith(("_ms", "_bytes"))
    return number(value) if isinstance(value, int) and not has_unit else human(name, value)


def ago(at_ms: int, now_ms: int) -> str:
    """Format a time relative to now: 5 min ago; now; in 3 h."""
    passed_ms = now_ms - at_ms
    length = span(abs(passed_ms))
    if length == "0 s":
        return "now"
    return f"{length} ago" if passed_ms > 0 else f"in {length}"


def span(length_ms: int) -> str:
    """Format a length of time in its largest unit, rounded down: 5 min."""
    for unit_ms, unit in _STEPS:
        if length_ms >= unit_ms:
            return f"{length_ms // unit_ms} {unit}"
    return "0 s"


def path_part(name: str) -> str:
    """Quote a name for one segment of an address: a browser would resolve the slashes and dots of a/../b."""
    return quote(name, safe="")


def exact_time(at_ms: int) -> str:
    """Format a time: 2026-01-31T23:59:59.000Z."""
    return point_in_time(at_ms)
