"""From the rows of a source to the columns that the sink writes: key, value, timestamp, partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sparklog.core.errors import InvalidOption
from sparklog.spark.row_expressions import column_name, columns_named, expression, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class RowMapping(msgspec.Struct, frozen=True):
    """Which part of a row becomes what. Of each pair (`key`, `key_expr`), … at most one is given.

    Key: one column as text (binary as it is), several as a JSON object, none: no key. Value: the whole row as a JSON
    object, or some columns of it, or an expression. Without a timestamp the time of writing is taken.
    """

    key: tuple[str, ...] = ()
    key_expr: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    timestamp_expr: str | None = None
    value_columns: tuple[str, ...] = ()
    value_expr: str | None = None


def check_mapping(mapping: RowMapping) -> None:
    """Raise InvalidOption if two options say the same thing."""
    for one, other, both in (
        ("--key", "--key-expr", mapping.key and mapping.key_expr),
        ("--timestamp", "--timestamp-expr", mapping.timestamp and mapping.timestamp_expr),
        ("--value-columns", "--value-expr", mapping.value_columns and mapping.value_expr),
    ):
        if both:
            raise InvalidOption(f"wanted {one} or {other}, found both")


def written_rows(frame: DataFrame, mapping: RowMapping) -> DataFrame:
    """The rows as the sink takes them: [key], value, [timestamp], [partition]. Raises InvalidOption."""
    columns = {
        "key": _key(frame, mapping),
        "value": _value(frame, mapping),
        "timestamp": _timestamp(frame, mapping),
        "partition": _partition(frame, mapping),
    }
    return frame.select(*(column.alias(name) for name, column in columns.items() if column is not None))


def _key(frame: DataFrame, mapping: RowMapping) -> Column | None:
    if mapping.key_expr is not None:
        return _text(frame, expression(frame, "--key-expr", mapping.key_expr))
    if not mapping.key:
        return None
    columns = columns_named(frame, "--key", mapping.key)
    return _text(frame, columns[0]) if len(columns) == 1 else _json(columns)


def _value(frame: DataFrame, mapping: RowMapping) -> Column:
    if mapping.value_expr is not None:
        return _text(frame, expression(frame, "--value-expr", mapping.value_expr))
    if mapping.value_columns:
        return _json(columns_named(frame, "--value-columns", mapping.value_columns))
    return _json([quoted(each) for each in frame.columns])


def _timestamp(frame: DataFrame, mapping: RowMapping) -> Column | None:
    """Times without a zone are UTC (the session's zone), integers are milliseconds since the epoch."""
    from pyspark.sql import functions as sql

    if mapping.timestamp is not None:
        option, column = "--timestamp", quoted(column_name(frame, "--timestamp", mapping.timestamp))
    elif mapping.timestamp_expr is not None:
        option, column = "--timestamp-expr", expression(frame, "--timestamp-expr", mapping.timestamp_expr)
    else:
        return None
    kind = _type(frame, column)
    if kind in ("timestamp", "timestamp_ntz", "date", "string"):
        return column.cast("timestamp")
    if kind in ("bigint", "int"):
        return sql.timestamp_millis(column)
    raise InvalidOption(
        f"{option}: wanted a timestamp, a date, its text, or an integer (milliseconds since the epoch), found {kind}"
    )


def _partition(frame: DataFrame, mapping: RowMapping) -> Column | None:
    if mapping.partition is None:
        return None
    column = quoted(column_name(frame, "--partition-column", mapping.partition))
    kind = _type(frame, column)
    if kind not in ("tinyint", "smallint", "int", "bigint", "string"):
        raise InvalidOption(f"--partition-column: wanted integers, found {mapping.partition!r} of type {kind}")
    return column.cast("int")


def _text(frame: DataFrame, column: Column) -> Column:
    """Strings and bytes as they are, structures as JSON, all else as its text."""
    from pyspark.sql import functions as sql

    kind = _type(frame, column)
    if kind in ("string", "binary"):
        return column
    if kind.startswith(("struct", "array", "map", "variant")):
        return sql.to_json(column, {"ignoreNullFields": "false"})
    return column.cast("string")


def _json(columns: list[Column]) -> Column:
    """A JSON object with every column in it, also those that are null."""
    from pyspark.sql import functions as sql

    return sql.to_json(sql.struct(*columns), {"ignoreNullFields": "false"})


def _type(frame: DataFrame, column: Column) -> str:
    return frame.select(column).schema.fields[0].dataType.simpleString()
