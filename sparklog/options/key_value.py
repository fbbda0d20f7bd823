"""KEY=VALUE arguments of a command line or a job, as a map."""

from __future__ import annotations

from collections.abc import Sequence

from sparklog.core.errors import InvalidOption


def key_values(given: Sequence[str], option: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """KEY=VALUE arguments as a map. Raises InvalidOption for another form, or a key that is given twice."""
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{option}: wanted {form}, found {each!r}")
        if key in found:
            raise InvalidOption(f"{option}: {key} is given twice")
        found[key] = value
    return found
