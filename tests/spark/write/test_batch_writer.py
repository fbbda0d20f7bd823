"""DataFrames into topics: one command for all partitions, repeats that add nothing, and what is refused."""

from __future__ import annotations

import logging
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructType

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.connection import Connection
from sparklog.core.commands import Submission
from sparklog.core.errors import (
    InconsistentClusterId,
    InvalidInput,
    Landed,
    OutcomeUnknown,
    OutOfOrderSequence,
    RecordTooLarge,
    SparklogError,
    StoreFull,
)
from sparklog.core.records import CommandResult
from sparklog.core.state_invariants import check
from sparklog.options.typed import parse_write_options
from sparklog.spark.write import batch_writer
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage, begin_write
from tests.faults.unchanged_cluster import unchanged
from tests.kit.log import values
from tests.spark.conftest import Read, Write

KEYED = StructType().add("key", "string").add("value", "string")
VALUES = StructType().add("value", "string")


def begun(cluster: Cluster, schema: StructType = VALUES, **options: object) -> BatchWriter:
    """What Spark holds after the driver's planner has run, without Spark."""
    given = {"cluster": cluster.connection.url, "topic": "t", **{name: str(each) for name, each in options.items()}}
    return begin_write(parse_write_options(given), schema)


def batch(*values: str, **more: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values), **more})


def ran(writer: BatchWriter, *batches: pa.RecordBatch, task: int = 0) -> TaskMessage:
    """The message of one task, as it reaches the driver."""
    message = pickle.loads(pickle.dumps(writer)).write(iter(batches))
    return TaskMessage(task, message.host, message.written)


def objects(cluster: Cluster) -> list[str]:
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    return [each.key for each in store.list_keys("append/") if each.key.endswith(".arrow")]


# ---- through Spark ------------------------------------------------------------------------------


# M: S-01 I-03
@pytest.mark.spark
@pytest.mark.sparks("write")
def test_rows_land_once_over_all_partitions(spark: SparkSession, cluster: Cluster, read: Read, write: Write) -> None:
    cluster.create_topic("t", partitions=4)
    df = spark.range(0, 1000, 1, 5).select(
        F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )
    write(df, "t")
    found = read("t")
    assert sorted(int(row.value) for row in found.collect()) == list(range(1000))
    assert found.where("cast(key as string) != cast(value as string)").count() == 0
    assert found.select("partition").distinct().count() == 4


@pytest.mark.spark
@pytest.mark.sparks("write")
def test_all_columns_survive_a_copy_from_topic_to_topic(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    for name in ("t", "u"):
        cluster.create_topic(name, partitions=3)
    df = spark.range(50).selectExpr(
        "encode(cast(id as string), 'utf-8') as key",
        "if(id % 7 = 0, null, concat('v', id)) as value",
        "cast(id % 3 as int) as partition",
        "timestamp_micros(1700000000000000 + id) as timestamp",
        "array(named_struct('key', 'a', 'value', encode('1', 'utf-8')), "
        "named_struct('key', 'a', 'value', encode('2', 'utf-8'))) as headers",
    )
    write(df, "t")
    write(read("t", includeHeaders="true"), "u")
    columns = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]
    first = read("t", includeHeaders="true").select(columns).orderBy("partition", "offset").collect()
    second = read("u", includeHeaders="true").select(columns).orderBy("partition", "offset").collect()
    assert first == second
    assert len(first) == 50


# M: I-06
@pytest.mark.spark
@pytest.mark.sparks("write")
def test_offsets_follow_spark_partition_and_row_order(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=1)
    df = (
        spark.range(0, 20_000, 1, 7)
        .select(F.xxhash64("id").alias("n"))
        .orderBy("n")
        .select(F.col("n").cast("string").alias("value"))
    )
    write(df, "t")
    landed = [int(row.value) for row in read("t").orderBy("offset").collect()]
    assert landed == sorted(landed)
    assert len(landed) == 20_000


