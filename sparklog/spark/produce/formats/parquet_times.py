"""Finds times in Parquet files that Spark would read with fewer digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sparklog.core.errors import InvalidInput
from sparklog.spark.produce.formats.text_files import settings
from sparklog.spark.spark_errors import damaged, shown_path
from sparklog.spark.write.row_expressions import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    Test = Callable[[Column], Column]

_FILES_AT_ONCE: Final = 1_000
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}]")  # in patterns of paths


def check_int96_times(frame: DataFrame) -> None:
    """Raise InvalidInput if an INT96 time in the Parquet files of `frame` has nanoseconds, which Spark would cut.

    Spark refuses INT64 times in nanoseconds by itself, but an INT96 column doesn't say how fine its times are. So all
    INT96 values are read, as bytes, except in files that Spark wrote, whose times have microseconds.
    """
    from pyspark.sql import functions as sql

    if '"timestamp"' not in frame.schema.json():
        return
    session = frame.sparkSession
    ignored = _are_damaged_files_ignored(frame)
    for schema, leaves, files in _with_int96(frame, ignored):
        wanted, tests = _as_bytes(schema, frame.schema, leaves)
        if not tests:
            continue
        fine = sql.coalesce(*(sql.when(test(quoted(name)), sql.lit(name)) for name, test in tests.items()))
        # Only the reader by rows gives INT96 values as bytes.
        with settings(session, {"spark.sql.parquet.enableVectorizedReader": "false"}):
            rows = session.read.schema(wanted).option("ignoreCorruptFiles", ignored).parquet(*files)
            file = rows.metadataColumn("_metadata")["file_path"]  # a column of the file may have this name
            places = rows.select(file.alias("file"), fine.alias("column"))
            first = places.where("column is not null").agg(sql.min(sql.struct("file", "column"))).collect()[0][0]
        if first is not None:
            raise InvalidInput(
                f"{shown_path(first.file)}: Spark has no times in nanoseconds, found some in column {first.column} "
                "(INT96): write the file with microseconds (pyarrow: coerce_timestamps='us')"
            )


def _are_damaged_files_ignored(frame: DataFrame) -> bool:
    jvm: Any = frame.sparkSession._jvm
    options = frame._jdf.queryExecution().analyzed().relation().options()
    return bool(jvm.org.apache.spark.sql.catalyst.FileSourceOptions(options).ignoreCorruptFiles())


def _with_int96(frame: DataFrame, ignored: bool) -> Iterator[tuple[StructType, dict[str, list[bool]], list[str]]]:
    """Yield the schemas that have INT96 columns, each with its files, as patterns that match only them.

    Each schema comes with a map from its top-level columns to a list: for each leaf in order, True if it is INT96.
    """
    from pyspark.sql.types import StructType

    session = frame.sparkSession
    jvm: Any = session._jvm
    state = session._jsparkSession.sessionState()
    location = frame._jdf.queryExecution().analyzed().relation().location()
    files = jvm.scala.jdk.javaapi.CollectionConverters.asJava(location.allFiles())
    schemas: dict[str, tuple[Any, list[str]]] = {}
    for start in range(0, files.size(), _FILES_AT_ONCE):
        some = files.subList(start, min(start + _FILES_AT_ONCE, files.size()))
        for footer in _footers(jvm.org.apache.parquet.hadoop.ParquetFileReader, state.newHadoopConf(), some, ignored):
            metadata = footer.getParquetMetadata().getFileMetaData()
            schema = metadata.getSchema()
            text = schema.toString()
            if " int96 " in text and not _is_by_spark(metadata):
                schemas.setdefault(text, (schema, []))[1].append(_SPECIAL.sub(r"\\\g<0>", footer.getFile().toString()))
    converter = jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter(state.conf())
    for schema, paths in schemas.values():
        leaves: dict[str, list[bool]] = {}
        for column in schema.getColumns():
            is_int96 = column.getPrimitiveType().getPrimitiveTypeName().toString() == "INT96"
            leaves.setdefault(column.getPath()[0], []).append(is_int96)
        yield StructType.fromJson(msgspec.json.decode(converter.convert(schema).json())), leaves, paths


def _footers(reader: Any, conf: Any, files: Any, ignored: bool) -> Iterator[Any]:
    """Yield the footers of files, but none of lists of files without INT96.

    Spark reads nothing from an empty file, nor from a damaged one if these are `ignored`. Another is an InvalidInput.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    try:
        footers = reader.readAllFootersInParallel(conf, files, True)
    except Py4JJavaError as error:
        count = files.size()
        if count > 1:  # find the file
            yield from _footers(reader, conf, files.subList(0, count // 2), ignored)
            yield from _footers(reader, conf, files.subList(count // 2, count), ignored)
        elif not ignored and files.get(0).getLen() > 0:
            raise InvalidInput(damaged(files.get(0).getPath().toString(), str(error))) from error
    else:
        yield from footers if " int96 " in footers.toString() else ()


def _is_by_spark(metadata: Any) -> bool:
    """True if Spark wrote the file. A program that adds columns may keep Spark's name, but not that of its library."""
    is_of_its_library = (metadata.getCreatedBy() or "").startswith("parquet-mr ")
    return is_of_its_library and bool(metadata.getKeyValueMetaData().containsKey("org.apache.spark.version"))


def _as_bytes(
    schema: StructType, read: StructType, leaves: dict[str, list[bool]]
) -> tuple[StructType, dict[str, Test]]:
    """Return the columns that have INT96 times, with bytes in their place, and their tests for nanoseconds.

    Without `mergeSchema`, Spark may leave out some columns and fields. `read` has those that it reads.
    """
    from pyspark.sql.types import StructType

    wanted, tests = StructType(), {}
    for field in schema:
        kind, test = _type_and_test(field.dataType, _read_as(read, field.name), iter(leaves[field.name]))
        if test is not None:
            wanted.add(field.name, kind)
            tests[field.name] = test
    return wanted, tests


def _read_as(struct: DataType | None, name: str) -> DataType | None:
    """The type of a field, found without regard to case, as Spark does; None if it is not read."""
    fields = getattr(struct, "fields", ())
    return next((field.dataType for field in fields if field.name.lower() == name.lower()), None)


def _type_and_test(kind: DataType, read: DataType | None, is_int96: Iterator[bool]) -> tuple[DataType, Test | None]:
    """Return a type with bytes in place of INT96 times, and the test of its values, or None if it has no such time.

    `read`: the type as which Spark reads the values; None if it doesn't.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        parts = [(field.name, *_type_and_test(field.dataType, _read_as(read, field.name), is_int96)) for field in kind]
        tested = {name: (type_, test) for name, type_, test in parts if test is not None}
        struct = types.StructType([types.StructField(name, type_) for name, (type_, _) in tested.items()])
        tests = {name: test for name, (_, test) in tested.items()}
        return struct, (lambda value: _any(test(value[name]) for name, test in tests.items())) if tests else None
    if isinstance(kind, types.ArrayType):
        item, of_item = _type_and_test(kind.elementType, getattr(read, "elementType", None), is_int96)
        return types.ArrayType(item), None if of_item is None else lambda value: sql.exists(value, of_item)
    if isinstance(kind, types.MapType):
        key, of_key = _type_and_test(kind.keyType, getattr(read, "keyType", None), is_int96)
        item, of_value = _type_and_test(kind.valueType, getattr(read, "valueType", None), is_int96)
        sides = [(sql.map_keys, of_key), (sql.map_values, of_value)]
        given = [(side, test) for side, test in sides if test is not None]
        whole = lambda value: _any(sql.exists(side(value), test) for side, test in given)  # noqa: E731
        return types.MapType(key, item), whole if given else None
    return (types.BinaryType(), _has_nanoseconds) if next(is_int96, False) and read is not None else (kind, None)


def _any(tests: Iterator[Column]) -> Column:
    from pyspark.sql import functions as sql

    return sql.coalesce(*(sql.when(test, True) for test in tests), sql.lit(False))


def _has_nanoseconds(time: Column) -> Column:
    """True if an INT96 time, whose first eight bytes are the nanoseconds of its day, has some below a microsecond."""
    from pyspark.sql import functions as sql

    digits = sql.hex(time)
    highest_first = sql.concat(*(sql.substring(digits, at, 2) for at in range(15, 0, -2)))
    return sql.conv(highest_first, 16, -10).cast("bigint") % 1_000 != 0
