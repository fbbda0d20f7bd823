"""Functions in Python over the columns that Java reads: each kind that Spark has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from sparklog.client.cluster import Cluster
from sparklog.spark.installed import HANGING_FUNCTIONS

if TYPE_CHECKING:
    import pandas as pd

pytestmark = pytest.mark.spark
ROWS = 100
sql: Any = functions
Kind = Callable[[DataFrame], DataFrame]


class Split:
    """A function that returns a table."""

    def eval(self, text: str) -> Iterator[tuple[int]]:
        yield (int(text),)


def pickled(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(int, "int", useArrow=False)("text").alias("n"))


def arrow(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(int, "int", useArrow=True)("text").alias("n"))


def of_bytes(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(int, "int", useArrow=True)("value").alias("n"))


def of_a_filter(frame: DataFrame) -> DataFrame:
    return frame.where(sql.udf(lambda text: int(text) >= 0, "boolean")("text")).selectExpr("int(text) as n")


def chained(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(lambda n: n + 1, "int")(sql.udf(lambda text: int(text) - 1, "int")("text")).alias("n"))


def of_two(frame: DataFrame) -> DataFrame:
    return frame.select(sql.udf(lambda text, other: int(text) if other else -1, "int")("text", "value").alias("n"))


def scalar_pandas(frame: DataFrame) -> DataFrame:
    def numbers(texts: pd.Series) -> pd.Series:
        return texts.astype("int32")

    return frame.select(sql.pandas_udf(numbers, "int", sql.PandasUDFType.SCALAR)("text").alias("n"))


def iterated_pandas(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for texts in batches:
            yield texts.astype("int32")

    return frame.select(sql.pandas_udf(numbers, "int", sql.PandasUDFType.SCALAR_ITER)("text").alias("n"))


def aggregated_pandas(frame: DataFrame) -> DataFrame:
    def first(texts: pd.Series) -> int:
        return int(texts.iloc[0])

    return frame.groupBy("text").agg(sql.pandas_udf(first, "int", sql.PandasUDFType.GROUPED_AGG)("text").alias("n"))


def windowed_pandas(frame: DataFrame) -> DataFrame:
    from pyspark.sql import Window

    def least(texts: pd.Series) -> int:
        return int(texts.iloc[0])

    function = sql.pandas_udf(least, "int", sql.PandasUDFType.GROUPED_AGG)
    return frame.select(function("text").over(Window.partitionBy("text")).alias("n"))


def scalar_arrow(frame: DataFrame) -> DataFrame:
    return frame.select(sql.arrow_udf(_numbers, "int")("text").alias("n"))


def map_in_pandas(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch[["text"]].astype("int32").rename(columns={"text": "n"})

    return frame.mapInPandas(numbers, "n int")


def map_in_arrow(frame: DataFrame) -> DataFrame:
    def numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": pc.cast(batch["text"], pa.int32())})

    return frame.select("text").mapInArrow(numbers, "n int")


def apply_in_pandas(frame: DataFrame) -> DataFrame:
    def numbers(group: pd.DataFrame) -> pd.DataFrame:
        return group[["text"]].astype("int32").rename(columns={"text": "n"})

    return frame.groupBy("text").applyInPandas(numbers, "n int")


def cogrouped(frame: DataFrame) -> DataFrame:
    def numbers(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        return left[["text"]].astype("int32").rename(columns={"text": "n"})

    return frame.groupBy("text").cogroup(frame.groupBy("text")).applyInPandas(numbers, "n int")


def apply_in_arrow(frame: DataFrame) -> DataFrame:
    def numbers(group: pa.Table) -> pa.Table:
        return pa.table({"n": pc.cast(group["text"], pa.int32())})

    return frame.groupBy("text").applyInArrow(numbers, "n int")


def table_function(frame: DataFrame) -> DataFrame:
    return _by_table_function(frame, useArrow=False)


def table_function_of_arrow(frame: DataFrame) -> DataFrame:
    return _by_table_function(frame, useArrow=True)


def rdd(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.createDataFrame(frame.select("text").rdd.map(lambda row: (int(row.text),)), "n int")


def _by_table_function(frame: DataFrame, **how: bool) -> DataFrame:
    frame.sparkSession.udtf.register("split", sql.udtf(Split, returnType="n int", **how))
    frame.createOrReplaceTempView("texts")
    return frame.sparkSession.sql("select n from texts, lateral split(text)")


def _numbers(texts: pa.Array) -> pa.Array:
    return pc.cast(texts, pa.int32())


KINDS: tuple[Kind, ...] = (
    pickled,
    arrow,
    of_bytes,
    of_a_filter,
    chained,
    of_two,
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_in_python_takes_what_java_reads(cluster: Cluster, columnar: SparkSession, kind: Kind) -> None:
    if HANGING_FUNCTIONS is not None:
        columnar.conf.set(HANGING_FUNCTIONS, "false")
    assert numbers_by(cluster, columnar, kind) == list(range(ROWS))


def numbers_by(cluster: Cluster, session: SparkSession, kind: Kind) -> list[int]:
    """The numbers of a topic's values, in ascending order."""
    pytest.importorskip("pandas")
    if "t" not in cluster.topics():
        cluster.create_topic("t", partitions=2)
        cluster.append("t", pa.table({"value": [str(at) for at in range(ROWS)]}))
    read = session.read.format("sparklog").options(cluster=cluster.connection.url, subscribe="t", reader="columns")
    frame = read.load().selectExpr("value", "cast(value as string) as text")
    return sorted(row.n for row in kind(frame).collect())
