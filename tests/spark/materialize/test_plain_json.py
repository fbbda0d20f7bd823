"""Texts that Spark reads exactly: which are recognized. `test_json_fields` compares the values in them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from sparklog.spark.materialize.columns import parsed_schema
from sparklog.spark.materialize.plain_json import plain_object

pytestmark = pytest.mark.spark

PLAIN = "a bigint, b smallint, c double, d decimal(5,2), e string, f timestamp, g array<struct<x:date>>, h boolean"


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("{}", True),
        (' {"a":-123456789012345678, "b" : 9999 ,"c":1.5e-7,"d":-123.45} ', True),
        ('{"e":"a\\n\\u00e9\\ud83d\\ude00é","f":"2024-02-29T12:30:00.123456Z","h":true,"a":null}', True),
        ('{"g":[null,{"x":"2024-02-29","y":0},{}],"other":[[1,{"a":"b"}],{"b":[]}],"B":"c"}', True),
        ('{"f":"2024-02-29 12:30:00","c":123456789012345,"d":1}', True),
        ('{"a":1234567890123456789}', False),
        ('{"b":1.0}', False),
        ('{"c":1234567890.123456}', False),
        ('{"c":1e100}', False),
        ('{"d":1.234}', False),
        ('{"d":1000}', False),
        ('{"e":5}', False),
        ('{"e":"\\ud83d"}', False),
        ('{"f":"12:30"}', False),
        ('{"g":[{"x":5}]}', False),
        ('{"h":"true"}', False),
        ('{"\\u0061":1}', False),
        ('{"a":1}{}', False),
        ('{"other":[[[[[1]]]]]}', False),
    ],
)
def test_a_plain_text_has_tokens_that_spark_takes_unchanged(spark: SparkSession, text: str, is_plain: bool) -> None:
    plain = plain_object(parsed_schema(spark, "--schema", PLAIN))
    assert plain is not None
    frame = spark.createDataFrame([(text,)], "text string")
    assert frame.select(sql.col("text").rlike(plain)).collect() == [(is_plain,)]


def test_a_type_without_plain_tokens_leaves_no_text_plain(spark: SparkSession) -> None:
    for type_ in ("float", "binary", "map<string,int>", "array<struct<x:float>>"):
        assert plain_object(parsed_schema(spark, "--schema", f"a int, f {type_}")) is None
