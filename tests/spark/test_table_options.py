"""What a table of Spark's catalog keeps of its options, and who gets them back, without Spark."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from sparklog.core.errors import InvalidOption, SparklogError
from sparklog.core.option_registry import Side
from sparklog.spark.schema import RECORDS_SCHEMA, records_schema
from sparklog.spark.source import SparklogDataSource
from sparklog.spark.table_options import with_options_of_table

OPTIONS = {"cluster": "/c", "subscribe": "orders", "topic": "orders"}


def created(options: dict[str, str], **properties: str) -> StructType:
    """What sparklog answers when Spark 4.2 makes a table: OPTIONS arrive twice, among the table's properties."""
    prefixed = {f"option.{name}": text for name, text in options.items()}
    own = {"provider": "sparklog", "owner": "somebody", "location": "file:/w/orders", "path": "file:/w/orders"}
    return SparklogDataSource(CaseInsensitiveDict({**own, **properties, **options, **prefixed})).schema()


def given(schema: StructType, side: Side, default_cluster: str | None = None, **options: str) -> dict[str, str]:
    return with_options_of_table(options, schema, side, default_cluster)


def test_a_table_has_the_columns_of_a_read_and_gives_each_side_its_options() -> None:
    table = created(OPTIONS, comment="all orders", team="billing")
    assert table.fieldNames() == records_schema(RECORDS_SCHEMA.names[:-1]).fieldNames()
    assert given(table, Side.BATCH_READ) == {"cluster": "file:///c", "subscribe": "orders"}
    assert given(table, Side.BATCH_READ, minPartitions="3") == {
        "cluster": "file:///c",
        "subscribe": "orders",
        "minPartitions": "3",
    }
    assert given(table, Side.BATCH_WRITE) == {"cluster": "file:///c", "topic": "orders"}


def test_a_read_or_write_that_says_where_takes_nothing_of_a_table() -> None:
    """The rows may only happen to come from it: what a DataFrame is made of keeps the columns' metadata."""
    table = created(OPTIONS)
    assert given(table, Side.BATCH_READ, subscribe="bills") == {"subscribe": "bills"}
    assert given(table, Side.BATCH_WRITE, topic="bills") == {"topic": "bills"}
    assert given(table, Side.BATCH_WRITE, cluster="/d") == {"cluster": "/d"}
    some = StructType([field for field in table if field.name in ("value", "timestampType")])
    assert given(some, Side.BATCH_WRITE, default_cluster="/d") == {}


def test_rows_with_the_columns_of_a_table_are_not_written_to_a_guessed_cluster() -> None:
    table = created(OPTIONS)
    with pytest.raises(
        InvalidOption, match=r"found 'file:///c' of the table .* and '/d' of SPARKLOG_CLUSTER: give the option"
    ):
        given(table, Side.BATCH_WRITE, default_cluster="/d")
    assert given(table, Side.BATCH_WRITE, default_cluster="/c")["topic"] == "orders"
    assert given(table, Side.BATCH_READ, default_cluster="/d")["cluster"] == "file:///c"


@pytest.mark.parametrize("side", list(Side))
def test_a_table_that_was_made_without_its_options_is_refused_with_the_way_to_make_it(side: Side) -> None:
    with pytest.raises(InvalidOption, match=r"only if it was made by CREATE TABLE name USING sparklog OPTIONS \(…\) w"):
        given(StructType().add("value", "string"), side)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "wanted exactly one of the options"),
        ({**OPTIONS, "startingofsets": "earliest"}, "did you mean startingOffsets"),
        ({**OPTIONS, "acks": "0"}, "acks: wanted one of all"),
        ({"subscribe": "t"}, "cluster: wanted the address"),
        ({**OPTIONS, "storage.s.password": "hush"}, "storage.s.password: a table's options stay in the catalog in cl"),
        ({**OPTIONS, "cluster": "s3://user:hush@bucket/c"}, "holds no user, key or password"),
        ({**OPTIONS, "cluster.token": "hush"}, "cluster.token: a table's options stay in the catalog in clear"),
    ],
)
def test_wrong_options_are_refused_before_there_is_a_table(options: dict[str, str], error: str) -> None:
    with pytest.raises(SparklogError, match=error) as raised:
        created(options)
    assert "hush" not in str(raised.value)


def test_a_metadata_table_keeps_its_options_too() -> None:
    table = created({"cluster": "/c", "metadata": "topics"})
    assert table.fieldNames()[:2] == ["topic", "topic_id"]
    assert given(table, Side.BATCH_READ) == {"cluster": "file:///c", "metadata": "topics"}
    assert json.loads(table.json()) != json.loads(StructType([*table.fields[:-1]]).json())
