"""Records as DataFrames: schema, ranges, pruning, and plans that outlive the objects they name."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import InputPartition

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.core.errors import InconsistentClusterId
from sparklog.options.typed import parse_read_options
from sparklog.spark.read.batch_reader import BatchReader
from sparklog.spark.schema import RECORDS_SCHEMA, records_schema
from tests.faults.unchanged_cluster import unchanged
from tests.kit.log import rows
from tests.spark.conftest import TASK_ERROR, Read
from tests.spark.rewriting import roll_and_delete

pytestmark = pytest.mark.spark

TIME_US = 1_700_000_000_123_456


def numbered(cluster: Cluster, topic: str = "t", partitions: int = 3, count: int = 10) -> None:
    """`count` values "p-i" in each partition, in two appends."""
    cluster.create_topic(topic, partitions=partitions)
    for half in (range(count // 2), range(count // 2, count)):
        cluster.append(
            topic,
            pa.concat_tables([rows([f"{p}-{i}" for i in half], p) for p in range(partitions)]),
        )


def values(df: object) -> list[str]:
    return [row.value.decode() for row in df.select("value").collect()]  # type: ignore[attr-defined]


def test_schema_is_that_of_spark_kafka_source(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=1)
    assert (
        read("t").schema.simpleString() == "struct<key:binary,value:binary,topic:string,partition:int,"
        "offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = read("t", includeHeaders="true").schema
    assert with_headers["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in with_headers)


@pytest.mark.sparks("columns")
def test_every_column_comes_back_as_it_was_written(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=2)
    headers = pa.array(
        [[{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}, {"key": "b", "value": None}], None],
        RAW_HEADERS,
    )
    cluster.append(
        "t",
        rows(
            ["x", None],  # type: ignore[list-item]
            1,
            key=pa.array([b"\x00k", None], pa.binary()),
            headers=headers,
            timestamp=pa.array([TIME_US, TIME_US + 1], pa.timestamp("us", tz="UTC")),
        ),
    )
    # Python gets times in its own zone: compare instants.
    first, second = (
        read("t", includeHeaders="true").withColumn("timestamp", F.unix_micros("timestamp")).orderBy("offset").collect()
    )
    assert tuple(first)[:-1] == (b"\x00k", b"x", "t", 1, 0, TIME_US, 0)
    assert [(each.key, each.value) for each in first.headers] == [("a", b"1"), ("a", b"2"), ("b", None)]
    assert tuple(second) == (None, None, "t", 1, 1, TIME_US + 1, 0, None)


RAW_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.sparks("offsets")
def test_offsets_select_exactly_their_range(cluster: Cluster, read: Read) -> None:  # M: S-03
    numbered(cluster)
    df = read(
        assign='{"t":[0,2]}',
        startingOffsets='{"t":{"0":3,"2":-2}}',
        endingOffsets='{"t":{"0":7,"2":2}}',
    )
    assert values(df) == ["0-3", "0-4", "0-5", "0-6", "2-0", "2-1"]


@pytest.mark.sparks("times")
def test_times_select_start_inclusive_end_exclusive(cluster: Cluster, read: Read) -> None:  # M: S-05
    cluster.create_topic("t", partitions=1)
    times = pa.array([TIME_US + 1_000 * i for i in range(10)], pa.timestamp("us", tz="UTC"))
    cluster.append("t", rows([str(i) for i in range(10)], timestamp=times))
    iso = datetime.fromtimestamp(TIME_US / 1e6, UTC).replace(microsecond=123_456 + 3_000).isoformat()
    start_ms = (TIME_US + 3_000) // 1000 + 1  # the next whole millisecond after record 3
    assert values(read("t", startingTimestamp=iso, endingTimestamp=TIME_US // 1000 + 7)) == ["3", "4", "5", "6"]
    assert values(read("t", startingTimestamp=start_ms)) == ["4", "5", "6", "7", "8", "9"]


@pytest.mark.sparks("tasks")
def test_tasks_are_ordered_by_topic_partition_and_offset(cluster: Cluster, read: Read) -> None:
    numbered(cluster, "b", 2)
    numbered(cluster, "a", 2)
    df = read("b,a", maxRecordsPerPartition=3)
    assert df.rdd.getNumPartitions() == 16
    found = [(row.topic, row.partition, row.offset) for row in df.collect()]
    assert found == [(topic, p, i) for topic in "ab" for p in range(2) for i in range(10)]


@pytest.mark.sparks("tasks")
def test_small_ranges_share_a_task_and_min_partitions_splits(cluster: Cluster, read: Read) -> None:
    numbered(cluster, partitions=20)
    assert read("t").rdd.getNumPartitions() == 1
    assert read("t", minPartitions=40).rdd.getNumPartitions() >= 40
    assert read("t", maxBytesPerPartition=1).rdd.getNumPartitions() == 200


@pytest.mark.sparks("latest", since="4.1", also="3.5")
def test_latest_is_one_position_kept_for_the_life_of_the_dataframe(
    spark: SparkSession, cluster: Cluster, read: Read
) -> None:
    numbered(cluster)
    df = read("t")
    assert df.count() == 30
    cluster.append("t", rows(["late"]))
    assert df.count() == 30
    assert read("t").count() == 31
    df.createOrReplaceTempView("kept")
    assert spark.sql("select count(*) from kept a join kept b using (partition, offset)").collect()[0][0] == 30


def test_dataframe_joined_and_united_with_itself_gives_each_record_twice(cluster: Cluster, read: Read) -> None:
    numbered(cluster)
    df = read("t")
    assert df.union(df).count() == 60
    assert df.where("offset >= 7").union(df).count() == 39
    assert df.alias("a").join(df.alias("b"), ["partition", "offset"]).count() == 30


@pytest.mark.sparks("columns")
def test_columns_option_and_user_schema_prune_the_dataframe(spark: SparkSession, cluster: Cluster, read: Read) -> None:
    numbered(cluster)
    pruned = read("t", columns="offset, Partition")
    assert pruned.columns == ["offset", "partition"]
    assert pruned.where("partition = 1").select("offset").collect() == [(i,) for i in range(10)]
    by_schema = spark.read.format("sparklog").schema("offset bigint").option("cluster", cluster.connection.url)
    assert by_schema.option("subscribe", "t").load().columns == ["offset"]
    with pytest.raises(PySparkException, match="INVALID_REQUEST: schema: column value is binary, found string"):
        by_schema.schema("value string").option("subscribe", "t").load().collect()
    with pytest.raises(PySparkException, match="found 'ofset'; did you mean offset"):
        by_schema.schema("ofset bigint").option("subscribe", "t").load().collect()


def test_offsets_alone_are_read_without_any_object(cluster: Cluster, read: Read) -> None:
    numbered(cluster)
    df = read("t", columns="topic,partition,offset")
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    for each in list(store.list_keys("append/")):
        store.delete(each.key)
    assert df.count() == 30
    with pytest.raises(PySparkException, match=r"DATA_LOSS: t-0: records \[0, 5\) are lost"):
        read("t").collect()


@pytest.mark.sparks("offsets")
def test_empty_range_and_empty_topic_give_no_rows(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=2)
    assert read("t").collect() == []
    assert read(subscribePattern="nothing.*").collect() == []
    assert read("t", columns="offset").count() == 0


@pytest.mark.sparks("offsets")
def test_offsets_outside_the_log_fail_or_are_cut(cluster: Cluster, read: Read) -> None:  # M: S-10 R-05
    numbered(cluster, partitions=1)
    cluster.delete_records("t", {0: 4})
    asked = {"startingOffsets": '{"t":{"0":2}}', "endingOffsets": '{"t":{"0":12}}'}
    with pytest.raises(
        PySparkException, match=r"OFFSET_OUT_OF_RANGE: t-0: wanted offsets \[2, 12\).* the readable range is \[4, 10\)"
    ):
        read("t", **asked).collect()
    assert values(read("t", failOnDataLoss="false", **asked)) == [f"0-{i}" for i in range(4, 10)]
    gone = {"startingOffsets": '{"t":{"0":0}}', "endingOffsets": '{"t":{"0":3}}', "failOnDataLoss": "false"}
    assert values(read("t", **gone)) == []


# M: S-09 R-04
@pytest.mark.sparks("latest", since="4.1", also="3.5")
def test_records_cut_by_retention_after_planning_fail_or_are_left_out(cluster: Cluster, read: Read) -> None:
    numbered(cluster, partitions=1)
    strict, lenient = read("t"), read("t", failOnDataLoss="false")
    assert (strict.count(), lenient.count()) == (10, 10)
    cluster.delete_records("t", {0: 5})
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    oldest = min(store.list_keys("append/"), key=lambda each: each.key.rsplit("/", 1)[1])
    store.delete(oldest.key.removesuffix(".index"))
    with pytest.raises(
        TASK_ERROR, match=r"DATA_LOSS: t-0: records \[0, 5\) were removed by retention or delete-records"
    ):
        strict.collect()
    assert values(lenient) == [f"0-{i}" for i in range(5, 10)]


# M: S-09 R-04
@pytest.mark.sparks("latest", since="4.1", also="3.5")
def test_dataframe_planned_before_a_roll_reads_the_same_rows_after_it(cluster: Cluster, read: Read) -> None:
    numbered(cluster, partitions=2)
    df = read("t", includeHeaders="true")
    before = df.orderBy("partition", "offset").collect()
    roll_and_delete(cluster, "t")
    cluster.append("t", rows(["late"]))
    assert df.orderBy("partition", "offset").collect() == before


def test_tasks_read_without_the_chain(cluster: Cluster) -> None:
    """Only a missing object makes a task ask the chain; neither secrets nor options travel to it."""
    numbered(cluster, partitions=1)
    options = parse_read_options(
        {
            "cluster": cluster.connection.url,
            "subscribe": "t",
            "storage.local.secret_access_key": "hush",
        }
    )
    reader = BatchReader(options, records_schema(["value"]))
    (task,) = reader.partitions()
    assert not reader.options.storage.secret
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    for each in list(store.list_keys("meta/")):
        store.delete(each.key)
    assert sum(batch.num_rows for batch in reader.read(task)) == 10
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subscribe": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'nope', the cluster has t"),
        ({"assign": '{"t":[7]}'}, "UNKNOWN_TOPIC_OR_PARTITION: wanted partition 7 of topic t"),
        ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":1}}'},
            "INVALID_OPTION: startingOffsets: wanted every partition",
        ),
        (
            {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":2}}', "endingOffsets": '{"t":{"0":1}}'},
            "found start offset 2 > end offset 1 for t-0",
        ),
        ({"assign": '{"t":[0,0]}'}, "wanted partition numbers from 0, each once, found [0, 0] for topic 't'"),
        ({"assign": '{"t":[0],"t":[1]}'}, "assign: wanted each key once, found 't' twice"),
        ({"subscribe": "t", "failOnDataLoss": "maybe"}, "failOnDataLoss: wanted true or false, found 'maybe'"),
        ({"subscribe": "t", "columns": "value,ofset"}, "did you mean offset"),
        ({"subscribe": "t", "cluster": "host:9092"}, "is a Kafka address"),
        ({"subscribe": "t", "cluster": "memory://x"}, "lives in one process"),
        ({"subscribe": "t", "cluster": "/nowhere/at/all"}, "CLUSTER_NOT_FOUND: no cluster at file:///nowhere/at/all"),
    ],
)
def test_wrong_reads_are_refused_with_a_code(read: Read, cluster: Cluster, options: dict[str, str], error: str) -> None:
    cluster.create_topic("t", partitions=2)
    with unchanged(cluster.connection.url, ()), pytest.raises(PySparkException) as raised:
        read(**options).collect()
    assert error in str(raised.value)


def test_schema_columns_are_all_known() -> None:
    assert json.loads(records_schema(RECORDS_SCHEMA.names).json()) == json.loads(RECORDS_SCHEMA.json())


def test_a_plan_of_another_cluster_at_the_address_reads_nothing_of_this_one(tmp_path: Path) -> None:
    """Topic ids begin at 1 in each: without the look at the cluster's id, rows of topic "other" would be read."""
    url = str(tmp_path / "again")
    for topic, count in (("t", 3), ("other", 9)):
        shutil.rmtree(url, ignore_errors=True)
        init_cluster(url)
        with sparklog.connect(url) as made:
            made.create_topic(topic, partitions=1)
            made.append(topic, rows([topic] * count))
        if topic == "t":
            reader = BatchReader(parse_read_options({"cluster": url, "subscribe": "t"}), RECORDS_SCHEMA)
            (task,) = reader.partitions()
    with pytest.raises(InconsistentClusterId, match="deleted and created again"):
        list(reader.read(task))
