"""What a table of Spark's catalog keeps of its options, and who gets them back, without Spark."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import IntegerType, StructField, StructType

from sparklog.core.errors import InvalidOption, SparklogError
from sparklog.spark.schema import RECORDS_SCHEMA, records_schema
from sparklog.spark.source import SparklogDataSource
from sparklog.spark.table_options import check_written_options, read_options_of_table

OPTIONS = {"cluster": "/c", "subscribe": "orders", "topic": "orders"}


def created(options: dict[str, str], **properties: str) -> StructType:
    """What sparklog answers when Spark 4.2 makes a table: OPTIONS arrive twice, among the table's properties."""
    prefixed = {f"option.{name}": text for name, text in options.items()}
    own = {"provider": "sparklog", "owner": "somebody", "location": "file:/w/orders", "path": "file:/w/orders"}
    return SparklogDataSource(CaseInsensitiveDict({**own, **properties, **options, **prefixed})).schema()


def given(schema: StructType, **options: str) -> dict[str, str]:
    return read_options_of_table(options, schema)


def test_a_table_has_the_columns_of_a_read_and_gives_a_read_its_options() -> None:
    table = created(OPTIONS, comment="all orders", team="billing")
    assert table.fieldNames() == records_schema(RECORDS_SCHEMA.names[:-1]).fieldNames()
    assert given(table) == {"cluster": "file:///c", "subscribe": "orders"}
    assert given(table, minPartitions="3") == {"cluster": "file:///c", "subscribe": "orders", "minPartitions": "3"}
    assert given(table, subscribe="bills") == {"cluster": "file:///c", "subscribe": "bills"}
    assert given(table, assign="{}") == {"cluster": "file:///c", "assign": "{}"}
    assert given(table, cluster="/d", subscribe="bills") == {"cluster": "/d", "subscribe": "bills"}


def test_a_write_says_where_it_goes() -> None:
    table = created(OPTIONS)
    plain = StructType([StructField(each.name, each.dataType) for each in table])
    check_written_options({"topic": "bills"}, plain)
    check_written_options({"cluster": "/d"}, plain)
    check_written_options({"cluster": "/d", "topic": "bills"}, table)
    some = StructType([field for field in table if field.name in ("value", "timestampType")])
    for options, schema in (({}, plain), ({}, table), ({"topic": "bills"}, table), ({"topic": "bills"}, some)):
        with pytest.raises(InvalidOption, match="INSERT INTO, saveAsTable and toTable can't append to a log"):
            check_written_options(options, schema)


def test_a_table_that_was_made_without_its_options_is_refused_with_the_way_to_make_it() -> None:
    with pytest.raises(
        InvalidOption, match=r"only if it was created by CREATE TABLE name USING sparklog OPTIONS \(…\) w"
    ):
        given(StructType().add("value", "string"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "wanted exactly one of the options"),
        ({**OPTIONS, "startingofsets": "earliest"}, "did you mean startingOffsets"),
        (
            {**OPTIONS, "kafka.sasl.jaas.config": "password='hush'"},
            "kafka.sasl.jaas.config: the catalog keeps a table's options",
        ),
        ({"subscribe": "t"}, "cluster: wanted the address"),
        ({**OPTIONS, "storage.s.password": "hush"}, "storage.s.password: the catalog keeps a table's options in cl"),
        ({**OPTIONS, "cluster": "s3://user:hush@bucket/c"}, "holds no user, key or password"),
        ({**OPTIONS, "cluster.token": "hush"}, "cluster.token: the catalog keeps a table's options in clear"),
    ],
)
def test_wrong_options_are_refused_before_there_is_a_table(options: dict[str, str], error: str) -> None:
    with pytest.raises(SparklogError, match=error) as raised:
        created(options)
    assert "hush" not in str(raised.value)


def test_a_metadata_table_keeps_its_options_too() -> None:
    table = created({"cluster": "/c", "metadata": "topics"})
    assert table.fieldNames()[:2] == ["topic", "topic_id"]
    assert given(table) == {"cluster": "file:///c", "metadata": "topics"}
    assert json.loads(table.json()) != json.loads(StructType([*table.fields[:-1]]).json())


def test_columns_that_were_altered_are_refused_unless_the_read_says_itself_what_it_reads() -> None:
    table = created(OPTIONS)
    added = StructType([*table.fields, StructField("x", IntegerType())])
    for options in ({}, {"startingOffsets": "earliest"}):
        with pytest.raises(InvalidOption, match=r"found key, .*, timestampType, x: a log's columns are fixed"):
            given(added, **options)
    assert given(added, subscribe="bills") == {"subscribe": "bills"}
    assert given(added, cluster="/d") == {"cluster": "/d"}
