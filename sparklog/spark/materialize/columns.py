"""The rows of a table: unchanged records, or the fields of JSON values and keys as columns.

Unchanged records have the columns of Spark's Kafka source. With a schema for values or keys, the fields of the schema
are columns (json_fields.py), and the names of the log's own columns begin with `_`. If a value is not one JSON object
of the schema, its bytes are in `_bad_value`, and the columns of its fields are null; a key's bytes are in `_bad_key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sparklog.core.errors import InvalidOption, InvalidRecord
from sparklog.host.dice import new_id
from sparklog.spark.materialize.json_fields import check_types, json_fields
from sparklog.spark.materialize.position import Mode
from sparklog.spark.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

TOMBSTONE: Final = "_tombstone"
BAD_KEY: Final = "_bad_key"
BAD_VALUE: Final = "_bad_value"
_AS_THEY_ARE: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


class Layout(msgspec.Struct, frozen=True):
    """The columns of a table.

    `value_schema`, `key_schema`: the fields of JSON values and keys as DDL (`id long, name string`), or None to keep
    their bytes in one column. `fail_on_bad`: a value or key that does not match its schema stops the job.
    """

    mode: Mode = Mode.APPEND
    value_schema: str | None = None
    key_schema: str | None = None
    fail_on_bad: bool = False

    @property
    def expands(self) -> bool:
        """True if fields of the value or the key become columns."""
        return self.value_schema is not None or self.key_schema is not None

    def own(self, name: str) -> str:
        """Return the table's column for `name`, which is key, partition, offset or timestamp.

        If the value or the key has a schema, the column's name begins with _.
        """
        return f"_{name}" if self.expands else name

    @property
    def bad_columns(self) -> tuple[str, ...]:
        """The columns for unreadable bytes: BAD_KEY if the key has a schema, BAD_VALUE if the value has one."""
        bad = ((BAD_KEY, self.key_schema), (BAD_VALUE, self.value_schema))
        return tuple(name for name, schema in bad if schema is not None)


def rows_of(records: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows of a table, made from records with the columns of Spark's Kafka source.

    In latest mode `records` must have one record per key. The rows then have a column TOMBSTONE, which is true where
    the key is to be deleted. Raises InvalidOption for a schema that can't be parsed, and for two columns of one name.
    """
    from pyspark.sql import functions as sql

    tombstone = sql.col("value").isNull().alias(TOMBSTONE)
    latest = layout.mode is Mode.LATEST
    if not layout.expands:
        return records.select(*_AS_THEY_ARE, *([tombstone] if latest else []))
    session = records.sparkSession
    columns: list[Column] = []
    for name, schema, bad in (("key", layout.key_schema, BAD_KEY), ("value", layout.value_schema, BAD_VALUE)):
        if schema is None:
            continue
        option = "--schema" if name == "value" else "--key-schema"
        fields = parsed_schema(session, option, schema)
        read = f"read_{new_id()}"
        records = records.withColumn(read, json_fields(sql.col(name).cast("string"), fields))
        columns += [sql.col(f"{read}.{_quoted(field)}").alias(field) for field in fields.names]
        columns.append(_bad_bytes(name, read, fail=layout.fail_on_bad).alias(bad))
    own = [sql.col(name).alias(f"_{name}") for name in ("key", "partition", "offset", "timestamp", "headers")]
    own += [sql.col("value").alias("_value")] if layout.value_schema is None else []
    own += [tombstone] if latest or layout.value_schema is not None else []
    rows = records.select(*columns, *own)
    _check_names(rows.columns)
    return rows


def parsed_schema(session: SparkSession, option: str, ddl: str) -> StructType:
    """Parse the fields of a schema in DDL. Raises InvalidOption, which names `option`; see `check_types`."""
    from pyspark.sql.types import StructType

    try:
        schema = session._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)  # type: ignore[union-attr]
        fields = StructType.fromJson(msgspec.json.decode(schema.asNullable().json()))
    except Exception as error:
        raise InvalidOption(
            f"{option}: wanted columns as in 'id long, name string', found {ddl!r}: {brief(error)}"
        ) from error
    if not fields.names:
        raise InvalidOption(f"{option}: wanted at least one column, found none in {ddl!r}")
    check_types(option, fields)
    return fields


