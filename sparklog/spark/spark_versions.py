"""The installed Spark: the only file that handles differences between versions. See docs/spark_versions.md.

    missing                         in Spark       replaced by
    data sources in Python          3.5            sparklog's JAR alone, and empty base classes for its planner
    DataSourceStreamArrowWriter     3.5, 4.0       a class that is a batch writer for Arrow and a stream writer
    arrow_udf                       3.5, 4.0       a pandas_udf
    read.json, csv of a DataFrame   3.5, 4.0, 4.1  the same methods, with the DataFrame's RDD
    DataType.fromDDL                3.5            a function that is not public
    repartitionById                 3.5, 4.0       a shuffle by hash, of numbers that hash to the ids
    SupportsTriggerAvailableNow     3.5, 4.0, 4.1  an empty class: `StreamReader` works without it
    the partition of an empty plan  4.0, 4.1       None, which `plan_of` accepts

This file tests for features, not versions, because some platforms have a feature earlier. HANGING_UDF_SETTING, a fault
of one version, is the exception. Importing this file raises InvalidInput unless Spark 3.5 or newer is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sparklog.core.errors import InvalidInput
from sparklog.host.extras import install_line

try:
    import pyspark
    from pyspark.sql import Column, DataFrame, DataFrameReader, functions
    from pyspark.sql.functions import call_function as _since_3_5  # noqa: F401 - older ones are refused
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import DataType, StructType
except ImportError as error:
    _found = sys.modules.get("pyspark")
    raise InvalidInput(
        f"wanted Spark 3.5 or newer in {sys.executable}, found "
        f"{'none' if _found is None else f'pyspark {_found.__version__}'} ({error}): {install_line('spark')}"
    ) from error

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter as ArrowWriter
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    from pyspark.sql.datasource import InputPartition, WriterCommitMessage
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    HAS_PYTHON_SOURCES: bool
else:
    try:
        from pyspark.sql.datasource import DataSourceArrowWriter as ArrowWriter
        from pyspark.sql.datasource import WriterCommitMessage

        HAS_PYTHON_SOURCES = True
    except ImportError:

        class ArrowWriter:
            """An empty class in place of Spark's: the JAR's planner plans and commits, and Spark calls no writer."""

        class WriterCommitMessage:
            """An empty class in place of Spark's."""

        HAS_PYTHON_SOURCES = False

    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamArrowWriter
    except ImportError:
        if HAS_PYTHON_SOURCES:
            from pyspark.sql.datasource import DataSourceStreamWriter

            class StreamArrowWriter(DataSourceStreamWriter, ArrowWriter):
                """A stream writer that gets Arrow batches: Spark 4.0 passes them to each DataSourceArrowWriter."""

        else:
            StreamArrowWriter = ArrowWriter

    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:

        class SupportsTriggerAvailableNow:
            """An empty class in place of Spark's: before Spark 4.2, a reader does not learn its trigger."""


__all__ = [
    "HANGING_UDF_SETTING",
    "HAS_PYTHON_SOURCES",
    "ArrowWriter",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "arrow_function",
    "arrow_schema",
    "delta_package",
    "documents",
    "plan_of",
    "repartition_by_id",
    "type_of",
]

_DELTA: Final = "4.4.0"  # has a package for each Spark that it supports
_SPARKS_OF_DELTA: Final = ("4.0", "4.1", "4.2")

# In Spark 4.2.0, a Python `udf` hangs on columns of any source (SPARK-58241), unless this setting is false.
HANGING_UDF_SETTING: Final = (
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled" if pyspark.__version__ == "4.2.0" else None
)

sql: Any = functions  # mypy's stubs know only some of them


def delta_package(spark: str = pyspark.__version__) -> str:
    """Return the Maven coordinate of Delta Lake for Spark version `spark`.

    Raises InvalidInput if Delta Lake has no package for this version.
    """
    version = ".".join(spark.split(".")[:2])
    if version not in _SPARKS_OF_DELTA:
        raise InvalidInput(f"wanted Spark {', '.join(_SPARKS_OF_DELTA)} for Delta Lake {_DELTA}, found Spark {spark}")
    return f"io.delta:delta-spark_{version}_2.13:{_DELTA}"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema of the Arrow batches in which Spark passes rows of `schema`, with times in UTC.

    Raises PySparkException for a type that Arrow does not have.
    """
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)  # without the parameter, Spark uses UTC


def type_of(ddl: str) -> DataType:
    """Return the type that `ddl` describes in Spark's DDL. A session must have started."""
    if hasattr(DataType, "fromDDL"):
        return DataType.fromDDL(ddl)
    from pyspark.sql.types import _parse_datatype_string

    return _parse_datatype_string(ddl)


def plan_of(partition: InputPartition | None) -> bytes | None:
    """Return the plan that a reader put into `partition`; None if Spark passes None, because nothing was planned."""
    plan: bytes | None = None if partition is None else partition.value
    return plan


def arrow_function(function: Callable[[pa.Array], pa.Array], result: str) -> Callable[[Column], Column]:
    """Turn `function`, of an Arrow array, into a function of a column. The column that it returns has type `result`.

    If Spark has no arrow_udf, pandas is needed, on the executors as well. `result` is a type in Spark's DDL.
    """
    if hasattr(sql, "arrow_udf"):

        def of_arrays(array: pa.Array) -> pa.Array:
            return function(array)

        of_arrays.__annotations__ = {"array": pa.Array, "return": pa.Array}  # Spark wants types, not their names
        by_arrays: Callable[[Column], Column] = sql.arrow_udf(of_arrays, result)
        return by_arrays
    from pandas import Series

    def of_series(series: Any) -> Any:
        return function(pa.Array.from_pandas(series)).to_pandas(integer_object_nulls=True)

    of_series.__annotations__ = {"series": Series, "return": Series}
    by_series: Callable[[Column], Column] = sql.pandas_udf(of_series, result)
    return by_series


def documents(texts: DataFrame) -> Any:
    """Return the only column of `texts` in the form that `spark.read.json` and `csv` accept instead of a path."""
    takes_rows = "DataFrame" in str(signature(DataFrameReader.json).parameters["path"].annotation)
    return texts if takes_rows else texts.rdd.map(lambda row: row[0])


def repartition_by_id(rows: DataFrame, tasks: int, task: Column) -> DataFrame:
    """Shuffle `rows` into `tasks` tasks: each row goes to the task with the number in its column `task` (int)."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(tasks, task)
    numbers = sql.array(*map(sql.lit, _hashed_to_each(tasks)))
    return rows.repartition(tasks, sql.element_at(numbers, task + 1))


def _hashed_to_each(tasks: int) -> list[int]:
    """Return a list of ints: `repartition(tasks, column)` sends a row with the i-th int in the column to task i."""
    number_of_task: dict[int, int] = {}
    for number in count():
        number_of_task.setdefault(_murmur3(number) % tasks, number)
        if len(number_of_task) == tasks:
            return [number_of_task[task] for task in range(tasks)]
    raise AssertionError("numbers never end")


def _murmur3(number: int) -> int:
    """The hash by which Spark shuffles an int: Murmur3 of 32 bits with seed 42 (`Murmur3_x86_32.hashInt`)."""
    mask = 0xFFFFFFFF
    mixed = number * 0xCC9E2D51 & mask
    mixed = (mixed << 15 | mixed >> 17) & mask
    hashed = 42 ^ mixed * 0x1B873593 & mask
    hashed = (hashed << 13 | hashed >> 19) & mask
    hashed = (hashed * 5 + 0xE6546B64 & mask) ^ 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed
