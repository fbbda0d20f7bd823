"""The columns of raw records: as they are stored, as they are read, and what a writer may hand over.

Stored and read schemas hold no dictionary, large or view types, and all fields are nullable: Spark compares
schemas exactly. The read schema is that of Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.types as pat

from sparklog.core.config_key import did_you_mean
from sparklog.core.errors import InvalidInput

OBJECT_FORMAT: Final = b"1"  # of the layout of data objects; another layout gets another number
OBJECT_FORMAT_KEY: Final = b"sparklog.format"  # in the metadata of the Arrow schema of each object

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

RAW_SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS), ("timestamp", TIMESTAMP)],
    metadata={OBJECT_FORMAT_KEY: OBJECT_FORMAT},
)

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
READ_COLUMNS: Final = tuple(name for name in READ_SCHEMA.names if name != "headers")  # Spark's default

WRITTEN_COLUMNS: Final = ("topic", "partition", "key", "value", "headers", "timestamp")
IGNORED_COLUMNS: Final = ("offset", "timestampType")  # so that what was read can be written again

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


def read_schema(columns: Iterable[str]) -> pa.Schema:
    """The read schema restricted to `columns`, in their order. Raises InvalidInput for an unknown or repeated one."""
    chosen = list(columns)
    for name in chosen:
        if name not in READ_SCHEMA.names:
            raise InvalidInput(
                f"column {name!r}: wanted one of {', '.join(READ_SCHEMA.names)}{did_you_mean(name, READ_SCHEMA.names)}"
            )
    if len(set(chosen)) != len(chosen):
        raise InvalidInput(f"columns: wanted each once, found {', '.join(chosen)}")
    return pa.schema([READ_SCHEMA.field(name) for name in chosen])


def canonical(rows: Rows) -> Rows:
    """Written rows with the columns key, value, headers, timestamp of `RAW_SCHEMA` (null where absent).

    `topic` (string) and `partition` (int32) follow if they were given. Columns that already have the right type
    are taken over without a copy. Raises InvalidInput that names the column, what was wanted and what was found.
    """
    names = rows.schema.names
    _check_names(names)
    columns, fields = [], []
    for field in RAW_SCHEMA:
        column = _converted(rows, field.name) if field.name in names else pa.nulls(rows.num_rows, field.type)
        columns.append(column)
        fields.append(field)
    for name in ("topic", "partition"):
        if name in names:
            columns.append(_converted(rows, name))
            fields.append(READ_SCHEMA.field(name))
    schema = pa.schema(fields)
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.Table.from_arrays(columns, schema=schema)


def _check_names(names: list[str]) -> None:
    for name in names:
        if name not in WRITTEN_COLUMNS and name not in IGNORED_COLUMNS:
            raise InvalidInput(
                f"column {name!r} can't be written: a log has {', '.join(WRITTEN_COLUMNS)}"
                f"{did_you_mean(name, WRITTEN_COLUMNS)}"
            )
        if names.count(name) > 1:
            raise InvalidInput(f"column {name!r} is there twice")
    if "value" not in names:
        raise InvalidInput(f"column 'value' (string or binary) is missing, found {', '.join(names) or 'no columns'}")


def _is_text(found: pa.DataType) -> bool:
    if pat.is_dictionary(found):
        return _is_text(found.value_type)
    return bool(pat.is_string(found) or pat.is_large_string(found) or pat.is_string_view(found) or pat.is_null(found))


def _is_bytes(found: pa.DataType) -> bool:
    if pat.is_dictionary(found):
        return _is_bytes(found.value_type)
    return bool(
        _is_text(found)
        or pat.is_binary(found)
        or pat.is_large_binary(found)
        or pat.is_binary_view(found)
        or pat.is_fixed_size_binary(found)
    )


def _is_headers(found: pa.DataType) -> bool:
    if pat.is_null(found):
        return True
    # Not list views: pyarrow 26 casts them to lists whose buffer of offsets is one too short.
    lists = (pat.is_list, pat.is_large_list, pat.is_fixed_size_list)
    if not any(test(found) for test in lists) or not pat.is_struct(found.value_type):
        return False
    pair = {field.name: field.type for field in found.value_type}
    return (
        set(pair) == {"key", "value"}
        and found.value_type.num_fields == 2
        and _is_text(pair["key"])
        and _is_bytes(pair["value"])
    )


def _is_timestamp(found: pa.DataType) -> bool:
    return pat.is_null(found) or (pat.is_timestamp(found) and found.tz is not None)


def _is_partition(found: pa.DataType) -> bool:
    return bool(pat.is_integer(found) or pat.is_null(found))


# For each column that is stored or routes: does a type fit, and what error messages call the types that do.
_ACCEPTED: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "list<struct<key: string, value: binary>>"),
    "timestamp": (_is_timestamp, "a timestamp with a time zone"),
    "topic": (_is_text, "string"),
    "partition": (_is_partition, "int"),
}


def _converted(rows: pa.RecordBatch | pa.Table, name: str) -> Any:
    column = rows.column(name)
    wanted = (RAW_SCHEMA if name in RAW_SCHEMA.names else READ_SCHEMA).field(name).type
    found = column.type
    if found == wanted:
        return column
    fits, legal = _ACCEPTED[name]
    if not fits(found):
        zoneless = pat.is_timestamp(found) and name == "timestamp"
        hint = " (TimestampNTZ is refused: give it a zone)" if zoneless else ""
        raise InvalidInput(f"column {name!r}: wanted {legal}, found {found}{hint}")
    try:
        # Nanoseconds lose their last three digits; no other unit may lose anything.
        return column.cast(wanted, safe=not (pat.is_timestamp(found) and found.unit == "ns"))
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"column {name!r}: values of type {found} don't fit {wanted}: {error}") from error
