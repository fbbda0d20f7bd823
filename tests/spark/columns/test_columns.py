"""Reads by Java: the same rows and errors as Python's, of every kind of log, and from whichever holder is left."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from sparklog.client.cluster import Cluster
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.core.commands import FenceStore
from sparklog.core.state import FORMAT
from sparklog.core.types import StoreId
from sparklog.log.index import INDEX_FORMAT_KEY, Index, encode_index
from sparklog.log.stored_schema import HEADERS
from tests.client.compacting import mixed_log
from tests.client.replicated_cluster import come_back
from tests.faults.store_folders import StoreFolders
from tests.jar import jar
from tests.spark.columns.conftest import Both, below_jvm, failure, metric, sorted_rows
from tests.spark.conftest import OneSpark
from tests.spark.rewriting import roll_and_delete
from tests.spark.stream.test_dimensions import joined_with_a_topic_that_grows

pytestmark = pytest.mark.spark
Frame = Callable[..., DataFrame]
GOLDEN = Path(__file__).parents[2] / "golden" / f"format-{FORMAT}" / "cluster"
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def records(dice: random.Random, count: int) -> pa.Table:
    """Records with null and empty keys, values of many sizes and periods, and headers or none."""
    pairs = [None, [], [{"key": "h", "value": b"x"}], [{"key": "", "value": None}, {"key": "é", "value": b""}]]
    return pa.table(
        {
            "key": pa.array([dice.choice([None, b"", b"k%d" % at]) for at in range(count)], pa.binary()),
            "value": pa.array(
                [
                    dice.choice([None, b"v" * dice.choice([0, 1, 9, 700]), dice.randbytes(at % 12) * dice.randrange(9)])
                    for at in range(count)
                ],
                pa.binary(),
            ),
            "headers": pa.array([dice.choice(pairs) for _ in range(count)], HEADERS),
            "partition": pa.array([dice.randrange(2) for _ in range(count)], pa.int32()),
        }
    )


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
def test_java_reads_what_python_reads(cluster: Cluster, both: Both, compression: str, stamped: str) -> None:
    """Random ranges and columns, before and after a roll; batches are large, small, and of one record."""
    dice = random.Random(f"{compression} {stamped}")
    cluster.create_topic("t", partitions=2, config={"message.timestamp.type": stamped})
    for count in (3000, 1, 40, 400):
        cluster.append("t", records(dice, count), compression=compression)
    assert len(both("t", includeHeaders="true")) == 3441
    for _ in range(2):
        for _ in range(2):
            start, end = sorted(dice.randrange(1600) for _ in range(2))
            some = ",".join(dice.sample(ALL, dice.randrange(1, len(ALL) + 1)))
            both(
                "t",
                columns=some,
                startingOffsets=f'{{"t":{{"0":{start},"1":0}}}}',
                endingOffsets=f'{{"t":{{"0":{end},"1":1}}}}',
            )
        roll_and_delete(cluster, "t")


def test_java_reads_a_compacted_log_by_its_column_of_offsets(cluster: Cluster, both: Both) -> None:
    mixed_log(cluster)
    assert len(both("t", includeHeaders="true")) == len(both("t", columns="offset")) == len(both("t", columns="value"))
    for start, end in ((5, 47), (20, 21), (6, 40), (39, 60)):
        both("t", startingOffsets=f'{{"t":{{"0":{start}}}}}', endingOffsets=f'{{"t":{{"0":{end}}}}}')


def test_java_reads_the_golden_cluster(columnar: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "golden")
    rows = []
    for reader in ("columns", "rows"):
        asked = columnar.read.format("sparklog").option("cluster", str(tmp_path / "golden")).option("reader", reader)
        frame = asked.option("subscribePattern", ".*").option("includeHeaders", "true").load()
        rows.append(sorted_rows(frame))
    assert rows[0] == rows[1] != []


@pytest.mark.parametrize("claimed", [{"topic_id": 2}, {"partition": 1}])
def test_java_reads_no_batches_of_another_topic_or_partition(
    cluster: Cluster, columnar: SparkSession, frame: Frame, claimed: dict[str, int]
) -> None:
    """The chain says only what the author of the append has claimed. Python, which is asked then, has the error."""
    for topic in ("secret", "mine"):
        cluster.create_topic(topic, partitions=2)
    written = pa.table({"value": ["secret"] * 3, "partition": pa.array([0] * 3, pa.int32())}).to_batches()
    plan, uploaded, _ = plan_and_upload(cluster.connection, "secret", written, None, Durability(), 60_000)
    command = append_command(plan, [uploaded])
    assert command is not None
    topic = {name: value for name, value in claimed.items() if name == "topic_id"}
    cluster.connection.submit(
        replace(
            command,
            objects=tuple(replace(each, **topic) for each in command.objects),
            slices=tuple(replace(each, **claimed) for each in command.slices),
            epochs=tuple(replace(each, **claimed) for each in command.epochs),
        )
    )
    error = failure(frame("columns", "mine" if topic else "secret"))
    assert "CORRUPT_MESSAGE" in error
    assert "found one of partition 0 of topic id 1" in error


def test_java_reads_no_object_of_an_older_format(
    cluster: Cluster, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index lacks the topic of the batches. Python, which is asked then, says that nothing is damaged."""
    cluster.create_topic("t")
    encode = partial(encode_index_of_format, {INDEX_FORMAT_KEY: b"1"})
    monkeypatch.setattr("sparklog.log.write.open_object.encode_index", encode)
    cluster.append("t", pa.table({"value": ["older"]}))
    error = failure(frame("columns", "t"))
    assert "UNSUPPORTED_VERSION" in error
    assert "wanted format 3 or 4, found b'1'" in error