# M: I-03
@pytest.mark.spark
@pytest.mark.sparks("write", since="4.0")
def test_a_write_over_topics_is_one_entry_of_the_chain(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    for name in ("a", "b"):
        cluster.create_topic(name, partitions=2)
    state = cluster.connection.newest_state()
    before = state.n
    write(
        spark.range(100).selectExpr("if(id % 2 = 0, 'a', 'b') as topic", "cast(id as string) as value"), writeId="both"
    )
    state = cluster.connection.newest_state()
    assert state.n == before + 1
    assert read("a,b").groupBy("topic").count().orderBy("topic").collect() == [("a", 50), ("b", 50)]
    written = read(metadata="writes").where("write_id = 'both'")
    assert written.groupBy("topic").agg(F.sum("records")).orderBy("topic").collect() == [("a", 50), ("b", 50)]
    assert written.select("entry", "command_id").distinct().count() == 1


# M: I-03
@pytest.mark.spark
@pytest.mark.sparks("again")
def test_the_same_application_version_again_adds_and_uploads_nothing(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=2)
    df = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) as value")
    write(df, "t", txnAppId="job", txnVersion=7)
    uploaded = objects(cluster)
    write(df, "t", txnAppId="job", txnVersion=7)
    write(df, "t", txnAppId="job", txnVersion=3)
    assert read("t").count() == 100
    assert objects(cluster) == uploaded
    write(df, "t", txnAppId="job", txnVersion=8)
    write(df, "t", txnAppId="other", txnVersion=7)
    assert read("t").count() == 300


@pytest.mark.spark
def test_null_values_are_tombstones_and_null_timestamps_are_the_clock(
    spark: SparkSession, cluster: Cluster, read: Read, write: Write
) -> None:
    cluster.create_topic("t", partitions=1)
    write(spark.sql("select 'k' as key, cast(null as string) as value, cast(null as timestamp) as timestamp"), "t")
    (row,) = read("t").collect()
    assert (row.key, row.value) == (b"k", None)
    assert row.timestamp is not None


@pytest.mark.spark
@pytest.mark.parametrize(
    ("select", "error"),
    [
        ("1 as value", "column 'value': wanted string or binary, found int32"),
        ("'a' as value, 2 as key", "column 'key': wanted string or binary, found int32"),
        ("'a' as value, 'x' as partition", "column 'partition': wanted int, found string"),
        ("'a' as value, timestamp_ntz'2025-01-01 00:00:00' as timestamp", "TimestampNTZ is refused: give it a zone"),
        ("'a' as value, array(1) as headers", "column 'headers': wanted list<struct<key: string, value: binary>>"),
        ("'a' as valeu", "column 'valeu' can't be written: a log has topic, partition, key, value"),
        ("'a' as key", "column 'value' (string or binary) is missing"),
    ],
)
@pytest.mark.sparks("wrong")
def test_wrong_columns_are_refused_before_any_task(
    spark: SparkSession, cluster: Cluster, write: Write, select: str, error: str
) -> None:
    cluster.create_topic("t", partitions=2)
    with unchanged(cluster.connection.url, ()), pytest.raises(PySparkException, match="INVALID_REQUEST") as raised:
        write(spark.sql(f"select {select}"), "t")
    assert error in str(raised.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("select", "options", "error"),
    [
        (
            "'a' as value, 9 as partition",
            {"topic": "t"},
            "UNKNOWN_TOPIC_OR_PARTITION: column 'partition': wanted 0 to 1, found 9",
        ),
        ("'a' as value, 'u' as topic", {}, "UNKNOWN_TOPIC_OR_PARTITION: a row names topic 'u'"),
        (
            "'a' as value, cast(null as string) as topic",
            {},
            "INVALID_REQUEST: column 'topic': wanted a topic in each row",
        ),
        ("repeat('a', 2000) as value", {"topic": "t"}, "RECORD_TOO_LARGE: topic t, key None"),
        ("'a' as value", {}, "INVALID_REQUEST: no topic is given: set the option 'topic'"),
        ("'a' as value", {"topic": "nope"}, "UNKNOWN_TOPIC_OR_PARTITION: wanted topic 'nope'"),
        ("'a' as value", {"topic": "no/pe"}, "INVALID_TOPIC_EXCEPTION"),
        ("'a' as value", {"topic": "t", "txnAppId": "x"}, "INVALID_OPTION"),
        ("'a' as value", {"topic": "t", "compresion": "lz4"}, "did you mean compression"),
        ("'a' as value", {"topic": "t", "cluster": "/nowhere/at/all"}, "CLUSTER_NOT_FOUND: no cluster at file:///now"),
    ],
)
def test_wrong_writes_are_refused_and_change_nothing(
    spark: SparkSession, cluster: Cluster, write: Write, select: str, options: dict[str, str], error: str
) -> None:
    cluster.create_topic("t", partitions=2, config={"max.message.bytes": 1000})
    with unchanged(cluster.connection.url), pytest.raises(PySparkException) as raised:
        write(spark.sql(f"select {select}"), **options)
    assert error in str(raised.value)
    assert cluster.describe("t").records == 0


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["overwrite", "ignore", "error"])
@pytest.mark.sparks("wrong")
def test_only_append_is_a_mode_of_a_log(spark: SparkSession, cluster: Cluster, mode: str) -> None:
    cluster.create_topic("t", partitions=1)
    writer = spark.sql("select 'a' as value").write.format("sparklog").mode(mode)
    wanted = 'use mode\\("append"\\)' if mode == "overwrite" else "cannot be written (in the|with)"
    with pytest.raises(PySparkException, match=wanted):
        writer.option("cluster", cluster.connection.url).option("topic", "t").save()
    assert cluster.describe("t").records == 0


