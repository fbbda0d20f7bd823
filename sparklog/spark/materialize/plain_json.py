"""Recognizes JSON texts that Spark reads exactly: every token is one that the type of its field takes unchanged.

The pattern is stricter than the table in docs/maintenance.md. A text that it doesn't match may still be good.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# Java's syntax. A repeated group is possessive, or a long text would need a deep stack. A repeated class is greedy,
# which is faster, and can't be cut short if the next character is of another class.
NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+"
WHOLE: Final = (  # characters and escapes, but no half of a surrogate pair
    r'[^"\\]*(?:\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})[^"\\]*)*+'
)
_STRING: Final = f'"{WHOLE}"'
# Spark refuses days and hours that don't exist.
_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = rf"{_DATE}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?+"
_INTEGERS: Final = {"tinyint": 2, "smallint": 4, "int": 9, "bigint": 18}  # digits that always fit
_TOKENS: Final = {
    "boolean": "true|false",
    "string": _STRING,
    "date": f'"{_DATE}"',
    "timestamp": f'"{_TIME}(?:Z|[+-][0-9]{{2}}:[0-9]{{2}})?+"',
    "timestamp_ntz": f'"{_TIME}"',
    # 15 digits, which every double keeps, and a power of ten far from its limits. Spark reads -0 as 0.0, but -0.0 well.
    "double": r"(?!-0(?![.eE]))"
    r"(?=-?+(?:[0-9]\.?+){1,15}+(?![0-9.]))-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]{1,2})?+",
}
_DEPTH: Final = 3  # of values that are not wanted


def plain_object(schema: StructType) -> str | None:
    """Return the pattern of plain texts of one object, or None if the schema has types that have no plain tokens."""
    pattern = _object(schema)
    return None if pattern is None else rf"\A\s*{pattern}\s*\z"


def _value(type_: DataType) -> str | None:
    from pyspark.sql.types import ArrayType, DecimalType, StructType

    if isinstance(type_, StructType):
        return _object(type_)
    if isinstance(type_, ArrayType):
        item = _value(type_.elementType)
        return None if item is None else _list_of(r"\[", f"(?:null|{item})", r"\]")
    if isinstance(type_, DecimalType):
        before = type_.precision - type_.scale
        whole = rf"(?:0|[1-9][0-9]{{0,{before - 1}}}+)" if before else "0"
        return rf"-?{whole}(?:\.[0-9]{{1,{type_.scale}}}+)?+" if type_.scale else f"-?{whole}"
    digits = _INTEGERS.get(type_.simpleString())
    if digits is not None:
        return rf"-?(?:0|[1-9][0-9]{{0,{digits - 1}}}+)"
    return _TOKENS.get(type_.simpleString())


def _object(schema: StructType) -> str | None:
    fields = []
    for field in schema:
        value = _value(field.dataType)
        if value is None:
            return None
        fields.append(rf'{re.escape(field.name)}"\s*:\s*(?:null|{value})')
    names = "|".join(re.escape(name) for name in schema.names)
    fields.append(rf'(?!(?:{names})")[^"\\]*+"\s*:\s*{_unwanted(_DEPTH)}')
    return _list_of(r"\{", f'"(?:{"|".join(fields)})', r"\}")


def _list_of(begin: str, item: str, end: str) -> str:
    return rf"{begin}\s*(?:{item}\s*(?:,\s*(?!{end})|(?={end})))*+{end}"


def _unwanted(depth: int) -> str:
    """The pattern of any value that is nested no deeper than this."""
    scalar = f"{_STRING}|{NUMBER}|true|false|null"
    if depth == 0:
        return f"(?:{scalar})"
    value = _unwanted(depth - 1)
    members, items = _list_of(r"\{", rf"{_STRING}\s*:\s*{value}", r"\}"), _list_of(r"\[", value, r"\]")
    return f"(?:{scalar}|{members}|{items})"
