"""Splits JSON (RFC 8259) into its fields or elements, as texts, without changing a character.

Decoders refuse some valid JSON: half of a surrogate pair (`"\\ud83d"`) is not valid in UTF-8, and 1e400 is too large
for a double. Here both are accepted, because numbers stay text and no string is encoded. Call these functions after a
fast decoder has refused a text.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_KINDS: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


class _NotJson(ValueError):
    """NaN, Infinity or -Infinity, which Python's reader would accept."""


def _refuse(name: str) -> NoReturn:
    raise _NotJson(name)


# Numbers stay text, so they may have any size.
_READER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


def json_fault(text: str, wanted: str, kind: type[dict[str, Any]] | type[list[Any]] | None = None) -> str | None:
    """Return the reason why `text` is not JSON, or not a value of this `kind`: "wanted …, found …". None if it is one.

    `wanted`: the words for what it should be. Raises RecursionError if it is nested too deeply.
    """
    try:
        value = _READER.decode(text)
    except _NotJson as error:
        return f"wanted {wanted}, found {error}, which is not JSON"
    except json.JSONDecodeError as error:
        if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
            return f"wanted {wanted}, found a text that ends too early"
        what = "more text after it" if error.msg.startswith("Extra data") else "text that is not JSON"
        return f"wanted {wanted}, found {what}, from character {error.pos + 1:,} on"
    if kind is None or isinstance(value, kind):
        return None
    actual = "a number" if isinstance(value, str) and '"' not in text else _KINDS[type(value)]
    return f"wanted {wanted}, found {actual}"


def fields_of(text: str) -> dict[str, str]:
    """Return the fields of a JSON object, each as it is in `text`. If a name occurs twice, its last value counts.

    A name may have half of a surrogate pair, which can't be encoded. Call it only for a valid object.
    """
    fields: dict[str, str] = {}
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] != "}":
        name, at = _value(text, at)
        value_at = _after_space(text, _after_space(text, at) + 1)
        _, at = _value(text, value_at)
        fields[name] = text[value_at:at]
        at = _after_comma(text, at)
    return fields


def elements_of(text: str) -> list[str]:
    """Return the elements of a JSON array, each as it is in `text`. Call it only for a valid array."""
    elements: list[str] = []
    at = _after_space(text, _after_space(text, 0) + 1)
    while text[at] != "]":
        _, end = _value(text, at)
        elements.append(text[at:end])
        at = _after_comma(text, end)
    return elements


def _value(text: str, at: int) -> tuple[Any, int]:
    return _READER.raw_decode(text, at)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _after_comma(text: str, at: int) -> int:
    at = _after_space(text, at)
    return _after_space(text, at + 1) if text[at] == "," else at
