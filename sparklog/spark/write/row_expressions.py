"""Columns and SQL from a user's options, checked against a DataFrame before anything runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sparklog.core.config.key import did_you_mean
from sparklog.core.errors import InvalidOption
from sparklog.spark.spark_errors import brief, condition_of, parameters_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS_SHOWN = 30


def column_name(frame: DataFrame, option: str, name: str) -> str:
    """Return the column `name` in the spelling of `frame`. Case is ignored if only one column then matches.

    Raises InvalidOption, which names `option` and suggests the nearest name.
    """
    if name in frame.columns:
        return name
    folded = [column for column in frame.columns if column.lower() == name.lower()]
    if len(folded) == 1:
        return folded[0]
    raise InvalidOption(f"{option}: wanted a column of the source, found {name!r}{_offer(frame, name)}")


def columns_named(frame: DataFrame, option: str, names: Iterable[str]) -> list[str]:
    """Return the columns `names` in the spelling of `frame`. Raises InvalidOption for an unknown or repeated column."""
    columns: list[str] = []
    for name in names:
        column = column_name(frame, option, name)
        if column in columns:
            raise InvalidOption(f"{option}: wanted each column once, found {column!r} twice")
        columns.append(column)
    return columns


def quoted(name: str) -> Column:
    """Return the top-level column `name`. The name may contain any character, such as a dot or a backtick."""
    from pyspark.sql import functions as sql

    return sql.col("`" + name.replace("`", "``") + "`")


def expression(frame: DataFrame, option: str, text: str) -> Column:
    """Parse `text`, a SQL expression over one row of `frame`.

    Raises InvalidOption if Spark refuses it (with Spark's reason), or if it makes several columns, combines rows, or
    makes several rows of one.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as sql

    try:
        column = sql.expr(text)
        selected = frame.select(column)
        fields = selected.schema.fields
    except PySparkException as error:
        unknown = parameters_of(error).get("objectName", "")
        if condition_of(error).startswith("UNRESOLVED_COLUMN") and unknown:
            name = unknown.strip("`")
            raise InvalidOption(f"{option}: no column {name!r} for {text!r}{_offer(frame, name)}") from error
        raise InvalidOption(f"{option}: {text!r} can't be used: {brief(error)}") from error
    if len(fields) != 1:
        raise InvalidOption(f"{option}: wanted one expression, found {text!r}, which makes {len(fields)} columns")
    plan = selected._jdf.queryExecution().analyzed()
    if {"Aggregate", "Generate"} & {node.getClass().getSimpleName() for node in (plan, plan.children().head())}:
        raise InvalidOption(
            f"{option}: wanted an expression over one row, found {text!r}, which combines rows or produces several"
        )
    return column


def columns_read(frame: DataFrame, text: str) -> set[str]:
    """Return the names of the columns that the SQL expression `text` reads. A * in it stands for all columns.

    Raises PySparkException if the expression is not valid over `frame`.
    """
    from pyspark.sql import functions as sql

    read = frame.select(sql.expr(text))._jdf.queryExecution().analyzed().references().iterator()
    names: set[str] = set()
    while read.hasNext():
        names.add(read.next().name())
    return names


def condition(frame: DataFrame, option: str, text: str) -> Column:
    """Parse `text`, a SQL condition over the rows of `frame`.

    Raises the errors of `expression`, and InvalidOption if the type is not boolean or Spark does not allow the
    expression in a condition.
    """
    from pyspark.errors import PySparkException

    column = expression(frame, option, text)
    kind = frame.select(column).schema.fields[0].dataType.simpleString()
    if kind != "boolean":
        raise InvalidOption(f"{option}: wanted a condition, found {text!r} of type {kind}")
    try:
        frame.where(column)
    except PySparkException as error:
        raise InvalidOption(f"{option}: {text!r} can't be used: {brief(error)}") from error
    return column


def _offer(frame: DataFrame, name: str) -> str:
    near = did_you_mean(name, frame.columns)
    rest = len(frame.columns) - COLUMNS_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return near or f"; there are {', '.join(frame.columns[:COLUMNS_SHOWN])}{more}"
