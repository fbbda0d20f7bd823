"""Explains Spark's errors for values that it could not convert: names the option or expression they came from."""

from __future__ import annotations

import re
from typing import Final

from sparklog.core.errors import InvalidInput, SparklogError, UnknownTopicOrPartition
from sparklog.spark.produce.rows import RowMapping
from sparklog.spark.spark_errors import explained

_CAST: Final = re.compile(r'\[CAST_(?:INVALID_INPUT|OVERFLOW)\][^\n]* cannot be cast to "(INT|TIMESTAMP)"')
_EXPRESSION: Final = re.compile(
    r"^== SQL \([^)\n]*\) ==\n([^\n]+)$", re.MULTILINE
)  # the place of the failure in Spark's message
_LONG_OVERFLOW: Final = "java.lang.ArithmeticException: long overflow"  # milliseconds converted to microseconds
_OUT_OF_RANGE: Final = "column 'partition': wanted"


def explained_of_rows(error: Exception, source: str, mapping: RowMapping) -> SparklogError:
    """Return the error to show if Spark failed to write rows from `source` with `error`.

    If a value could not be converted, the message names the option or expression that the value came from, if known.
    """
    text = str(error)
    timestamp, partition = _timestamp(mapping), _partition(mapping)
    if timestamp and _LONG_OVERFLOW in text:
        return InvalidInput(
            f"{source}, {timestamp}: wanted milliseconds since the epoch, found a number that is too large"
        )
    expression, cast = _EXPRESSION.search(text), _CAST.search(text)
    place = ""
    if expression is not None:
        place = f"the expression {expression[1].strip()}"
    elif cast is not None:
        place = timestamp if cast[1] == "TIMESTAMP" else partition
    reason = explained(error, f"{source}, {place}" if place else source)
    if partition and isinstance(reason, UnknownTopicOrPartition) and reason.message.startswith(_OUT_OF_RANGE):
        return UnknownTopicOrPartition(f"{source}, {partition}: {reason.message}")
    return reason


def _timestamp(mapping: RowMapping) -> str:
    if mapping.timestamp is not None:
        return f"--timestamp {mapping.timestamp}"
    return "" if mapping.timestamp_expr is None else f"--timestamp-expr {mapping.timestamp_expr}"


def _partition(mapping: RowMapping) -> str:
    return "" if mapping.partition is None else f"--partition-column {mapping.partition}"
