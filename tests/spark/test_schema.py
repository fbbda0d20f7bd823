"""Which schemas a read may be given, and which a write is refused for, without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import types
from pyspark.sql.types import NullType, StructField, StructType, VarcharType

from sparklog.core.errors import InvalidInput
from sparklog.log.kafka_columns import READ_SCHEMA, read_schema
from sparklog.spark.schema import RECORDS_SCHEMA, check_written, columns_of, records_schema
from sparklog.spark.spark_versions import arrow_schema


@pytest.mark.sparks("columns")
def test_batches_of_the_log_have_the_schema_that_spark_compares_with() -> None:
    assert arrow_schema(RECORDS_SCHEMA).equals(READ_SCHEMA)
    columns = ["timestamp", "key"]
    assert arrow_schema(records_schema(columns)).equals(read_schema(columns))


def test_a_given_schema_may_leave_columns_out_and_order_them_anew() -> None:
    given = StructType().add("offset", "long").add("key", "binary")
    assert columns_of(given, RECORDS_SCHEMA) == ("offset", "key")


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (StructField("values", VarcharType(3)), "found 'values'; did you mean value"),
        (StructField("offset", VarcharType(3)), r"column offset is bigint, found varchar\(3\): cast it after the read"),
        (
            StructField("offset", RECORDS_SCHEMA["offset"].dataType, nullable=False),
            "offset is nullable, found not null",
        ),
    ],
)
def test_a_given_schema_can_not_change_a_column(field: StructField, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        columns_of(StructType([field]), RECORDS_SCHEMA)


def test_what_was_read_can_be_written() -> None:
    check_written(RECORDS_SCHEMA, None)


def test_columns_of_nulls_are_taken_for_any_type() -> None:
    check_written(StructType().add("value", NullType()).add("key", NullType()).add("timestamp", NullType()), "t")


def test_types_that_arrow_does_not_know_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="column 'value': type interval can't be written"):
        check_written(StructType().add("value", types.CalendarIntervalType()), "t")
    with pytest.raises(InvalidInput, match="column 'pause': type interval can't be written: cast or drop it"):
        check_written(StructType().add("value", "string").add("pause", types.CalendarIntervalType()), "t")