def encode_index_of_format(metadata: dict[bytes, bytes], index: Index) -> pa.Buffer:
    """The bytes of an index whose schema has this metadata."""
    table = pa.ipc.open_file(encode_index(index)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_a_query_reads_only_the_columns_it_uses(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": [b"v" * 1000] * 1000}), compression="none")
    offsets = frame("columns", "t").selectExpr("sum(offset)")
    assert offsets.collect() == [(499_500,)]
    plan = offsets._jdf.queryExecution().executedPlan().toString()
    assert "sparklog columns offset" in plan
    whole = frame("columns", "t").select("offset")
    assert [row.offset for row in whole.collect()] == list(range(1000))
    assert metric(whole, "requests") == metric(whole, "bytesRead") == 0, "the chain knows the offsets"
    assert frame("columns", "t").count() == 1000


def test_any_folder_name_is_read_by_java(columnar: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "a b%20ü@=+#")
    init_cluster(url)
    with sparklog.connect(url) as cluster:
        cluster.create_topic("t", partitions=2)
        cluster.append("t", records(random.Random(4), 20))
    frame = _frame(columnar, url, "columns")
    assert len(frame.collect()) == 20
    assert metric(frame, "rangesInPython") == 0


def test_parts_of_headers_are_those_of_the_record(cluster: Cluster, frame: Frame) -> None:
    """Spark asks for a part of a nested column, if a query uses only that."""
    cluster.create_topic("t", partitions=2)
    cluster.append("t", records(random.Random(3), 50))
    for query in ("headers.value", "headers.key", "get(headers, 0).value", "explode(headers.value)", "size(headers)"):
        columns, rows = (frame(reader, "t", includeHeaders="true").selectExpr(query) for reader in ("columns", "rows"))
        assert sorted_rows(columns) == sorted_rows(rows), query


def test_filters_spare_what_they_rule_out(cluster: Cluster, frame: Frame) -> None:
    """Any filter gives the rows that it gives by Python; ranges and slices outside of it are not opened."""
    for topic in ("t", "u"):
        cluster.create_topic(topic, partitions=2)
        for at in range(4):
            times = pa.array([1_000_000 * (1000 * at + second) for second in range(100)], pa.timestamp("us", "UTC"))
            rows = records(random.Random(f"{topic} {at}"), 100).append_column("timestamp", times)
            cluster.append(topic, rows)
    filters = [
        "partition = 1",
        "partition in (0, 7)",
        "topic = 'u'",
        "topic in ('t', 'nothing') and partition = 0",
        "offset >= 60",
        "offset > 60 and offset < 70",
        "offset = 63",
        "offset between 100 and 1000000 and partition = 1",
        "offset <= 9223372036854775807",
        "offset < 0",
        "timestamp >= timestamp_micros(2000000000)",
        "timestamp = timestamp_micros(1000000000) and topic = 't'",
        "timestamp > '1970-01-01' and timestamp < timestamp_micros(1000050000000)",
        "timestamp > '1500-01-01'",
        "offset = 3 or partition = 1",
        "not (partition = 1)",
        "partition = offset",
        "offset is null",
        "value is null and offset > 20",
        "partition <=> 1",
        "timestamp < current_timestamp()",
    ]
    for filter_ in filters:
        columns, rows = (frame(reader, "t,u", includeHeaders="true").where(filter_) for reader in ("columns", "rows"))
        assert sorted_rows(columns) == sorted_rows(rows), filter_
    for filter_, reads in (("partition = 1 and topic = 't'", 8), ("timestamp = timestamp_micros(2000000000)", 8)):
        pruned = frame("columns", "t,u").where(filter_)
        pruned.collect()
        assert metric(pruned, "requests") <= reads, "of 32: an index and a body for each slice"


def test_metadata_and_what_else_java_does_not_do_stay_with_python(
    cluster: Cluster, frame: Frame, columnar: SparkSession
) -> None:
    """One name for both: what Java does not do goes to the Python source, in the same session."""
    cluster.create_topic("t")
    rows = columnar.range(10).selectExpr("cast(id as string) as value")
    url = cluster.connection.url
    rows.write.format("sparklog").mode("append").option("cluster", url).option("topic", "t").save()
    assert frame("auto", "t").count() == 10
    assert "sparklog columns" not in frame("rows", "t")._jdf.queryExecution().executedPlan().toString()
    topics = columnar.read.format("sparklog").option("cluster", url).option("metadata", "topics").load()
    assert [row.topic for row in topics.collect()] == ["t"]


def test_java_reads_the_micro_batches_of_a_stream(cluster: Cluster, columnar: SparkSession, tmp_path: Path) -> None:
    """Python decides what each micro-batch is; over a restart each record comes once."""
    cluster.create_topic("t", partitions=2)
    asked = columnar.readStream.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    asked = asked.option("reader", "columns").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 150)
    sink, seen = tmp_path / "sink", []
    for name in ("first", "second"):
        cluster.append("t", records(random.Random(name), 200))
        writer = asked.load().writeStream.format("parquet").option("path", str(sink)).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        assert "sparklog columns" in query._jsq.explainInternal(False)
        seen.append(columnar.read.parquet(str(sink)).count())
    assert seen == [200, 400]
    for partition in (0, 1):
        written = columnar.read.parquet(str(sink)).where(f"partition = {partition}").orderBy("offset").collect()
        read = cluster.read("t", partition=partition)
        assert [row.offset for row in written] == read["offset"].to_pylist()
        assert [row.value for row in written] == read["value"].to_pylist()


def test_a_topic_joined_with_a_stream_is_read_by_java_up_to_its_present_end(
    cluster: Cluster, columnar: SparkSession, tmp_path: Path
) -> None:
    joined_with_a_topic_that_grows(columnar, cluster, tmp_path)


def test_a_dataframe_keeps_the_plans_of_the_streams_that_used_it_last(
    cluster: Cluster, columnar: SparkSession, frame: Frame
) -> None:
    """Its own plan stays. Each start of a stream without a checkpoint has a new id, so plans by id would add up."""
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": [b"v"]}))
    read = frame("columns", "t")
    assert read.count() == 1
    context = columnar.sparkContext

    def count(query: str) -> int:
        context.setLocalProperty("sql.streaming.queryId", query)
        try:
            return len(read.select("offset").collect())  # in one stage: a count would have two
        finally:
            context.setLocalProperty("sql.streaming.queryId", None)  # type: ignore[arg-type]

    assert count("first") == 1
    cluster.append("t", pa.table({"value": [b"late"]}))
    assert [count("first"), *(count(f"{n}") for n in range(63)), count("first")] == [1, *[2] * 63, 1]
    assert [*(count(f"{n}") for n in range(63, 127)), count("first")] == [2] * 65
    assert read.count() == 1


def test_a_stream_says_how_far_it_is_behind(cluster: Cluster, columnar: SparkSession, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=2)
    cluster.append("t", pa.table({"value": ["v"] * 100, "partition": pa.array([0] * 30 + [1] * 70, pa.int32())}))
    asked = columnar.readStream.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
    asked = asked.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 50)
    writer = asked.load().writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()
    behind = [progress.sources[0].metrics for progress in query.recentProgress if progress.numInputRows]
    assert [(each["minOffsetsBehindLatest"], each["maxOffsetsBehindLatest"]) for each in behind] == [
        ("15", "35"),
        ("0", "0"),
    ]
    assert behind[0]["avgOffsetsBehindLatest"] == "25.0"


