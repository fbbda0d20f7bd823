"""A config key: one declaration serves parsing, checks and docs."""

from __future__ import annotations

import difflib
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from sparklog.core.errors import InvalidConfig

ConfigValue = int | float | bool | str | tuple[str, ...]

MOST_NAME_CHARACTERS: Final = 300  # of a name that is compared with the known ones
_MOST_COMPARED: Final = 100  # of the known names: there may be thousands of topics
LONG_MAX: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")  # far beyond 64 bits; `int` itself refuses thousands of digits
_BYTES: Final = re.compile(r"([0-9]{1,40})\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_BYTES_FACTOR: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


class ValueType(StrEnum):
    """The type of a config value, and the form in which a value of this type is written.

    If the value is a time or a size, the name of its key ends with the unit, as in `retention.ms`.
    """

    INT = "int"  # 32 bit, signed
    LONG = "long"  # 64 bit, signed
    DOUBLE = "double"
    BOOL = "boolean"
    STRING = "string"
    LIST = "list"  # comma-separated; no duplicates
    BYTES = "bytes"  # a number of bytes, or one with a unit of Spark's: 512k, 128m, 1g (powers of 1,024)


class ConfigKey(msgspec.Struct, frozen=True):
    """A key with its type, default, legal values and doc.

    `minimum` and `maximum` are inclusive. `choices` are the legal values of a string, or of each element of a list.
    They are compared without regard to case, and stored as declared. A key with `effect=False` is accepted, checked and
    stored, but changes nothing: its doc gives the reason.
    """

    name: str
    type: ValueType
    default: ConfigValue | None
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    effect: bool = True

    def parse(self, raw: object) -> ConfigValue:
        """The typed value of a user's input (str, int, float or bool). Raises `InvalidConfig`."""
        value = self.read(raw)
        if value is None:
            raise InvalidConfig(f"{self.name}: wanted {self.legal()}, found {shown(raw)}")
        return value

    def canonical(self, raw: object) -> str:
        """The text in which the value is stored; parsing it gives the same value. Raises `InvalidConfig`."""
        return text_of(self.parse(raw))

    def read(self, raw: object) -> ConfigValue | None:
        """The typed value, or None if `raw` is not legal."""
        value = _READERS[self.type](raw)
        if value is None:
            return None
        if isinstance(value, str):
            return self._chosen(value)
        if isinstance(value, tuple):
            chosen = tuple(self._chosen(element) for element in value)
            known = tuple(element for element in chosen if element is not None)
            return known if known and len(known) == len(value) == len(set(known)) else None
        if isinstance(value, bool):
            return value
        if self.minimum is not None and value < self.minimum:
            return None
        if self.maximum is not None and value > self.maximum:
            return None
        return value

    def legal(self) -> str:
        """Return the legal values in words, to follow "wanted" in an error message."""
        if self.choices:
            named = ", ".join(self.choices)
            return f"one or more of {named}, separated by commas" if self.type is ValueType.LIST else f"one of {named}"
        words = _WORDS[self.type]
        if self.minimum is not None and self.minimum == self.maximum:
            words = f"{self.minimum:g}"
        elif self.minimum is not None and self.maximum is not None:
            words += f" from {self.minimum:g} to {self.maximum:g}"
        elif self.minimum is not None:
            words += f" >= {self.minimum:g}"
        elif self.maximum is not None:
            words += f" <= {self.maximum:g}"
        unit = _unit(self.name) if self.type in (ValueType.INT, ValueType.LONG) else None
        return f"{words} ({unit})" if unit else words

    def _chosen(self, value: str) -> str | None:
        if not self.choices:
            return value
        folded = value.lower()
        return next((choice for choice in self.choices if choice.lower() == folded), None)


def text_of(value: ConfigValue) -> str:
    """The canonical text of a typed value, as Kafka's tools write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that was most likely meant by `name`, ignoring case; None if none is close.

    `likeness`, from 0 to 1, is the similarity required (`difflib`). None, too, if `name` has more than
    MOST_NAME_CHARACTERS. If there are many known names, `name` is compared only with its neighbours in the alphabet.
    """
    if len(name) > MOST_NAME_CHARACTERS:  # the comparison takes time that grows with both lengths
        return None
    by_folded = {candidate.lower(): candidate for candidate in known}
    folded = name.lower()
    longest = len(folded) / likeness * (2 - likeness)  # the longest and the shortest name that can be so similar
    shortest = len(folded) * likeness / (2 - likeness)
    candidates = [candidate for candidate in by_folded if shortest <= len(candidate) <= longest]
    if len(candidates) > _MOST_COMPARED:
        candidates.sort()
        first = max(bisect_left(candidates, folded) - _MOST_COMPARED // 2, 0)
        candidates = candidates[first : first + _MOST_COMPARED]
    matches = difflib.get_close_matches(folded, candidates, n=1, cutoff=likeness)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error message, `; did you mean X?`, or "" if no known name is close to `name`."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def shown(raw: object) -> str:
    """The `repr` of a value, which shows its type, cut off after 117 characters; for error messages."""
    text = repr(raw[:MOST_NAME_CHARACTERS] if isinstance(raw, str) else raw)
    return text if len(text) <= 120 else f"{text[:117]}…"


def read_integer(raw: object, bits: int) -> int | None:
    """Convert a number or a text of digits to an int; None if it is not an integer that fits in `bits` bits, signed."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, float):
        value = int(raw) if raw.is_integer() else None
    elif isinstance(raw, int):
        value = raw
    elif isinstance(raw, str) and _INTEGER.fullmatch(raw.strip()):
        value = int(raw)
    else:
        value = None
    limit = 1 << (bits - 1)
    return value if value is not None and -limit <= value < limit else None


def _read_int(raw: object) -> int | None:
    return read_integer(raw, 32)


def _read_long(raw: object) -> int | None:
    return read_integer(raw, 64)


def _read_double(raw: object) -> float | None:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _read_bool(raw: object) -> bool | None:
    if isinstance(raw, bool):
        return raw
    return {"true": True, "false": False}.get(raw.strip().lower()) if isinstance(raw, str) else None


def _read_string(raw: object) -> str | None:
    return raw.strip() if isinstance(raw, str) else None


def _read_list(raw: object) -> tuple[str, ...] | None:
    if isinstance(raw, (list, tuple)) and all(isinstance(element, str) for element in raw):
        return tuple(element.strip() for element in raw)
    return tuple(element.strip() for element in raw.split(",")) if isinstance(raw, str) else None


def _read_bytes(raw: object) -> int | None:
    if isinstance(raw, str):
        match = _BYTES.fullmatch(raw.strip())
        if match is None:
            return None
        raw = int(match[1]) << _BYTES_FACTOR[match[2].lower()]
    return read_integer(raw, 64)


def _unit(name: str) -> str | None:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), None)


_READERS: Final = {
    ValueType.INT: _read_int,
    ValueType.LONG: _read_long,
    ValueType.DOUBLE: _read_double,
    ValueType.BOOL: _read_bool,
    ValueType.STRING: _read_string,
    ValueType.LIST: _read_list,
    ValueType.BYTES: _read_bytes,
}
_WORDS: Final = {
    ValueType.INT: "an integer",
    ValueType.LONG: "an integer",
    ValueType.DOUBLE: "a number",
    ValueType.BOOL: "true or false",
    ValueType.STRING: "a string",
    ValueType.LIST: "a list separated by commas",
    ValueType.BYTES: "bytes (a number, or like 512k, 128m, 1g)",
}
_UNITS: Final = {".ms": "milliseconds", "Ms": "milliseconds", ".bytes": "bytes", ".minutes": "minutes"}


S = TypeVar("S", bound=msgspec.Struct)


def typed(values: Mapping[str, ConfigValue | None], struct: type[S], **given: object) -> S:
    """Return an instance of `struct`. The value of key `a.b` in `values` becomes its field `a_b`.

    `given`: more fields, by name. They take precedence over those from `values`.
    """
    return msgspec.convert({name.replace(".", "_"): value for name, value in values.items()} | given, struct)
