r"""What a job that moves over from Spark's Kafka connector meets, and no case of the connector's own suites says.

The docstring of each test is its row in docs/compat.md (`make docs`): what | the connector | sparklog. What the
connector does was looked up in its source (KafkaSourceProvider, KafkaWriter, KafkaRowWriter, JsonUtils); what its JSON
parser takes was tried with the Jackson that Spark 4.2 brings.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import DateType, LongType, StringType, StructType, TimestampNTZType

from sparklog.client.cluster import Cluster
from sparklog.client.plans.read_plan import plan_read
from sparklog.core.errors import InvalidInput, InvalidOption, InvalidRecord, SparklogError, UnknownTopicOrPartition
from sparklog.core.reading.plan import RangeToRead
from sparklog.core.replication.replica_append import Acks
from sparklog.log.stored_schema import HEADERS, STORED_HEADERS
from sparklog.options.typed import ReadOptions, WriteOptions, parse_read_options, parse_write_options
from sparklog.spark.read.batch_reader import BatchReader
from sparklog.spark.schema import check_written
from tests.kit.log import new_cluster
from tests.spark.conftest import Read

PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))


@pytest.fixture
def log() -> Iterator[Cluster]:
    """A cluster in this process, with topic t of three partitions."""
    with new_cluster() as made:
        made.create_topic("t", partitions=3)
        yield made


def reading(**options: str) -> ReadOptions:
    what = {} if {"assign", "subscribePattern"} & set(options) else {"subscribe": "t"}
    return parse_read_options({"cluster": "/c", **what, **options})


def writing(**options: str) -> WriteOptions:
    return parse_write_options({"cluster": "/c", "topic": "t", **options})


def tasks(log: Cluster, **options: str) -> list[list[RangeToRead]]:
    state = log.connection.newest_state()
    return plan_read(state, reading(**options), log.connection.stores(state)).tasks


def column(log: Cluster, name: str, partition: int = 0) -> list[object]:
    return log.read("t", partition=partition, columns=[name])[name].to_pylist()


# ---- rows to write ------------------------------------------------------------------------------


def test_columns_that_are_not_the_logs_are_left_out_with_a_warning(
    log: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Columns besides key, value, topic, partition, headers | ignored | left out, and one warning names them; a name
    like one of the log's (`vlaue`, `Key`, `header`) is an error that offers it, because such a row would lose it"""
    log.append("t", pa.table({"value": ["a"], "id": [1], "event_time": ["x"], "partition": [0]}))
    assert "columns that are not written: id, event_time" in caplog.text
    for name in ("vlaue", "Key", "header"):
        with pytest.raises(InvalidInput, match="did you mean"):
            log.append("t", pa.table({"value": ["a"], name: ["b"]}))
    assert column(log, "value") == [b"a"]


def test_a_timestamp_column_is_the_records_timestamp(log: Cluster) -> None:
    """A column `timestamp` | ignored: records get the time of the producer's clock | the record's timestamp, in
    microseconds; null means the time of the task's clock"""
    given = pa.array([1_700_000_000_000_001, None], pa.timestamp("us", tz="UTC"))
    log.append("t", pa.table({"value": ["a", "b"], "timestamp": given, "partition": [0, 0]}))
    first, second = log.read("t", partition=0)["timestamp"].cast(pa.int64()).to_pylist()
    assert first == 1_700_000_000_000_001
    assert second > first


def test_a_timestamp_column_of_another_type_is_refused() -> None:
    """A column `timestamp` of text, numbers, dates or TIMESTAMP_NTZ | ignored | refused before any task: cast it, or
    drop it"""
    for kind in (StringType(), LongType(), DateType(), TimestampNTZType()):
        with pytest.raises(
            InvalidInput, match=r"column 'timestamp': wanted a timestamp .* (or drop it|give it a zone)"
        ):
            check_written(StructType().add("value", "string").add("timestamp", kind), "t")


def test_partition_numbers_may_be_of_any_integer_type(log: Cluster) -> None:
    """A column `partition` of tinyint, smallint or bigint | refused: it must be int | accepted if the number fits"""
    for number, kind in enumerate((pa.int8(), pa.int16(), pa.int64())):
        log.append("t", pa.table({"value": ["a"], "partition": pa.array([number], kind)}))
    assert [log.read("t", partition=partition).num_rows for partition in range(3)] == [1, 1, 1]


def test_values_of_headers_may_be_strings(log: Cluster) -> None:
    """Headers with values of type string | refused: they must be binary | encoded as UTF-8"""
    headers = pa.array([[{"key": "a", "value": "ü"}]], PAIRS)
    log.append("t", pa.table({"value": ["a"], "headers": headers, "partition": [0]}))
    assert column(log, "headers") == [[{"key": "a", "value": "ü".encode()}]]


