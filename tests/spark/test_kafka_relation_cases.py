"""The cases of Spark's KafkaRelationSuite and KafkaDontFailOnDataLossSuite, by their names there.

docs/compat.md lists them with what differs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.commands import MoveLogStart
from sparklog.core.types import Offset, PartitionIndex, TopicId
from tests.kit.log import rows
from tests.spark.conftest import Read

pytestmark = pytest.mark.spark

FIRST_MS = 1_700_000_000_000
TIMES_MS = (FIRST_MS, FIRST_MS + 1_000, FIRST_MS + 2_000, FIRST_MS + 3_000)
LONG_MAX = 2**63 - 1


def send(cluster: Cluster, numbers: Sequence[int], partition: int, time_ms: int | None = None) -> None:
    more = {}
    if time_ms is not None:
        more["timestamp"] = pa.array([time_ms * 1000] * len(numbers), pa.timestamp("us", tz="UTC"))
    cluster.append("t", rows([f"{each}" for each in numbers], partition, **more))


@pytest.fixture
def filled(cluster: Cluster) -> Cluster:
    """0 to 9, 10 to 19 and 20 in three partitions."""
    cluster.create_topic("t", partitions=3)
    send(cluster, range(10), 0)
    send(cluster, range(10, 20), 1)
    send(cluster, [20], 2)
    return cluster


@pytest.fixture
def timed(cluster: Cluster) -> Cluster:
    """0 to 9, 10 to 19, 20 to 29 at three times, dealt to three partitions."""
    cluster.create_topic("t", partitions=3)
    for tens, time_ms in enumerate(TIMES_MS[:3]):
        for partition in range(3):
            send(cluster, [n for n in range(tens * 10, tens * 10 + 10) if n % 3 == partition], partition, time_ms)
    return cluster


def numbers(df: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in df.select("value").collect())


def by_partition(*values: int) -> str:
    return json.dumps({"t": {str(partition): value for partition, value in enumerate(values)}})


def test_explicit_earliest_to_latest_offsets(filled: Cluster, read: Read) -> None:
    df = read("t", startingOffsets="earliest", endingOffsets="latest")
    assert numbers(df) == list(range(21))
    # Differs: a DataFrame keeps the latest that it was first planned with; a new one sees more.
    send(filled, range(21, 30), 2)
    assert numbers(df) == list(range(21))
    assert numbers(read("t", startingOffsets="earliest", endingOffsets="latest")) == list(range(30))


def test_default_starting_and_ending_offsets(filled: Cluster, read: Read) -> None:
    assert numbers(read("t")) == list(range(21))


def test_explicit_offsets(filled: Cluster, read: Read) -> None:
    asked = {"startingOffsets": by_partition(-2, -2, 0), "endingOffsets": by_partition(-1, -1, 1)}
    assert numbers(read("t", **asked)) == list(range(21))
    send(filled, range(31, 40), 2)
    assert numbers(read("t", **asked)) == list(range(21))
    send(filled, range(21, 31), 1)
    assert numbers(read("t", **asked)) == list(range(31))


def test_default_starting_and_ending_offsets_with_headers(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=3)
    pairs = [[], [("a", b"b"), ("c", b"d")], [("e", b"f"), ("e", b"g")]]
    headers = pa.array(
        [[{"key": key, "value": value} for key, value in each] for each in pairs],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    cluster.append(
        "t", pa.table({"value": ["1", "2", "3"], "headers": headers, "partition": pa.array([0, 1, 2], pa.int32())})
    )
    rows = read("t", includeHeaders="true").selectExpr("cast(value as string) as v", "headers").orderBy("v").collect()
    assert [(row.v, [tuple(pair) for pair in row.headers or []]) for row in rows] == [
        ("1", []),
        ("2", [("a", b"b"), ("c", b"d")]),
        ("3", [("e", b"f"), ("e", b"g")]),
    ]


def test_timestamp_provided_for_starting_and_ending(timed: Cluster, read: Read) -> None:
    df = read(
        "t",
        startingOffsetsByTimestamp=by_partition(*[TIMES_MS[1]] * 3),
        endingOffsetsByTimestamp=by_partition(*[TIMES_MS[2]] * 3),
    )
    assert numbers(df) == list(range(10, 20))


def test_timestamp_provided_for_starting_offset_provided_for_ending(timed: Cluster, read: Read) -> None:
    df = read("t", startingOffsetsByTimestamp=by_partition(*[TIMES_MS[0]] * 3), endingOffsets=by_partition(-1, -1, 1))
    assert numbers(df) == sorted([n for n in range(30) if n % 3 != 2] + [2])


def test_timestamp_provided_for_ending_offset_provided_for_starting(timed: Cluster, read: Read) -> None:
    df = read("t", startingOffsets=by_partition(-2, -2, 0), endingOffsetsByTimestamp=by_partition(*[TIMES_MS[2]] * 3))
    assert numbers(df) == list(range(20))


def test_timestamp_provided_for_starting_ending_not_provided(timed: Cluster, read: Read) -> None:
    assert numbers(read("t", startingOffsetsByTimestamp=by_partition(*[TIMES_MS[1]] * 3))) == list(range(10, 30))


def test_timestamp_provided_for_ending_starting_not_provided(timed: Cluster, read: Read) -> None:
    assert numbers(read("t", endingOffsetsByTimestamp=by_partition(*[TIMES_MS[2]] * 3))) == list(range(20))


def test_global_timestamp_provided_for_starting_and_ending(timed: Cluster, read: Read) -> None:
    assert numbers(read("t", startingTimestamp=TIMES_MS[1], endingTimestamp=TIMES_MS[2])) == list(range(10, 20))


def test_no_matched_offset_for_timestamp_starting_offsets(timed: Cluster, read: Read) -> None:
    asked = by_partition(TIMES_MS[1], TIMES_MS[1], LONG_MAX)
    with pytest.raises(PySparkException, match="OFFSET_OUT_OF_RANGE: t-2: no offset matched from startingOffsetsByT"):
        read("t", startingOffsetsByTimestamp=asked).collect()
    lenient = read("t", startingOffsetsByTimestamp=asked, startingOffsetsByTimestampStrategy="latest")
    assert numbers(lenient) == [n for n in range(10, 30) if n % 3 != 2]


def test_preferences_on_offset_related_options(timed: Cluster, read: Read) -> None:
    by_time = {"startingOffsetsByTimestamp": by_partition(*[TIMES_MS[1]] * 3), "startingOffsets": "earliest"}
    assert numbers(read("t", startingTimestamp=TIMES_MS[2], **by_time)) == list(range(20, 30))
    assert numbers(read("t", **by_time)) == list(range(10, 30))


def test_no_matched_offset_for_timestamp_ending_offsets(timed: Cluster, read: Read) -> None:
    df = read("t", endingOffsetsByTimestamp=by_partition(TIMES_MS[1], TIMES_MS[1], LONG_MAX))
    assert numbers(df) == sorted([*range(10), *(n for n in range(10, 30) if n % 3 == 2)])


def test_reuse_same_dataframe_in_query(filled: Cluster, read: Read) -> None:
    df = read("t", startingOffsets="earliest", endingOffsets="latest")
    assert numbers(df.union(df)) == sorted([*range(21), *range(21)])


def test_late_binding_start_offsets(cluster: Cluster, read: Read) -> None:
    """Differs: the start, too, is bound once. Records cut after that are an error, or left out."""
    cluster.create_topic("t", partitions=1)
    send(cluster, range(10), 0)
    df = read("t", startingOffsets="earliest", endingOffsets="latest")
    assert numbers(df) == list(range(10))
    topic_id = TopicId(cluster.describe("t").topic_id)
    cluster.submit(MoveLogStart(topic_id, PartitionIndex(0), Offset(10)))
    send(cluster, range(10, 20), 0)
    assert numbers(df) == list(range(10))  # the cut records are still there for file.delete.delay.ms
    assert numbers(read("t")) == list(range(10, 20))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"subscribe": "t", "startingOffsets": "latest"}, "a batch read can't start at latest"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "t-0: a batch read can't start at latest (-1)"),
        ({"subscribe": "t", "endingOffsets": "earliest"}, "a batch read can't end at earliest"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "t-0: a batch read can't end at earliest (-2)"),
        ({}, "wanted exactly one of the options assign, subscribe, subscribePattern (or metadata), found none"),
        ({"subscribe": "t", "subscribePattern": "t.*"}, "found subscribe and subscribePattern"),
        ({"subscribe": "t", "assign": '{"a":[0]}'}, "found assign and subscribe"),
        ({"assign": ""}, "INVALID_OPTION: assign: wanted partitions by topic"),
        ({"subscribe": ""}, "INVALID_OPTION: subscribe: wanted topics separated by commas"),
        ({"subscribePattern": ""}, "INVALID_OPTION: subscribePattern: wanted a regular expression"),
    ],
)
def test_bad_batch_query_options(cluster: Cluster, read: Read, options: dict[str, str], error: str) -> None:
    with pytest.raises(PySparkException, match="INVALID_OPTION") as raised:
        read(**options).collect()
    assert error in str(raised.value)


def test_min_partitions(filled: Cluster, read: Read) -> None:
    df = read("t", minPartitions=6)
    rdd = df.rdd
    assert rdd.getNumPartitions() >= 6
    assert sorted(int(row.value) for row in rdd.collect()) == list(range(21))
    # Differs: neither the RDD nor the DataFrame sees what was written after they were planned.
    send(filled, range(21, 31), 0)
    assert sorted(int(row.value) for row in df.rdd.collect()) == list(range(21))


def test_topic_partition_for_start_offset_and_end_offset_must_match(cluster: Cluster, read: Read) -> None:
    with pytest.raises(PySparkException, match="wanted the same topic-partitions in both"):
        read("t", startingOffsets=by_partition(1, 1, 1), endingOffsets=by_partition(0, 0)).collect()


def test_unresolved_start_offset_greater_than_end_offset(cluster: Cluster, read: Read) -> None:
    with pytest.raises(PySparkException, match="found start offset 1 > end offset 0 for t-0"):
        read("t", startingOffsets=by_partition(1, 1, 1), endingOffsets=by_partition(0, 0, 0)).collect()


def test_resolved_start_offset_greater_than_end_offset_without_latest(cluster: Cluster, read: Read) -> None:
    cluster.create_topic("t", partitions=3)
    for partition in range(3):
        send(cluster, [0], partition, TIMES_MS[0])
        send(cluster, [0, 0, 0], partition, TIMES_MS[1])
    df = read("t", startingOffsets=by_partition(3, 3, 3), endingOffsetsByTimestamp=by_partition(*[TIMES_MS[1]] * 3))
    with pytest.raises(PySparkException, match=r"t-0: wanted a start not after the end, found start 3 .* > end 1"):
        df.collect()


def test_resolved_start_offset_greater_than_end_offset_with_latest(cluster: Cluster, read: Read) -> None:
    """Differs in its words: the start lies outside the log, which failOnDataLoss=false forgives."""
    cluster.create_topic("t", partitions=3)
    with pytest.raises(
        PySparkException, match=r"OFFSET_OUT_OF_RANGE: t-0: wanted offsets \[1, 0\).* the readable range is \[0, 0\)"
    ):
        read("t", startingOffsets=by_partition(1, 1, 1)).collect()
    assert read("t", startingOffsets=by_partition(1, 1, 1), failOnDataLoss="false").collect() == []


def test_the_source_is_a_v2_source(filled: Cluster, read: Read) -> None:
    assert "BatchScan" in read("t")._jdf.queryExecution().executedPlan().toString()


def test_dont_fail_on_data_loss_returns_no_record_twice(
    spark: SparkSession, cluster: Cluster, read: Read, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    send(cluster, range(50), 0)
    cluster.submit(MoveLogStart(TopicId(cluster.describe("t").topic_id), PartitionIndex(0), Offset(30)))
    df = read("t", startingOffsets=by_partition(0), failOnDataLoss="false", minPartitions=4)
    df.selectExpr("cast(value as string) as value").write.parquet(str(tmp_path / "written"))
    assert numbers(spark.read.parquet(str(tmp_path / "written"))) == list(range(30, 50))