def _bad_bytes(name: str, read: str, *, fail: bool) -> Column:
    """Return a column with the bytes of column `name` where they could not be parsed, otherwise null.

    Column `read` has the parsed fields, and is null where parsing failed. With `fail`, such bytes fail the task.
    """
    from pyspark.sql import functions as sql

    is_bad = sql.col(name).isNotNull() & sql.col(read).isNull()
    if not fail:
        return sql.when(is_bad, sql.col(name))
    refusal = _refusal(
        sql.lit(f"the {name} of "),
        _place(),
        sql.lit(" is not a JSON object of the schema: run without --on-bad-value fail to keep its bytes"),
    )
    return sql.when(is_bad, refusal.cast("binary"))


def latest_of(records: DataFrame) -> DataFrame:
    """The newest record of each key, including tombstones.

    Within a partition, the record with the greatest offset is the newest. A key is in several partitions only if
    partitions were added or the writer chose them: then the latest timestamp decides, and for equal timestamps the
    greatest partition. A record without a key fails the task with InvalidRecord.
    """
    from pyspark.sql import functions as sql

    no_key = _refusal(
        sql.lit("wanted records with keys for --mode latest, found "),
        _place(),
        sql.lit(" without one: --mode append accepts it"),
    )
    key = sql.when(sql.col("key").isNull(), no_key.cast("binary")).otherwise(sql.col("key"))
    record = sql.struct(*(key.alias(name) if name == "key" else sql.col(name) for name in records.columns))
    of_partition = (
        records.select(key.alias("key"), "partition", "offset", record.alias("record"))
        .repartition("key")
        .groupBy("key", "partition")
        .agg(sql.max_by("record", "offset").alias("record"))
    )
    order = sql.struct(sql.col("record.timestamp"), sql.col("record.partition"))
    return of_partition.groupBy("key").agg(sql.max_by("record", order).alias("record")).select("record.*")


def is_newer(layout: Layout, row: str, than: str) -> str:
    """Return SQL that is true if row `row` has a newer record than row `than` of the same key, as in `latest_of`.

    `row` and `than` are aliases of two tables in the SQL statement that uses the condition.
    """
    partition, offset, timestamp = (f"`{layout.own(name)}`" for name in ("partition", "offset", "timestamp"))
    return (
        f"CASE WHEN {row}.{partition} = {than}.{partition} THEN {row}.{offset} > {than}.{offset} "
        f"WHEN {row}.{timestamp} = {than}.{timestamp} THEN {row}.{partition} > {than}.{partition} "
        f"ELSE {row}.{timestamp} > {than}.{timestamp} END"
    )


def _place() -> Column:
    from pyspark.sql import functions as sql

    return sql.concat(sql.col("topic"), sql.lit("-"), sql.col("partition"), sql.lit(" at offset "), sql.col("offset"))


def _refusal(*parts: Column) -> Column:
    """Return a column that fails the task with the text in `parts`. `spark_errors.explained` returns InvalidRecord."""
    from pyspark.sql import functions as sql

    code = f"sparklog.core.errors.{InvalidRecord.__name__}: {InvalidRecord.code}: "
    return sql.raise_error(sql.concat(sql.lit(code), *parts))


def _check_names(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise InvalidOption(
                f"--schema, --key-schema: wanted columns with different names (case doesn't count), found {other} and "
                f"{name}; the log's columns are _key, _partition, _offset, _timestamp, _headers, _value, {TOMBSTONE}, "
                f"{BAD_KEY} and {BAD_VALUE}"
            )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def empty_rows(session: SparkSession, layout: Layout) -> Any:
    """Return a DataFrame without rows, with the columns of `rows_of`. Raises InvalidOption if a schema is wrong."""
    from sparklog.spark.schema import RECORDS_SCHEMA

    return rows_of(session.createDataFrame([], RECORDS_SCHEMA), layout)
