"""Turns the rows that users see (msgspec structs) into columns of Spark: their schema, and their values as Arrow.

A field of a row is a column of the same name. A time loses its unit: `created_ms` is the column `created`, or
`created_at` if there is a field `created` too. A row inside a row becomes its first field, which names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import UnionType
from typing import Any, Final, NamedTuple, NewType, Union, get_args, get_origin

import msgspec
import pyarrow as pa
from msgspec import structs
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparklog.core.types import Int32, LeaderEpoch, PartitionIndex
from sparklog.spark.spark_versions import arrow_schema

_TYPES: Final[dict[object, DataType]] = {
    bool: BooleanType(),
    int: LongType(),
    str: StringType(),
    Int32: IntegerType(),
    LeaderEpoch: IntegerType(),
    PartitionIndex: IntegerType(),
}
_TIMES: Final = {"_ms": 1000, "_us": 1}  # Spark counts microseconds

Row = tuple[Any, ...]
Rows = Sequence[type[msgspec.Struct]]


class Column(NamedTuple):
    """A column of Spark. `value` turns the value of the field into what Arrow takes."""

    name: str
    type: DataType
    value: Callable[[Any], Any]


def row_schema(rows: Rows) -> StructType:
    """The columns of a table whose rows have the fields of all of these structs, all nullable."""
    return StructType([StructField(column.name, column.type) for column in _columns(rows)])


def row_batch(rows: Rows, values: Iterable[Row]) -> pa.RecordBatch:
    """Return `values`, tuples of the fields of these structs, as one batch, exactly as Spark expects it."""
    schema, columns = arrow_schema(row_schema(rows)), _columns(rows)
    cells = list(zip(*values, strict=True)) or [()] * len(columns)
    arrays = [
        pa.array([None if cell is None else column.value(cell) for cell in of_column], field.type)
        for of_column, column, field in zip(cells, columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(rows: Rows) -> list[Column]:
    fields = [field for row in rows for field in structs.fields(row)]
    names = {field.name for field in fields}
    return [_column(field.name, field.type, names) for field in fields]


def _column(name: str, annotation: Any, names: set[str]) -> Column:
    bare, unit = name[:-3], name[-3:]
    if unit in _TIMES:
        times = _TIMES[unit]
        return Column(f"{bare}_at" if bare in names else bare, TimestampType(), lambda value: value * times)
    return Column(name, *_stored(annotation))


def _stored(annotation: Any) -> tuple[DataType, Callable[[Any], Any]]:
    """Spark's type for values with this annotation, and the function that converts such a value, which is never None.

    Raises AssertionError for an annotation that no row has yet.
    """
    if annotation in _TYPES:
        return _TYPES[annotation], _same
    if isinstance(annotation, NewType):
        return _stored(annotation.__supertype__)
    if get_origin(annotation) in (UnionType, Union):
        (present,) = (option for option in get_args(annotation) if option is not type(None))
        return _stored(present)
    if get_origin(annotation) is tuple:
        item, value = _stored(get_args(annotation)[0])
        return ArrayType(item), lambda items: list(map(value, items))
    if get_origin(annotation) is dict:
        item, value = _stored(get_args(annotation)[1])
        return MapType(StringType(), item), lambda items: [(key, value(items[key])) for key in sorted(items)]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        first = structs.fields(annotation)[0]
        kind, value = _stored(first.type)
        return kind, lambda row: value(getattr(row, first.name))
    raise AssertionError(f"no type of Spark is known for {annotation}")


def _same(value: Any) -> Any:
    return value
