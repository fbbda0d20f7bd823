"""Spark schemas: the schema of Spark's Kafka source, and the check of the schema of rows to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidInput
from sparklog.log.kafka_columns import IGNORED_COLUMNS, canonical
from sparklog.spark.spark_versions import arrow_schema

RECORDS_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
        ),
    ]
)


def records_schema(columns: Iterable[str]) -> StructType:
    """The schema of Spark's Kafka source, restricted to `columns`, in their order."""
    return StructType([RECORDS_SCHEMA[name] for name in columns])


def columns_of(schema: StructType, whole: StructType) -> tuple[str, ...]:
    """Return the column names of `schema`, the schema requested for a read; `whole` is the source's full schema.

    Raises InvalidInput unless each column is nullable and has the same type in `whole`.
    """
    known = {field.name: field.dataType for field in whole}
    for field in schema:
        if field.name not in known:
            raise InvalidInput(
                f"schema: wanted some of the columns {', '.join(known)}, found {field.name!r}"
                f"{did_you_mean(field.name, list(known))}"
            )
        if field.dataType != known[field.name]:
            raise InvalidInput(
                f"schema: column {field.name} is {known[field.name].simpleString()}, found "
                f"{field.dataType.simpleString()}: cast it after the read"
            )
        if not field.nullable:
            raise InvalidInput(f"schema: column {field.name} is nullable, found not null")
    return tuple(schema.fieldNames())


def check_written(schema: StructType, topic: str | None) -> None:
    """Raise InvalidInput if rows of this schema can't be written. If `topic` is None, a column must name the topic."""
    names = schema.fieldNames()
    arrays, fields = [], []
    for field in schema:
        if field.name in IGNORED_COLUMNS:
            continue
        try:
            arrow_type = arrow_schema(StructType([field])).field(0).type
        except PySparkException:  # Spark passes whole rows, so it fails even on columns that are not written
            raise InvalidInput(
                f"column {field.name!r}: type {field.dataType.simpleString()} can't be written: cast or drop it"
            ) from None
        arrays.append(pa.nulls(0, arrow_type))
        fields.append(pa.field(field.name, arrow_type))
    canonical(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
    if topic is None and "topic" not in names:
        raise InvalidInput(
            f"no topic is given: set the option 'topic', or give the rows a column 'topic'; found columns "
            f"{', '.join(names)}"
        )