def tasks_of(frame: DataFrame) -> int:
    """The number of tasks of the scan of a frame."""
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return int(scan.inputRDD().getNumPartitions())


def test_a_limit_leaves_out_tasks_that_it_does_not_need(cluster: Cluster, frame: Frame) -> None:
    """Not if records may be missing without an error, and not behind a filter that Spark evaluates."""
    cluster.create_topic("t", partitions=4)
    cluster.append("t", pa.table({"value": ["v"] * 400, "partition": pa.array(sorted([0, 1, 2, 3] * 100), pa.int32())}))

    def tasks(limit: int, where: str = "true", **options: str) -> int:
        return tasks_of(frame("columns", "t", minPartitions=4, **options).where(where).limit(limit))

    assert [tasks(limit) for limit in (1, 100, 101, 1000)] == [1, 1, 2, 4]
    assert frame("columns", "t", minPartitions=4).limit(250).count() == 250
    assert tasks(100, startingOffsets='{"t":{"0":90,"1":-2,"2":-2,"3":-2}}') == 2
    assert tasks(100, failOnDataLoss="false") == 4
    assert tasks(100, where="key IS NULL") == 4


def test_spark_knows_the_stored_bytes_of_a_read(cluster: Cluster, frame: Frame) -> None:
    """So a small topic is broadcast in a join."""
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": ["v"] * 100}))
    statistics = frame("columns", "t")._jdf.queryExecution().optimizedPlan().stats()
    assert int(str(statistics.sizeInBytes())) == cluster.describe("t").size_bytes


