"""Turns the rows of a source into the columns that the sink writes: key, value, timestamp, partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from sparklog.core.errors import InvalidInput, InvalidOption
from sparklog.spark.produce.delta_changes import CHANGE
from sparklog.spark.produce.formats.bad_rows import BAD, has_bad_rows
from sparklog.spark.produce.formats.json_rows import field_text, fields_object
from sparklog.spark.produce.formats.text_files import RAW
from sparklog.spark.write.row_expressions import column_name, columns_named, columns_read, expression, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

# Times with all their digits: Spark's own format drops everything below a millisecond.
_TO_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
_TIME_OF_DAY: Final = r"^\s*T?[0-9]{1,2}:"


class RowMapping(msgspec.Struct, frozen=True):
    """The mapping from a row to a record. Give at most one of each pair, such as `key` and `key_expr`.

    Key: one column as text (binary unchanged), several columns as a JSON object, or an expression; by default there is
    no key. Value: the whole row as a JSON object (for a JSON file, the object exactly as in the file), some of its
    columns, or an expression. In a JSON file, fields that `key` or `value_columns` name keep the digits of their
    numbers, but expressions see the types that Spark infers. Without a timestamp, the time of writing is used.
    """

    key: tuple[str, ...] = ()
    key_expr: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    timestamp_expr: str | None = None
    value_columns: tuple[str, ...] = ()
    value_expr: str | None = None


def check_mapping(mapping: RowMapping) -> None:
    """Raise InvalidOption if two options of a pair are given."""
    for columns, expr, both in (
        ("--key", "--key-expr", mapping.key and mapping.key_expr),
        ("--timestamp", "--timestamp-expr", mapping.timestamp and mapping.timestamp_expr),
        ("--value-columns", "--value-expr", mapping.value_columns and mapping.value_expr),
    ):
        if both:
            raise InvalidOption(f"wanted {columns} or {expr}, found both")


def written_columns(frame: DataFrame, mapping: RowMapping) -> dict[str, Column]:
    """Return the columns to write, by name: value, and key, timestamp and partition if the mapping has them.

    Raises InvalidOption, and InvalidInput for a map whose keys can't be names in a JSON object.
    """
    seen = visible(frame)
    is_json = RAW in frame.columns
    columns = {
        "key": _key(seen, mapping, is_json=is_json),
        "value": _value(seen, mapping, is_json=is_json),
        "timestamp": _timestamp(seen, mapping),
        "partition": _partition(seen, mapping),
    }
    for option, text in (
        ("--key-expr", mapping.key_expr),
        ("--timestamp-expr", mapping.timestamp_expr),
        ("--value-expr", mapping.value_expr),
    ):
        if text is not None:
            check_no_star(frame, option, text)
    return {name: column for name, column in columns.items() if column is not None}


def check_no_star(frame: DataFrame, option: str, text: str) -> None:
    """Raise InvalidOption if expression `text` has a *, which would stand for sparklog's columns BAD and RAW as well.

    Call it only for an expression that is valid over `visible(frame)`, which lacks these columns.
    """
    from pyspark.errors import PySparkException

    if not has_bad_rows(frame):
        return
    try:
        has_star = bool({BAD, RAW} & columns_read(frame, text))
    except PySparkException:  # for example concat(*), which is valid over texts but not with BAD
        has_star = True
    if has_star:
        raise InvalidOption(
            f"{option}: wanted columns by their names, found * in {text!r} (the value is the whole row if neither "
            "--value-expr nor --value-columns is given)"
        )


def visible(frame: DataFrame) -> DataFrame:
    """The frame without the columns that sparklog has added: BAD, RAW and CHANGE."""
    return frame.drop(BAD, RAW, CHANGE)


def _key(frame: DataFrame, mapping: RowMapping, *, is_json: bool) -> Column | None:
    if mapping.key_expr is not None:
        return _text(frame, expression(frame, "--key-expr", mapping.key_expr))
    if not mapping.key:
        return None
    names = columns_named(frame, "--key", mapping.key)
    if is_json:
        return _of_document(lambda text: field_text(text, names[0])) if len(names) == 1 else _fields(names)
    return _text(frame, quoted(names[0])) if len(names) == 1 else _json(frame, names)


def _value(frame: DataFrame, mapping: RowMapping, *, is_json: bool) -> Column:
    if mapping.value_expr is not None:
        return _text(frame, expression(frame, "--value-expr", mapping.value_expr))
    if mapping.value_columns:
        names = columns_named(frame, "--value-columns", mapping.value_columns)
        return _fields(names) if is_json else _json(frame, names)
    return quoted(RAW) if is_json else _json(frame, frame.columns)


def _timestamp(frame: DataFrame, mapping: RowMapping) -> Column | None:
    """The column of timestamps; None if the mapping names none.

    Times without a zone are in the session's zone, which is UTC here. Integers are milliseconds since the epoch. An
    empty text is null.
    """
    from pyspark.sql import functions as sql

    if mapping.timestamp is not None:
        option, column = "--timestamp", quoted(column_name(frame, "--timestamp", mapping.timestamp))
    elif mapping.timestamp_expr is not None:
        option, column = "--timestamp-expr", expression(frame, "--timestamp-expr", mapping.timestamp_expr)
    else:
        return None
    kind = _type(frame, column)
    if kind == "string":
        # Spark reads a time of day as a time today. The prefix makes it fail instead, with an error that shows why.
        dated = sql.when(column.rlike(_TIME_OF_DAY), sql.concat(sql.lit("no date: "), column)).otherwise(column)
        return sql.nullif(dated, sql.lit("")).cast("timestamp")
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return column.cast("timestamp")
    if kind in ("bigint", "int"):
        return sql.timestamp_millis(column)
    raise InvalidOption(
        f"{option}: wanted a timestamp, a date, its text, or an integer (milliseconds since the epoch), found {kind}"
    )


def _partition(frame: DataFrame, mapping: RowMapping) -> Column | None:
    from pyspark.sql import functions as sql

    if mapping.partition is None:
        return None
    column = quoted(column_name(frame, "--partition-column", mapping.partition))
    kind = _type(frame, column)
    if kind not in ("tinyint", "smallint", "int", "bigint", "string"):
        raise InvalidOption(f"--partition-column: wanted integers, found {mapping.partition!r} of type {kind}")
    return (sql.nullif(column, sql.lit("")) if kind == "string" else column).cast("int")


def _text(frame: DataFrame, column: Column) -> Column:
    """Return `column` as text: strings and bytes unchanged, structs, arrays and maps as JSON, others cast to string."""
    from pyspark.sql import functions as sql

    kind = _type(frame, column)
    if kind in ("string", "binary"):
        return column
    if kind.startswith(("struct", "array", "map", "variant")):
        _check_keys(frame.select(column).schema)
        return sql.to_json(column, _TO_JSON)
    return column.cast("string")


def _json(frame: DataFrame, names: Sequence[str]) -> Column:
    """Return a column with a JSON object for each row. Its fields are the columns `names`, null ones included."""
    from pyspark.sql import functions as sql

    column = sql.struct(*map(quoted, names))
    _check_keys(frame.select(*map(quoted, names)).schema)
    return sql.to_json(column, _TO_JSON)


def _check_keys(kind: DataType) -> None:
    """Raise InvalidInput for a map whose keys Spark would not write as text: a date would become a day number."""
    from pyspark.sql import types

    if isinstance(kind, types.MapType):
        if not isinstance(kind.keyType, (types.StringType, types.NumericType, types.BooleanType)):
            raise InvalidInput(
                f"wanted maps with keys that are text, numbers or booleans, found {kind.simpleString()}: its keys "
                "can't be names of a JSON object. Name other columns in --value-columns, or give --value-expr"
            )
        _check_keys(kind.valueType)
    elif isinstance(kind, types.ArrayType):
        _check_keys(kind.elementType)
    elif isinstance(kind, types.StructType):
        for field in kind.fields:
            _check_keys(field.dataType)


def _fields(names: Sequence[str]) -> Column:
    """Return a column with a JSON object: the fields `names` of each row's JSON object, in this order.

    Use it for JSON files, where the type of a field may differ from row to row; `_json` needs one type per column.
    """
    return _of_document(lambda text: fields_object(text, names))


def _of_document(function: Callable[[str], str | None]) -> Column:
    """Return a column with the result of `function` for each row, called with the row's JSON text from the file."""
    from sparklog.spark.spark_versions import arrow_function

    def texts(documents: pa.Array) -> pa.Array:
        return pa.array(
            [None if document is None else function(document) for document in documents.to_pylist()], pa.string()
        )

    return arrow_function(texts, "string")(quoted(RAW))


def _type(frame: DataFrame, column: Column) -> str:
    return frame.select(column).schema.fields[0].dataType.simpleString()
