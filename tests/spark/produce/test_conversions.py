"""A value that can't be converted is told with the option that wanted it. No Spark: its errors as it words them."""

from __future__ import annotations

import pytest

from sparklog.core.errors import InvalidInput, SparklogError, UnknownTopicOrPartition
from sparklog.spark.produce.conversions import explained_of_rows
from sparklog.spark.produce.rows import RowMapping

CAST = '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "{}" because it is malformed.'
OF_SQL = CAST + " SQLSTATE: 22018\n== SQL (line 1, position 1) ==\ncast(item as int)\n^^^^^^^^^^^^^^^^^\n"
OF_PARTITION = "sparklog.core.errors.UnknownTopicOrPartition: UNKNOWN_TOPIC_OR_PARTITION: column 'partition': wanted 0"
OF_MILLIS = "Job aborted due to stage failure: Task 0 failed: java.lang.ArithmeticException: long overflow\n\tat x"
BOTH = RowMapping(timestamp="at", partition="p")


@pytest.mark.parametrize(
    ("text", "mapping", "kind", "message"),
    [
        (CAST.format("TIMESTAMP"), BOTH, InvalidInput, "a.csv, --timestamp at: CAST_INVALID_INPUT: The value 'x'"),
        (
            CAST.format("TIMESTAMP"),
            RowMapping(timestamp_expr="a || b"),
            InvalidInput,
            "a.csv, --timestamp-expr a || b: ",
        ),
        (CAST.format("INT"), BOTH, InvalidInput, "a.csv, --partition-column p: CAST_INVALID_INPUT"),
        (CAST.format("INT"), RowMapping(timestamp="at"), InvalidInput, "a.csv: CAST_INVALID_INPUT"),
        (CAST.format("DOUBLE"), BOTH, InvalidInput, "a.csv: CAST_INVALID_INPUT"),
        (OF_SQL.format("INT"), BOTH, InvalidInput, "a.csv, the expression cast(item as int): CAST_INVALID_INPUT"),
        (OF_MILLIS, BOTH, InvalidInput, "a.csv, --timestamp at: wanted milliseconds since the epoch, found a number"),
        (OF_MILLIS, RowMapping(), SparklogError, "a.csv: Job aborted"),
        (OF_PARTITION, BOTH, UnknownTopicOrPartition, "a.csv, --partition-column p: column 'partition': wanted 0"),
        (OF_PARTITION, RowMapping(), UnknownTopicOrPartition, "column 'partition': wanted 0"),
    ],
)
def test_the_option_or_the_expression_is_named(
    text: str, mapping: RowMapping, kind: type[SparklogError], message: str
) -> None:
    found = explained_of_rows(RuntimeError(text), "a.csv", mapping)
    assert type(found) is kind
    assert found.message.startswith(message)