# ---- without Spark ------------------------------------------------------------------------------


# M: I-06
def test_offsets_follow_the_spark_partition_whatever_order_tasks_finish_in(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster)
    messages = [ran(writer, batch(f"task {task}"), task=task) for task in (2, 0, 1)]
    writer.commit(messages)
    assert values(cluster) == ["task 0", "task 1", "task 2"]


def test_a_commit_without_the_message_of_a_task_is_refused(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster)
    with pytest.raises(InvalidInput, match="wanted a message from each task, got 1 of 2"):
        writer.commit([ran(writer, batch("a")), None])
    assert values(cluster) == []


def test_a_write_that_was_begun_on_another_cluster_at_the_address_is_refused(tmp_path: Path) -> None:
    url = str(tmp_path / "again")
    for topic in ("t", "other"):
        shutil.rmtree(url, ignore_errors=True)
        init_cluster(url)
        with sparklog.connect(url) as made:
            made.create_topic(topic, partitions=1)
            if topic == "t":
                writer = begun(made)
                message = ran(writer, batch("a"))
    with pytest.raises(InconsistentClusterId, match="deleted and created again"):
        writer.commit([message])
    with sparklog.connect(url) as made:
        assert made.describe("other").records == 0


# M: I-03
def test_commit_again_after_a_lost_reply_changes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster)
    messages = [ran(writer, batch("a", "b"))]
    writer.commit(messages)
    pickle.loads(pickle.dumps(writer)).commit(messages)
    assert values(cluster) == ["a", "b"]


# M: I-03
def test_abort_after_a_commit_deletes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster)
    messages = [ran(writer, batch("a"))]
    writer.commit(messages)
    writer.abort(messages)
    assert values(cluster) == ["a"]


# M: I-03
def test_nothing_is_visible_before_commit_nor_after_abort(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster)
    message = ran(writer, batch("a"))
    assert len(objects(cluster)) == 1
    assert cluster.describe("t").records == 0
    writer.abort([message, None])
    assert cluster.describe("t").records == 0