def test_keys_of_headers_are_utf_8_and_never_null(log: Cluster) -> None:
    """Headers whose keys are null, or not UTF-8 (`cast(X'FF' as string)`) | null is an error of Java; other bytes are
    replaced in silence | INVALID_RECORD, which names the topic and the key of the record; nothing is written"""
    for key in (None, b"\xff"):
        headers = pa.array([[{"key": key, "value": b"x"}]], STORED_HEADERS).view(HEADERS)
        with pytest.raises(InvalidRecord, match="topic t, key b'k': wanted headers whose keys are UTF-8, found one"):
            log.append("t", pa.table({"key": ["k"], "value": ["a"], "headers": headers}))
    assert log.describe("t").records == 0


def test_partitions_that_are_not_there_are_refused_at_once(log: Cluster) -> None:
    """Partitions that the topic does not have, in `assign` or in a column `partition` | Kafka's client waits for them
    until it times out | an error at once that names the partitions that exist"""
    with pytest.raises(UnknownTopicOrPartition, match="wanted partition 7 of topic t, it has partitions 0 to 2"):
        tasks(log, assign='{"t":[7]}')
    with pytest.raises(UnknownTopicOrPartition, match="column 'partition': wanted 0 to 2, found 7: topic t has 3"):
        log.append("t", pa.table({"value": ["a"], "partition": [7]}))


# ---- options ------------------------------------------------------------------------------------


def test_options_that_nobody_knows_are_an_error() -> None:
    """Unknown options (`startingOffset`) | ignored | an error that offers the nearest one"""
    for parse in (reading, writing):
        with pytest.raises(InvalidOption, match="did you mean"):
            parse(startingOffset="earliest", topik="t")


def test_options_of_the_other_side_and_of_streams_are_warned_of() -> None:
    """Options of the other side or of streams (`includeHeaders` on a write, `checkpointLocation`) | ignored | ignored,
    and one warning names them"""
    write = writing(includeHeaders="true", startingOffsets="latest", checkpointLocation="/c")
    assert [each.name for each in write.ignored] == ["checkpointLocation", "includeHeaders", "startingOffsets"]
    read = reading(topic="u", acks="1", maxOffsetsPerTrigger="5")
    assert [each.name for each in read.ignored] == ["acks", "maxOffsetsPerTrigger", "topic"]


def test_a_path_is_never_taken_for_a_cluster() -> None:
    """`load(path)`, `save(path)` | the path is ignored | ignored with a warning; refused if the address comes only from
    `SPARKLOG_CLUSTER`, because the path may be meant for it"""
    assert [each.name for each in writing(path="/elsewhere").ignored] == ["path"]
    with pytest.raises(InvalidOption, match="a batch read takes no path; name the cluster"):
        parse_read_options({"subscribe": "t", "path": "/elsewhere"}, "/from/the/environment")


def test_acks_and_codecs_of_kafka_that_are_not_here_become_the_nearest() -> None:
    """`kafka.acks` 0 or 1, `kafka.compression.type` gzip or snappy | used as given | `acks=all` and zstd, with a
    warning: a Spark write is one commit"""
    for acks in ("0", "1"):
        assert writing(**{"kafka.acks": acks}).acks is Acks.ALL
    for codec in ("gzip", "snappy"):
        options = writing(**{"kafka.compression.type": codec})
        assert options.compression is None
        assert len(options.ignored) == 1


def test_numbers_in_json_must_be_whole() -> None:
    """`null` or a fraction as an offset, a timestamp or a partition in JSON | `null` is 0, 1.5 is 1 | refused, and
    the error says where it is"""
    for number in ("null", "1.5"):
        for option, text in (
            ("startingOffsets", f'{{"t":{{"0":{number}}}}}'),
            ("startingOffsetsByTimestamp", f'{{"t":{{"0":{number}}}}}'),
        ):
            with pytest.raises(InvalidOption, match=f"{option}: t-0: wanted"):
                reading(**{option: text})
        with pytest.raises(InvalidOption, match="assign: wanted partition numbers"):
            reading(assign=f'{{"t":[{number}]}}')


def test_json_that_says_a_thing_twice_is_refused() -> None:
    """A topic or partition twice in JSON, a partition `00`, text after the JSON, an offset below -2 | accepted; the
    last one is used | refused"""
    for text in (
        '{"t":{"0":1,"0":2}}',
        '{"t":{"0":1},"t":{"1":2}}',
        '{"t":{"00":1}}',
        '{"t":{"0":1}} more',
        '{"t":{"0":-5}}',
    ):
        with pytest.raises(InvalidOption, match="startingOffsets"):
            reading(startingOffsets=text)
    with pytest.raises(InvalidOption, match="each once"):
        reading(assign='{"t":[0,0]}')