@pytest.mark.parametrize("trouble", ["deleted", "flipped", "cut", "index deleted", "index flipped"])
def test_the_next_holder_serves(columnar: SparkSession, tmp_path: Path, trouble: str) -> None:
    folders = StoreFolders.create(tmp_path)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["ab", "ab"], config={"min.insync.replicas": 2})
        cluster.append("t", records(random.Random(1), 500))
        rows = _rows(columnar, folders.url, "rows")
        _spoil(folders.at("a"), trouble)
        frame = _frame(columnar, folders.url, "columns")
        assert sorted_rows(frame) == rows
        assert metric(frame, "rangesInPython") == 0
        _spoil(folders.at("b"), trouble)
        by_python = [_outcome(columnar, folders.url, reader) for reader in ("columns", "rows")]
    assert by_python[0] == by_python[1]
    assert (by_python[0] == rows) is ("index" in trouble), "an index is rebuilt, an object is not"


def test_damage_in_the_middle_leaves_no_gap_and_no_repeat(columnar: SparkSession, tmp_path: Path) -> None:
    """What came before the damaged batch was handed over; the next holder, or Python, continues behind it."""
    dice = random.Random(5)
    for is_left_to_python in (False, True):
        folders = StoreFolders.create(tmp_path / str(is_left_to_python))
        with sparklog.connect(folders.url) as cluster:
            cluster.create_topic("t", assignment=["ab"], config={"min.insync.replicas": 2})
            values = pa.array([dice.randbytes(1000) for _ in range(4000)], pa.binary())
            cluster.append("t", pa.table({"value": values}), compression="none")
            rows = _rows(columnar, folders.url, "rows")
            _spoil(folders.at("a"), "flipped")
            if is_left_to_python:
                _spoil(folders.at("b"), "index deleted")
            frame = _frame(columnar, folders.url, "columns")
            assert sorted_rows(frame) == rows
            assert metric(frame, "rangesInPython") == is_left_to_python


