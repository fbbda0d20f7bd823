"""Columns and SQL from options are checked before anything runs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sparklog.core.errors import InvalidOption
from sparklog.spark.write.row_expressions import column_name, columns_named, condition, expression, quoted

pytestmark = pytest.mark.spark


def test_a_name_matches_exactly_or_without_case_if_only_one_does(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as Who, 2 as `a.b`, 3 as `tick``ed`")
    assert [column_name(frame, "--key", each) for each in ("Who", "wHO", "A.B")] == ["Who", "Who", "a.b"]
    row = frame.select(quoted("a.b"), quoted("tick`ed")).first()
    assert row is not None
    assert tuple(row) == (2, 3)


def test_an_unknown_name_without_a_near_one_shows_what_there_is(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"--key: .* found 'zzz'; there are who, at"):
        column_name(spark.sql("select 1 as who, 2 as at"), "--key", "zzz")


def test_a_column_that_is_named_twice_is_refused_in_any_case(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as id, 'x' as who")
    assert len(columns_named(frame, "--value-columns", ["id", "WHO"])) == 2
    for names in (["id", "id"], ["id", "who", "ID"]):
        with pytest.raises(InvalidOption, match="--value-columns: wanted each column once, found 'id' twice"):
            columns_named(frame, "--value-columns", names)


def test_a_condition_is_boolean_and_an_expression_is_one_column(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as n, 'x' as who")
    assert frame.where(condition(frame, "--where", "n = 1 and who like 'x%'")).count() == 1
    with pytest.raises(InvalidOption, match="wanted a condition, found 'n \\+ 1' of type int"):
        condition(frame, "--where", "n + 1")
    with pytest.raises(InvalidOption, match="which makes 2 columns"):
        expression(frame, "--value-expr", "*")
