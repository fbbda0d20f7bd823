"""The batch cases of Spark's KafkaSinkSuite, by their names there; docs/compat.md lists them with what differs."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sparklog.client.cluster import Cluster
from sparklog.spark.schema import RECORDS_SCHEMA
from tests.spark.conftest import Read, Write

pytestmark = pytest.mark.spark


def test_batch_write_to_kafka(spark: SparkSession, cluster: Cluster, read: Read, write: Write) -> None:
    cluster.create_topic("t", partitions=1)
    data = [
        ("t", "1", [("a", b"b")]),
        ("t", "2", [("c", b"d"), ("e", b"f")]),
        ("t", "3", [("g", b"h"), ("g", b"i")]),
        ("t", "4", None),
        ("t", "5", [("j", b"k"), ("j", b"l"), ("m", b"n")]),
    ]
    schema = StructType().add("topic", "string").add("value", "string").add(RECORDS_SCHEMA["headers"])
    write(spark.createDataFrame(data, schema), "t")
    found = read("t", includeHeaders="true").selectExpr("cast(value as string) as value", "headers")
    assert [(row.value, row.headers) for row in found.orderBy("value").collect()] == [
        (value, headers) for _, value, headers in data
    ]


def test_batch_partition_column_and_partitioner_priorities(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    for topic in ("keyed", "custom", "given", "nulls"):
        cluster.create_topic(topic, partitions=4)
    df = spark.range(5).selectExpr("cast(id as string) as key", "cast(id as string) as value")

    def partitions(topic: str) -> set[int]:
        return {row.partition for row in read(topic).select("partition").collect()}

    write(df, "keyed")
    assert len(partitions("keyed")) > 1
    # Differs: a partitioner class is a Java class of Kafka's client; it is ignored with a warning.
    write(df, "custom", **{"kafka.partitioner.class": "org.example.Partitioner"})
    assert partitions("custom") == partitions("keyed")
    write(df.withColumn("partition", F.lit(2)), "given")
    assert partitions("given") == {2}
    write(df.withColumn("partition", F.lit(None).cast("int")), "nulls")
    assert partitions("nulls") == partitions("keyed")


def test_batch_null_topic_field_value_and_no_topic_option(spark: SparkSession, cluster: Cluster, write: Write) -> None:
    with pytest.raises(PySparkException, match="column 'topic': wanted a topic in each row, found 1 null;"):
        write(spark.sql("select cast(null as string) as topic, '1' as value"))


@pytest.mark.parametrize("mode", ["ignore", "overwrite"])
def test_batch_unsupported_save_modes(spark: SparkSession, cluster: Cluster, mode: str) -> None:
    cluster.create_topic("t", partitions=1)
    writer = spark.sql("select 't' as topic, '1' as value").write.format("sparklog").mode(mode)
    with pytest.raises(PySparkException, match=r"cannot be written in the|a log can only be appended to"):
        writer.option("cluster", cluster.connection.url).save()


def test_batch_enforce_analyzed_plans(spark: SparkSession, cluster: Cluster, read: Read, write: Write) -> None:
    cluster.create_topic("t", partitions=1)
    write(spark.range(1, 1000).select(F.to_json(F.struct("*")).alias("value")), "t")
    assert read("t").count() == 999


def test_generic_write_big_data_with_small_producer_buffer(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    """There is no buffer to fill: the settings of it are ignored, and 15 MB land."""
    cluster.create_topic("t", partitions=1)
    big = spark.range(1000).selectExpr("repeat('x', 15000) as value")
    write(big, "t", **{"kafka.buffer.memory": "16384", "kafka.block.on.buffer.full": "true"})
    assert read("t").where("length(value) = 15000").count() == 1000


def two_topics(cluster: Cluster) -> None:
    for topic in ("t", "foo"):
        cluster.create_topic(topic, partitions=1)


def by_topic(read: Read) -> dict[str, int]:
    return {row.topic: row["count"] for row in read("t,foo").groupBy("topic").count().collect()}


def some(spark: SparkSession, *select: str) -> DataFrame:
    return spark.range(5).selectExpr("cast(id as string) as value").selectExpr(*select)


# The cases of the streaming suites that say what a row and an option mean, in a batch.


def test_write_to_kafka_with_topic_field(spark: SparkSession, cluster: Cluster, read: Read, write: Write) -> None:
    two_topics(cluster)
    write(some(spark, "'t' as topic", "value"))
    assert by_topic(read) == {"t": 5}


def test_write_without_topic_field_with_topic_option(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    two_topics(cluster)
    write(some(spark, "value"), "t")
    assert by_topic(read) == {"t": 5}


def test_topic_field_and_topic_option(spark: SparkSession, cluster: Cluster, read: Read, write: Write) -> None:
    two_topics(cluster)
    write(some(spark, "'foo' as topic", "value"), "t")
    assert by_topic(read) == {"t": 5}


@pytest.mark.parametrize(
    ("select", "error"),
    [
        (["value as key", "value"], "no topic is given: set the option 'topic'"),
        (["'t' as topic", "value as key"], "column 'value' (string or binary) is missing"),
        (["cast('1' as int) as topic", "value"], "column 'topic': wanted string, found int32"),
        (["'t' as topic", "cast(value as int) as value"], "column 'value': wanted string or binary, found int32"),
        (["'t' as topic", "cast(value as int) as key", "value"], "column 'key': wanted string or binary, found int32"),
        (["'t' as topic", "value", "value as partition"], "column 'partition': wanted int, found string"),
    ],
)
def test_write_data_with_bad_schema_or_wrong_types(
    spark: SparkSession, cluster: Cluster, write: Write, select: list[str], error: str
) -> None:
    two_topics(cluster)
    with pytest.raises(PySparkException, match="INVALID_REQUEST") as raised:
        write(some(spark, *select))
    assert error in str(raised.value)


def test_write_to_non_existing_topic(spark: SparkSession, cluster: Cluster, write: Write) -> None:
    with pytest.raises(PySparkException, match="UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'nowhere'"):
        write(some(spark, "value"), "nowhere")


@pytest.mark.parametrize("option", ["kafka.key.serializer", "kafka.value.serializer"])
def test_exception_on_config_serializer(spark: SparkSession, cluster: Cluster, write: Write, option: str) -> None:
    two_topics(cluster)
    with pytest.raises(PySparkException, match="not supported, as in Spark's Kafka connector"):
        write(some(spark, "value"), "t", **{option: "foo"})