def test_a_read_closes_its_objects(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t", partitions=20)
    cluster.append(
        "t", pa.table({"value": [b"v"] * 200, "partition": pa.array([at % 20 for at in range(200)], pa.int32())})
    )
    assert SparkContext._gateway is not None
    jvm = psutil.Process(SparkContext._gateway.proc.pid)
    assert frame("columns", "t").selectExpr("max(value)").collect() == [(b"v",)]
    opened = []
    for process in (jvm, *jvm.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # Spark ends Python processes that are idle
            opened += [file.path for file in process.open_files()]
    assert not [path for path in opened if path.endswith((".arrow", ".index"))]


def test_a_plan_older_than_its_objects_is_made_again_by_python(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t", partitions=2)
    cluster.append("t", records(random.Random(2), 300))
    rows = sorted_rows(frame("rows", "t"))
    planned = frame("columns", "t")
    planned._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()
    roll_and_delete(cluster, "t")
    assert sorted_rows(planned) == rows
    assert metric(planned, "rangesInPython") == 2


def test_records_cut_after_planning_are_for_python_to_judge(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t")
    for _ in range(2):
        cluster.append("t", pa.table({"value": [b"v"] * 50}))
    strict, lenient = (frame("columns", "t", failOnDataLoss=flag) for flag in ("true", "false"))
    for planned in (strict, lenient):
        planned._jdf.queryExecution().executedPlan().collectLeaves().head().inputRDD()
    cluster.delete_records("t", {0: 60})
    state = cluster.connection.newest_state()
    store = cluster.connection.stores(state).get(next(iter(state.stores)))
    oldest = min(store.list_keys("append/"), key=lambda each: each.key.rsplit("/", 1)[1])
    store.delete(oldest.key.removesuffix(".index"))
    assert "DATA_LOSS: t-0: records [0, 60) were removed by retention or delete-records" in failure(strict)
    assert [row.offset for row in lenient.collect()] == list(range(60, 100))


def test_records_that_were_given_up_are_an_error(columnar: SparkSession, tmp_path: Path) -> None:
    folders = StoreFolders.create(tmp_path)
    with sparklog.connect(folders.url) as cluster:
        cluster.create_topic("t", assignment=["ab"], config={"min.insync.replicas": 1})
        cluster.append("t", pa.table({"value": [b"v"] * 3}))
        cluster.submit(FenceStore(StoreId("b")))
        cluster.append("t", pa.table({"value": [b"w"] * 2}))
        cluster.submit(FenceStore(StoreId("a")))
        come_back(cluster, "b")
        cluster.elect_leaders("t", unclean=True)
        cluster.append("t", pa.table({"value": [b"x"]}))
    found = [_outcome(columnar, folders.url, reader) for reader in ("columns", "rows")]
    assert found[0] == found[1]
    assert "DATA_LOSS: t-0: records [3, 5) were lost in an unclean election" in found[0]


def test_a_dataframe_keeps_its_position(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": [b"v"] * 3}))
    read = frame("columns", "t")
    assert read.count() == 3
    cluster.append("t", pa.table({"value": [b"late"]}))
    assert (read.count(), len(read.select("offset").collect()), frame("columns", "t").count()) == (3, 3, 4)


def test_wrong_options_give_the_same_errors(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t")
    for wrong in ({"startingOffsets": '{"t":{"0":7}}'}, {"endingOffsets": "9"}, {"no.such.option": "1"}):
        found = []
        for reader in ("columns", "rows"):
            with pytest.raises(Exception, match="sparklog") as caught:
                frame(reader, "t", **wrong).collect()
            text = str(caught.value)
            found.append((type(caught.value), text[text.index("sparklog.core.errors.") :].partition("\n")[0]))
        assert found[0] == found[1]


def test_a_plan_that_failed_is_made_again(frame: Frame) -> None:
    """Spark 3.5 asks for statistics, goes on after an error, and then asks for the tasks."""
    scan = frame("columns", "none")._jdf.queryExecution().optimizedPlan().collectLeaves().head().scan()
    for asked in (scan.estimateStatistics, scan.planInputPartitions, scan.planInputPartitions):
        with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
            asked()


def test_a_planner_that_was_killed_is_started_again(cluster: Cluster, frame: Frame) -> None:
    cluster.create_topic("t")
    cluster.append("t", pa.table({"value": [b"v"] * 10}))
    assert frame("columns", "t").count() == 10
    planners = below_jvm("sparklog.spark.planner")
    assert planners
    for planner in planners:
        planner.kill()
        planner.wait(10)
    assert frame("columns", "t").count() == 10


def test_a_python_without_sparklog_is_named(one_spark: OneSpark, cluster: Cluster, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    session = one_spark.session("local[2]", spark__jars=str(jar()), spark__pyspark__python=str(python))
    try:
        asked = session.read.format("sparklog").option("cluster", cluster.connection.url).option("subscribe", "t")
        with pytest.raises(
            Exception, match=r"exit code 1 .*: it is no Python that works; wanted Python 3.11 or newer with sparklog"
        ):
            asked.load()
    finally:
        one_spark.stop()


def _frame(session: SparkSession, url: str, reader: str) -> DataFrame:
    asked = session.read.format("sparklog").option("cluster", url).option("subscribe", "t")
    return asked.option("reader", reader).option("includeHeaders", "true").load()


def _rows(session: SparkSession, url: str, reader: str) -> list[tuple[Any, ...]]:
    return sorted_rows(_frame(session, url, reader))


def _outcome(session: SparkSession, url: str, reader: str) -> list[tuple[Any, ...]] | str:
    """The rows, or the error."""
    try:
        return _rows(session, url, reader)
    except Exception:
        return failure(_frame(session, url, reader))


def _spoil(store: Path, trouble: str) -> None:
    suffix = ".index" if "index" in trouble else ".arrow"
    files = [file for file in store.rglob(f"*{suffix}") if file.is_file()]
    assert files
    for file in files:
        body = bytearray(file.read_bytes())
        file.chmod(0o644)
        if trouble.endswith("deleted"):
            file.unlink()
        elif trouble.endswith("flipped"):
            body[len(body) // 2] ^= 4
            file.write_bytes(body)
        else:
            file.write_bytes(body[: len(body) // 2])