def test_times_may_be_iso_8601_with_a_zone() -> None:
    """ISO 8601 in `startingTimestamp` and similar options | refused: only milliseconds | accepted, with a zone"""
    as_text = reading(startingTimestamp="2025-01-01T01:00:00+01:00")
    assert as_text.start == reading(startingTimestamp="1735689600000").start
    with pytest.raises(InvalidOption, match="wanted a time with its zone"):
        reading(startingTimestamp="2025-01-01T00:00:00")


def test_patterns_are_pythons() -> None:
    r"""`subscribePattern` | a Java regular expression | a Python regular expression. Both must match the whole name.
    Syntax that only Java has (`\p{Alpha}`, `(?<name>…)`) is refused with the reason: write `[A-Za-z]`, `(?P<name>…)`"""
    for pattern, reason in ((r"\p{Alpha}+", "bad escape"), ("(?<name>t)", "unknown extension")):
        with pytest.raises(InvalidOption, match=rf"a regular expression \(Python's\), found .*: {reason}"):
            reading(subscribePattern=pattern)
    reading(subscribePattern="(?P<name>[A-Za-z]+)")


# ---- reads and writes ---------------------------------------------------------------------------


def test_tasks_are_sized_by_records_and_bytes(log: Cluster) -> None:
    """Tasks of a read | one for each partition, unless `minPartitions` or `maxRecordsPerPartition` splits it | small
    ranges share a task of up to a million records (`maxRecordsPerPartition`) and 128 MiB stored
    (`maxBytesPerPartition`); larger ranges are split. So a small read is one task, and a bulk read uses all cores"""
    log.append("t", pa.table({"value": [b"v"] * 600, "partition": [0, 1, 2] * 200}))
    assert len(tasks(log)) == 1
    assert len(tasks(log, maxRecordsPerPartition="100")) == 6
    assert len(tasks(log, minPartitions="6")) == 6


def test_what_to_read_is_said_by_options(log: Cluster) -> None:
    """`where` on partition, offset or timestamp, and `select` | everything is read, then filtered | the same, because
    Spark passes neither to a Python data source. Use `assign`, `startingOffsets`, `startingTimestamp` and the options
    for the end instead, and `columns`, which leaves out all other columns"""
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    log.append("t", pa.table({"value": [b"v"] * 30, "partition": [0, 1, 2] * 10}))
    ends = {"startingOffsets": '{"t":{"1":4}}', "endingOffsets": '{"t":{"1":6}}'}
    ((only,),) = tasks(log, assign='{"t":[1]}', **ends)
    assert (only.partition, only.start, only.end) == (1, 4, 6)
    assert reading(columns="offset").columns == ("offset",)


@pytest.mark.spark
def test_views_keep_what_they_were_first_planned_with(spark: SparkSession, cluster: Cluster, read: Read) -> None:
    """Temporary views, and DataFrames that are used again | ask Kafka for "latest" at each action | keep the "latest"
    of their first planning; create the view again to see more"""
    cluster.create_topic("t", partitions=1)
    cluster.append("t", pa.table({"value": ["a"]}))
    read("t").createOrReplaceTempView("kept")
    assert spark.sql("SELECT count(*) FROM kept").first() == (1,)
    cluster.append("t", pa.table({"value": ["late"]}))
    assert spark.sql("SELECT count(*) FROM kept").first() == (1,)
    read("t").createOrReplaceTempView("kept")
    assert spark.sql("SELECT count(*) FROM kept").first() == (2,)


@pytest.mark.spark
def test_errors_begin_with_a_code(read: Read, cluster: Cluster) -> None:
    """Exceptions | `IllegalArgumentException`, `AnalysisException`, Kafka's own | PySpark's (`AnalysisException` during
    planning, `PythonException` from tasks), with a text that begins with `CODE: ` as in [errors](errors.md); in Python
    without Spark, subclasses of `sparklog.core.errors.SparklogError`"""
    with pytest.raises(AnalysisException, match="INVALID_OPTION: startingOffsets: wanted earliest or offsets by"):
        read("t", startingOffsets="sometime")
    cluster.create_topic("t", partitions=1)
    frame = read("t", startingOffsets="latest")  # a stream may begin there: Spark says only now which one it wants
    with pytest.raises(AnalysisException, match="INVALID_OPTION: startingOffsets: a batch read can't start at latest"):
        frame.collect()
    with pytest.raises(SparklogError) as raised:
        reading(startingOffsets="latest")
    assert str(raised.value).startswith(f"{raised.value.code}: ")


@pytest.mark.spark
def test_a_write_says_its_mode(spark: SparkSession, cluster: Cluster) -> None:
    """A write without `.mode(…)` | appends | refused by Spark, as for every Python data source: write
    `.mode("append")`"""
    writer = spark.sql("SELECT 'a' AS value").write.format("sparklog").option("cluster", cluster.connection.url)
    with pytest.raises(AnalysisException, match='cannot be written in the "ErrorIfExists" mode'):
        writer.option("topic", "t").save()
