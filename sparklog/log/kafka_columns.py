"""Raw records in the columns that Kafka's users know: as read, and as accepted from a writer.

The read schema is that of Spark's Kafka source, and its types are as those in `stored_schema`, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.types as pat

from sparklog.core.config.key import did_you_mean, nearest
from sparklog.core.errors import InvalidInput
from sparklog.log.stored_schema import HEADERS, PARTITION, RAW, TIMESTAMP, TOPIC

READ_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
DEFAULT_COLUMNS: Final = tuple(name for name in READ_SCHEMA.names if name != "headers")  # as Spark's connector

WRITTEN_COLUMNS: Final = ("topic", "partition", "key", "value", "headers", "timestamp")
IGNORED_COLUMNS: Final = ("offset", "timestampType")  # so that what was read can be written again
_LIKENESS: Final = 0.8  # at least, of a misspelt column; rows may well have columns like action, position or time

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def read_schema(columns: Iterable[str]) -> pa.Schema:
    """Return the read schema with only `columns`, in their order. Raises InvalidInput for unknown or repeated names."""
    chosen = list(columns)
    for name in chosen:
        if name not in READ_SCHEMA.names:
            names = READ_SCHEMA.names
            raise InvalidInput(f"column {name!r}: wanted one of {', '.join(names)}{did_you_mean(str(name), names)}")
    if len(set(chosen)) != len(chosen):
        raise InvalidInput(f"columns: wanted each once, found {', '.join(chosen)}")
    return pa.schema([READ_SCHEMA.field(name) for name in chosen])


def canonical(rows: Rows) -> Rows:
    """Return the rows with the columns key, value, headers and timestamp, as in `RAW`. Absent ones become nulls.

    `TOPIC` (string) and `PARTITION` (int32) follow if the rows have such columns. Others are left out.
    Columns of the right type are not copied. Raises InvalidInput, which names the column, if `value` is missing, or if
    a column is misspelt, is there twice, has a wrong type, or has values that don't fit its type.
    """
    names = rows.schema.names
    _check_names(names)
    columns, fields = [], []
    for field in RAW.arrow:
        column = _converted(rows, field.name) if field.name in names else pa.nulls(rows.num_rows, field.type)
        columns.append(column)
        fields.append(field)
    for name, routing in (("topic", TOPIC), ("partition", PARTITION)):
        if name in names:
            columns.append(_converted(rows, name))
            fields.append(READ_SCHEMA.field(name).with_name(routing))
    schema = pa.schema(fields)
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.Table.from_arrays(columns, schema=schema)


def columns_left_out(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of `names` that a write leaves out because a log has no such columns, as in Spark's Kafka connector.

    `offset` and `timestampType` are left out by a write too, but not returned: rows that were read have them. Raises
    InvalidInput if a name is most likely a misspelt column of the log.
    """
    return _left_out(tuple(names))


def left_out_warning(names: Sequence[str]) -> str | None:
    """Return a line that names the columns in `columns_left_out(names)`, or None if there are none.

    Raises what `columns_left_out` raises.
    """
    left_out = columns_left_out(names)
    if not left_out:
        return None
    return f"columns that are not written: {', '.join(left_out)} (a log has {', '.join(WRITTEN_COLUMNS)})"


@lru_cache(maxsize=64)  # called for each batch; comparing many names takes longer than writing a small batch
def _left_out(names: tuple[str, ...]) -> tuple[str, ...]:
    others = tuple(dict.fromkeys(name for name in names if name not in (*WRITTEN_COLUMNS, *IGNORED_COLUMNS)))
    for name in others:
        meant = _misspelt(name)
        if meant is not None:
            raise InvalidInput(
                f"column {name!r} can't be written: a log has {', '.join(WRITTEN_COLUMNS)}; did you mean {meant}? "
                "Rename the column, or drop it"
            )
    return others


def _misspelt(name: str) -> str | None:
    """Return the column of a log that `name` most likely means, or None.

    It has the same letters in another order, or nearly the same letters.
    """
    letters = sorted(name.lower())
    anagram = next((column for column in WRITTEN_COLUMNS if sorted(column) == letters), None)
    return anagram or nearest(name, WRITTEN_COLUMNS, _LIKENESS)


def _check_names(names: list[str]) -> None:
    columns_left_out(names)
    for name in WRITTEN_COLUMNS:
        if names.count(name) > 1:
            raise InvalidInput(f"column {name!r} is there twice")
    if "value" not in names:
        raise InvalidInput(f"column 'value' (string or binary) is missing, found {', '.join(names) or 'no columns'}")


def _is_text(kind: pa.DataType) -> bool:
    if pat.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pat.is_string(kind) or pat.is_large_string(kind) or pat.is_string_view(kind) or pat.is_null(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    if pat.is_dictionary(kind):
        return _is_bytes(kind.value_type)
    return bool(
        _is_text(kind)
        or pat.is_binary(kind)
        or pat.is_large_binary(kind)
        or pat.is_binary_view(kind)
        or pat.is_fixed_size_binary(kind)
    )


def _is_headers(kind: pa.DataType) -> bool:
    if pat.is_null(kind):
        return True
    # Not list views: pyarrow 26 casts them to lists whose offsets buffer is one too short.
    lists = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list)
    if not any(test(kind) for test in lists) or not pat.is_struct(kind.value_type):
        return False
    pair = {field.name: field.type for field in kind.value_type}
    return (
        set(pair) == {"key", "value"}
        and kind.value_type.num_fields == 2
        and _is_text(pair["key"])
        and _is_bytes(pair["value"])
    )


def _is_timestamp(kind: pa.DataType) -> bool:
    return pat.is_null(kind) or (pat.is_timestamp(kind) and kind.tz is not None)


def _is_partition(kind: pa.DataType) -> bool:
    return bool(pat.is_integer(kind) or pat.is_null(kind))


# For each stored or routing column: the test of a type, and the name of the legal types in error messages.
_ACCEPTED: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "list<struct<key: string, value: binary>>"),
    "timestamp": (_is_timestamp, "a timestamp with a time zone"),
    "topic": (_is_text, "string"),
    "partition": (_is_partition, "int"),
}


_HINTS: Final = {
    "key": "; cast it",
    "value": "; cast it, or make text of it with to_json",
    "timestamp": "; cast it, or drop it: a record without one gets the task's clock",
}


def _converted(rows: pa.RecordBatch | pa.Table, name: str) -> Any:
    column = rows.column(name)
    wanted = READ_SCHEMA.field(name).type
    actual = column.type
    if actual == wanted:
        return column
    fits, legal = _ACCEPTED[name]
    if not fits(actual):
        zoneless = pat.is_timestamp(actual) and name == "timestamp"
        hint = " (TimestampNTZ is refused: give it a zone)" if zoneless else _HINTS.get(name, "")
        raise InvalidInput(f"column {name!r}: wanted {legal}, found {actual}{hint}")
    try:
        # Nanoseconds lose their last three digits; other units must not lose anything.
        return column.cast(wanted, safe=not (pat.is_timestamp(actual) and actual.unit == "ns"))
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"column {name!r}: values of type {actual} don't fit {wanted}: {error}") from error