def test_a_write_without_rows_commits_nothing(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    state = cluster.connection.newest_state()
    before = state.n
    writer = begun(cluster)
    writer.commit([ran(writer), ran(writer, task=1)])
    state = cluster.connection.newest_state()
    assert state.n == before


def test_a_version_without_rows_is_written_all_the_same(cluster: Cluster) -> None:
    """As Delta's: when it is run again, with rows that came late, it adds nothing."""
    cluster.create_topic("t", partitions=1)
    for _ in range(2):
        empty = begun(cluster, txnAppId="job", txnVersion=7)
        empty.commit([ran(empty)])
    late = begun(cluster, txnAppId="job", txnVersion=7)
    assert late.done == 7
    late.commit([ran(late, batch("late"))])
    assert values(cluster) == []
    following = begun(cluster, txnAppId="job", txnVersion=8)
    following.commit([ran(following, batch("a"))])
    assert values(cluster) == ["a"]
    state = cluster.connection.newest_state()
    check(state)


def test_tasks_of_a_known_version_do_not_even_read_their_rows(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    first = begun(cluster, txnAppId="job", txnVersion=1)
    first.commit([ran(first, batch("a"))])

    def rows() -> Iterator[pa.RecordBatch]:
        raise AssertionError("the rows of a write that is done were asked for")
        yield

    again = begun(cluster, txnAppId="job", txnVersion=1)
    again.commit([again.write(rows())])
    assert values(cluster) == ["a"]


# M: I-03
def test_two_writers_of_one_version_that_race_write_it_once(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writers = [begun(cluster, txnAppId="job", txnVersion=1) for _ in range(2)]
    messages = [ran(writer, batch("a")) for writer in writers]
    for writer, message in zip(writers, messages, strict=True):
        writer.commit([message])
    assert values(cluster) == ["a"]


def test_a_version_of_other_rows_is_no_repeat_if_its_author_says_so(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    writers = [begun(cluster, txnAppId="job", txnVersion=1, txnDigest=digest) for digest in ("a", "b")]
    messages = [ran(writer, batch("a")) for writer in writers]
    writers[0].commit(messages[:1])
    with pytest.raises(
        OutOfOrderSequence, match=r"version 1 of job was written in entry \d+, and is made of something"
    ):
        writers[1].commit(messages[1:])
    for version, digest in ((1, "b"), (0, "a")):
        with pytest.raises(OutOfOrderSequence, match="a job gives new rows the next version"):
            begun(cluster, txnAppId="job", txnVersion=version, txnDigest=digest)
    assert begun(cluster, txnAppId="job", txnVersion=1, txnDigest="a").done == 1
    assert begun(cluster, txnAppId="job", txnVersion=0).done == 1, "as before, for whoever can't tell"
    assert values(cluster) == ["a"]


@pytest.mark.parametrize(
    "error", [OutcomeUnknown("entry 4 was sent and no reply came"), StoreFull("no room", landed=Landed.UNKNOWN)]
)
def test_unknown_outcome_names_the_write_and_what_to_do(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, error: SparklogError
) -> None:
    cluster.create_topic("t", partitions=1)

    def lost(connection: object, submission: Submission, timeout_ms: int) -> CommandResult:
        raise error

    monkeypatch.setattr("sparklog.chain.commit.committer.Committer.submit", lost)
    plain, named = begun(cluster, writeId="nightly"), begun(cluster, txnAppId="job", txnVersion=1)
    with pytest.raises(
        OutcomeUnknown,
        match=r"write [0-9a-f]{32} \(nightly\) may have landed: look the write up with 'sparklog chain",
    ):
        plain.commit([ran(plain, batch("a"))])
    with pytest.raises(OutcomeUnknown, match="run it again with the same txnAppId 'job' and txnVersion 1"):
        named.commit([ran(named, batch("a"))])


# M: P-03
def test_acks_1_is_for_one_partition(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    with pytest.raises(
        InvalidInput, match="acks=1 writes to one partition, found 2 partitions \\(t: 2\\): use acks=all"
    ):
        begun(cluster, acks="1")
    routed = VALUES.add("partition", IntegerType())
    writer = begun(cluster, routed, acks="1")
    one, both = (batch("a", "b", partition=pa.array(each, pa.int32())) for each in ([1, 1], [0, 1]))
    with pytest.raises(InvalidInput, match="found 2 partitions"):
        writer.commit([ran(writer, both)])
    writer.commit([ran(writer, one)])
    assert values(cluster, 1) == ["a", "b"]


def test_no_secret_is_in_what_travels_to_tasks(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1)
    more = {"storage.local.secret_access_key": "hush", "cluster.token": "whisper"}
    travels = pickle.dumps(begun(cluster, VALUES, **more))
    assert b"hush" not in travels
    assert b"whisper" not in travels


# M: S-06
def test_a_record_that_is_too_large_stops_its_task(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=1, config={"max.message.bytes": 10})
    with pytest.raises(RecordTooLarge, match="topic t"):
        ran(begun(cluster), batch("a" * 11))


def test_old_records_and_small_slices_are_warned_of(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", partitions=4, config={"retention.ms": 86_400_000})
    old = pa.array([1_000_000, 2_000_000], pa.timestamp("us", tz="UTC"))
    writer = begun(cluster, VALUES.add("timestamp", "timestamp"))
    monkeypatch.setattr(batch_writer, "MANY_SLICES", 2)
    writer.commit([ran(writer, batch("a", "b", timestamp=old), task=task) for task in range(2)])
    wanted = "topic t has retention.ms=86400000 (1 day), and 4 records just written are older: the next retention run"
    assert f"{wanted} would remove them" in caplog.text
    assert re.search(r"this write made 2 slices of \d+ B on average", caplog.text)
    assert "sparklog.spark.by_partition(df, 't', tasks=N)" in caplog.text


def test_a_write_that_landed_does_not_fail_for_want_of_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("cannot find out")

    cluster.create_topic("t", partitions=1)
    monkeypatch.setattr(batch_writer, "_warn", broken)
    writer = begun(cluster)
    writer.commit([ran(writer, batch("a"))])
    assert "landed, but checking it for warnings failed: cannot find out" in caplog.text
    assert cluster.read("t", partition=0).num_rows == 1


def test_options_without_effect_are_warned_of_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.create_topic("t", partitions=1)
    begun(cluster, VALUES, **{"kafka.linger.ms": 5, "kafka.batch.size": 9})
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "kafka.batch.size" in record.message
    assert "kafka.linger.ms" in record.message


def test_columns_that_are_not_the_logs_are_warned_of_once_by_name(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("t", partitions=1)
    writer = begun(cluster, StructType().add("id", "long").add("value", "string").add("tags", ArrayType(StringType())))
    writer.commit([ran(writer, batch("a", id=pa.array([1])), task=task) for task in range(2)])
    cluster.append("t", pa.table({"id": pa.array([1]), "value": ["b"]}))
    driver, embedded = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert driver.startswith("columns that are not written: id, tags (a log has topic, partition, key, value")
    assert embedded.startswith("columns that are not written: id (a log has")
    assert values(cluster) == ["a", "a", "b"]


def test_a_version_that_is_skipped_is_warned_of_with_the_one_that_is_there(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("t", partitions=1)
    for version in (7, 3):
        writer = begun(cluster, txnAppId="job", txnVersion=version)
        writer.commit([ran(writer, batch("a"))])
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith(
        "nothing was written: txnAppId 'job' has written txnVersion 7 already, and this write is version 3"
    )


def test_acks_of_a_kafka_job_never_refuse_many_partitions(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    for acks in ("0", "1"):
        writer = begun(cluster, **{"kafka.acks": acks})
        writer.commit([ran(writer, batch(*"abcdefgh", key=pa.array([*"abcdefgh"])))])
    assert len(values(cluster, 0)) + len(values(cluster, 1)) == 16
    assert values(cluster, 0)
    assert values(cluster, 1)


def test_objects_on_an_executors_own_disk_are_never_committed(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """file:// with executors on other machines: either they share the path, or the commit is refused."""
    cluster.create_topic("t", partitions=1)
    shared = begun(cluster)
    shared.commit([TaskMessage(0, "far-away", ran(shared, batch("a")).written)])
    assert "tasks ran on far-away: all executors must share it" in caplog.text
    own = begun(cluster)
    message = TaskMessage(0, "far-away", ran(own, batch("b")).written)
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    newest = max(objects(cluster), key=lambda key: key.rsplit("/", 1)[1].split("-")[0])
    store.delete(newest)
    with pytest.raises(InvalidInput, match="needs a path that all of them share"):
        own.commit([message])
    assert cluster.describe("t").records == 1


def test_connections_are_kept_between_writes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker process of Spark is reused: the second write opens no cluster, it only catches up."""
    cluster.create_topic("t", partitions=1)
    first = begun(cluster)
    first.commit([ran(first, batch("a"))])

    def opened(*args: object) -> None:
        raise AssertionError("a second connection was opened")

    monkeypatch.setattr(Connection, "__init__", opened)
    second = begun(cluster)
    second.commit([ran(second, batch("b"))])
