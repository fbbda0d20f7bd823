"""Functions in Python over the columns that Java reads: each kind that Spark has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from sparklog.client.cluster import Cluster
from sparklog.spark.spark_versions import HANGING_UDF_SETTING

if TYPE_CHECKING:
    import pandas as pd

pytestmark = pytest.mark.spark
ROWS = 100
NUMBER = "cast(cast(value as string) as int) as n"
sql: Any = functions
Kind = Callable[[DataFrame], DataFrame]


class Numbers:
    """A function that returns a table."""

    def eval(self, value: bytes) -> Iterator[tuple[int]]:
        yield (int(value),)


def pickled(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(int, "int", useArrow=False)("value").alias("n"))


def arrow(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(int, "int", useArrow=True)("value").alias("n"))


def of_a_filter(frame: DataFrame) -> DataFrame:
    return frame.where(sql.udf(lambda value: int(value) >= 0, "boolean")("value")).selectExpr(NUMBER)


def chained(frame: DataFrame) -> DataFrame:
    return frame.select(
        sql.udf(lambda n: n + 1, "int")(sql.udf(lambda value: int(value) - 1, "int")("value")).alias("n")
    )


def of_all_columns(frame: DataFrame) -> DataFrame:
    def number(*columns: Any) -> int:
        return int(columns[1]) if len(columns) == 8 else -1

    return frame.select(sql.udf(number, "int")(*frame.columns).alias("n"))


def of_a_row(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(lambda row: int(row.value), "int")(sql.struct("value", "offset")).alias("n"))


def of_text(frame: DataFrame) -> DataFrame:
    """Spark itself makes rows of the columns before the function."""
    return frame.select(sql.udf(lambda text: int(text), "int")(sql.expr("cast(value as string)")).alias("n"))


def scalar_pandas(frame: DataFrame) -> DataFrame:
    def numbers(values: pd.Series) -> pd.Series:
        return values.map(int)

    return frame.select(sql.pandas_udf(numbers, "int", sql.PandasUDFType.SCALAR)("value").alias("n"))


def iterated_pandas(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for values in batches:
            yield values.map(int)

    return frame.select(sql.pandas_udf(numbers, "int", sql.PandasUDFType.SCALAR_ITER)("value").alias("n"))


def aggregated_pandas(frame: DataFrame) -> DataFrame:
    def first(values: pd.Series) -> int:
        return int(values.iloc[0])

    return frame.groupBy("value").agg(sql.pandas_udf(first, "int", sql.PandasUDFType.GROUPED_AGG)("value").alias("n"))


def windowed_pandas(frame: DataFrame) -> DataFrame:
    from pyspark.sql import Window

    def first(values: pd.Series) -> int:
        return int(values.iloc[0])

    function = sql.pandas_udf(first, "int", sql.PandasUDFType.GROUPED_AGG)
    return frame.select(function("value").over(Window.partitionBy("value")).alias("n"))


def scalar_arrow(frame: DataFrame) -> DataFrame:
    return frame.select(sql.arrow_udf(_numbers, "int")("value").alias("n"))


def map_in_pandas(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield _numbers_of(batch)

    return frame.mapInPandas(numbers, "n int")


def map_in_arrow(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": _numbers(batch["value"])})

    return frame.mapInArrow(numbers, "n int")


def apply_in_pandas(frame: DataFrame) -> DataFrame:
    return frame.groupBy("value").applyInPandas(_numbers_of, "n int")


def cogrouped(frame: DataFrame) -> DataFrame:
    def numbers(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return _numbers_of(left)

    return frame.groupBy("value").cogroup(frame.groupBy("value")).applyInPandas(numbers, "n int")


def apply_in_arrow(frame: DataFrame) -> DataFrame:
    def numbers(group: pa.Table) -> pa.Table:
        return pa.table({"n": _numbers(group["value"])})

    return frame.groupBy("value").applyInArrow(numbers, "n int")


def table_function(frame: DataFrame) -> DataFrame:
    return _by_table_function(frame, useArrow=False)


def table_function_of_arrow(frame: DataFrame) -> DataFrame:
    return _by_table_function(frame, useArrow=True)


def rdd(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame(frame.select("value").rdd.map(lambda row: (int(row.value),)), "n int")


def _by_table_function(frame: DataFrame, **how: bool) -> DataFrame:
    frame.sparkSession.udtf.register("numbers_of", sql.udtf(Numbers, returnType="n int", **how))
    frame.createOrReplaceTempView("records")
    return frame.sparkSession.sql("select n from records, lateral numbers_of(value)")


def _numbers(values: pa.Array) -> pa.Array:
    return pc.cast(pc.cast(values, pa.string()), pa.int32())


def _numbers_of(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[["value"]].map(int).astype("int32").rename(columns={"value": "n"})


KINDS: tuple[Kind, ...] = (
    pickled,
    arrow,
    of_a_filter,
    chained,
    of_all_columns,
    of_a_row,
    of_text,
    scalar_pandas,
    iterated_pandas,
    aggregated_pandas,
    windowed_pandas,
    *((scalar_arrow,) if hasattr(functions, "arrow_udf") else ()),
    map_in_pandas,
    map_in_arrow,
    apply_in_pandas,
    cogrouped,
    apply_in_arrow,
    table_function,
    table_function_of_arrow,
    rdd,
)


@pytest.mark.filterwarnings("ignore:In Python 3.6")  # hints would need pandas at import
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_in_python_takes_what_java_reads(cluster: Cluster, columnar: SparkSession, kind: Kind) -> None:
    if HANGING_UDF_SETTING is not None:
        columnar.conf.set(HANGING_UDF_SETTING, "false")
    assert numbers_by(cluster, columnar, kind) == list(range(ROWS))


def numbers_by(cluster: Cluster, session: SparkSession, kind: Kind) -> list[int]:
    """The numbers of a topic's values, in ascending order."""
    pytest.importorskip("pandas")
    if "t" not in cluster.topics():
        cluster.create_topic("t", partitions=2)
        cluster.append("t", pa.table({"value": [str(at) for at in range(ROWS)]}))
    read = session.read.format("sparklog").options(cluster=cluster.connection.url, subscribe="t", reader="columns")
    return sorted(row.n for row in kind(read.option("includeHeaders", "true").load()).collect())
