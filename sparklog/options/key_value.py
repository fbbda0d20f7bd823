"""KEY=VALUE arguments of a command line or a job."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.errors import InvalidOption


def key_values(given: Sequence[str], option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """KEY=VALUE arguments as a map. Raises InvalidOption for any other form, or a key that is given twice."""
    values: dict[str, str] = {}
    for argument in given:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{option}: wanted {form}, found {argument!r}")
        if key in values:
            raise InvalidOption(f"{option}: {key} is given twice")
        values[key] = value
    return values
