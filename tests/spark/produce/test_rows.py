"""Rows become key, value, timestamp and partition."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparklog.core.errors import InvalidOption
from sparklog.spark.produce.rows import RowMapping, check_mapping, written_columns

pytestmark = pytest.mark.spark

ROW = """select 1 as id, 'anna' as who, X'00ff' as raw, array(1, null) as list, 1704067200000L as ms,
    timestamp_ntz '2024-01-01 00:00:00' as ntz, date '2024-01-01' as day, 1.5D as price, 'x' as `a.b`"""


def written(spark: SparkSession, mapping: RowMapping) -> DataFrame:
    frame = spark.sql(ROW)
    return frame.select(*(column.alias(name) for name, column in written_columns(frame, mapping).items()))


def made(spark: SparkSession, mapping: RowMapping, *columns: str) -> dict[str, object]:
    row = written(spark, mapping).select(*columns).first()
    assert row is not None
    return row.asDict()


@pytest.mark.parametrize(
    ("mapping", "key"),
    [
        (RowMapping(key=("who",)), "anna"),
        (RowMapping(key=("WHO",)), "anna"),
        (RowMapping(key=("id",)), "1"),
        (RowMapping(key=("raw",)), b"\x00\xff"),
        (RowMapping(key=("a.b",)), "x"),
        (RowMapping(key=("who", "id")), '{"who":"anna","id":1}'),
        (RowMapping(key_expr="list"), "[1,null]"),
        (RowMapping(key_expr="id + 1"), "2"),
    ],
)
def test_a_key_is_text_bytes_or_json(spark: SparkSession, mapping: RowMapping, key: object) -> None:
    found = made(spark, mapping, "key")["key"]
    assert (bytes(found) if isinstance(found, bytearray) else found) == key


def test_columns_that_nobody_asked_for_are_left_to_the_sink(spark: SparkSession) -> None:
    assert list(written_columns(spark.sql(ROW), RowMapping())) == ["value"]


@pytest.mark.parametrize(
    "mapping",
    [
        RowMapping(timestamp="ms"),
        RowMapping(timestamp="ntz"),
        RowMapping(timestamp="day"),
        RowMapping(timestamp_expr="'2024-01-01T01:00:00+01:00'"),
    ],
)
def test_times_without_a_zone_are_utc_and_integers_are_milliseconds(spark: SparkSession, mapping: RowMapping) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        frame = written(spark, mapping).selectExpr("unix_millis(timestamp)")
        assert [row[0] for row in frame.collect()] == [1_704_067_200_000]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (RowMapping(key=("woh",)), "--key: wanted a column of the source, found 'woh'; did you mean who?"),
        (RowMapping(key=("zzz",)), "there are id, who, raw"),
        (RowMapping(key_expr="lower(woh)"), "--key-expr: no column 'woh' for 'lower(woh)'; did you mean who?"),
        (RowMapping(value_expr="nonsense(id)"), "--value-expr: 'nonsense(id)' can't be used: UNRESOLVED_ROUTINE"),
        (RowMapping(value_expr="*"), "--value-expr"),
        (RowMapping(timestamp="price"), "found double"),
        (RowMapping(partition="price"), "wanted integers, found 'price' of type double"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_nearest(spark: SparkSession, mapping: RowMapping, message: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        written(spark, mapping)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "mapping",
    [
        RowMapping(key=("a",), key_expr="a"),
        RowMapping(timestamp="a", timestamp_expr="a"),
        RowMapping(value_columns=("a",), value_expr="a"),
    ],
)
def test_two_options_for_one_thing_are_refused(mapping: RowMapping) -> None:
    with pytest.raises(InvalidOption, match="found both"):
        check_mapping(mapping)
