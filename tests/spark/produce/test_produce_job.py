"""jobs/produce.py: rows of files and tables become records, all of them or none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrameWriter

import sparklog
from sparklog.core.errors import (
    Conflict,
    InvalidInput,
    InvalidOption,
    InvalidPartitions,
    InvalidRecord,
    OutcomeUnknown,
    RecordTooLarge,
    SparklogError,
    UnknownTopicOrPartition,
)
from sparklog.spark.produce.formats.bad_rows import BadRows, OnBadRow
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.rows import RowMapping
from sparklog.spark.produce.target_topics import NewTopic
from tests.core.producing.java_murmur2 import partition_for_key
from tests.spark.produce.produce_runs import Runs
from tests.spark.produce.produce_runs import produce as produce

pytestmark = pytest.mark.spark

ORDERS = "id,customer,item,at\n1,anna,tea,2024-05-01T10:00:00Z\n2,ben,cups,2024-05-01T11:00:00\n3,,cake,\n"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    return path


@pytest.mark.sparks("produce")
def test_the_whole_row_is_the_value_as_json_with_its_nulls(produce: Runs, orders: Path) -> None:
    source = InputSource(str(orders), options={"nullValue": ""})
    report = produce(source, RowMapping(key=("customer",), timestamp="at"), create=NewTopic(1))
    found = produce.rows("key", "value", "timestamp")
    assert [key for key, _, _ in found] == [b"anna", b"ben", None]
    assert json.loads(found[2][1]) == {"id": "3", "customer": None, "item": "cake", "at": None}
    assert [time.isoformat() for _, _, time in found[:2]] == [
        "2024-05-01T10:00:00+00:00",
        "2024-05-01T11:00:00+00:00",
    ]
    assert (report.records, report.created_topic, report.columns) == (3, True, ("id", "customer", "item", "at"))
    assert [(each.start, each.end) for each in report.partitions] == [(0, 3)]


# M: S-07
def test_records_go_where_kafka_would_put_their_keys(produce: Runs, orders: Path) -> None:
    produce(orders, RowMapping(key_expr="if(customer = '', id, customer)"), create=NewTopic(5))
    found = produce.rows("partition", "key")
    assert sorted(key for _, key in found) == [b"3", b"anna", b"ben"]
    assert all(partition == partition_for_key(key, 5) for partition, key in found)


@pytest.mark.sparks("produce")
def test_json_and_parquet_and_tables_are_read_as_well(produce: Runs, tmp_path: Path) -> None:
    json_file, parquet = tmp_path / "one.jsonl", tmp_path / "two"
    json_file.write_text('{"n": 1, "who": "anna"}\n')
    parquet.mkdir()
    pq.write_table(pa.table({"n": [2], "who": ["ben"]}), parquet / "part-0.parquet")
    (parquet / "_SUCCESS").touch()
    produce.spark.sql("select 3 as n, 'carl' as who").createOrReplaceTempView("three")
    mapping = RowMapping(key=("who",), value_expr="n")
    for source in (InputSource(str(json_file)), InputSource(str(parquet)), InputSource(table="three")):
        produce(source, mapping, create=NewTopic(1))
    assert produce.rows("offset", "key", "value") == [(0, b"anna", b"1"), (1, b"ben", b"2"), (2, b"carl", b"3")]


def test_order_by_decides_offsets_and_where_decides_rows(produce: Runs, orders: Path) -> None:
    source = InputSource(str(orders), where="item != 'cups'", order_by=("item",))
    produce(source, RowMapping(value_expr="item"), create=NewTopic(1))
    assert produce.rows("value") == [(b"cake",), (b"tea",)]


def test_a_partition_column_is_used_as_given(produce: Runs, orders: Path) -> None:
    produce(orders, RowMapping(partition="id", key=("customer",), value_columns=("item",)), create=NewTopic(4))
    assert produce.rows("partition", "value") == [
        (1, b'{"item":"tea"}'),
        (2, b'{"item":"cups"}'),
        (3, b'{"item":"cake"}'),
    ]


@pytest.mark.sparks("produce")
def test_a_version_that_was_written_is_not_written_again(produce: Runs, orders: Path) -> None:
    first = produce(orders, create=NewTopic(1), transaction=("import", "7"))
    again = produce(orders, create=NewTopic(1), transaction=("import", "7"))
    assert (first.records, first.skipped, again.records, again.skipped) == (3, False, 0, True)
    assert len(produce.rows("offset")) == 3
    assert produce.said.getvalue().splitlines()[-1] == (
        "nothing was written: txn-app-id 'import' has already written version 7 or a later one"
    )
    assert produce(orders, transaction=("import", "8")).partitions[0].start == 3


@pytest.mark.parametrize(
    ("at", "config", "message"),
    [
        (
            "2024-05-01T10:00:00Z",
            {"message.timestamp.before.max.ms": "1000"},
            r"topic t takes timestamps from .* \(message.timestamp.before.max.ms\), found 2024-05-01T10:00:00.000Z",
        ),
        ("2999-01-01T00:00:00Z", {}, r"topic t takes timestamps up to .* found 2999-01-01T00:00:00.000Z"),
    ],
)
def test_a_dry_run_refuses_the_timestamps_that_the_topic_would_not_take(
    produce: Runs, tmp_path: Path, at: str, config: dict[str, str], message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at\n{at}\n")
    for dry_run in (True, False):
        with pytest.raises(InvalidRecord, match=message):
            produce(path, RowMapping(timestamp="at"), create=NewTopic(1, config), dry_run=dry_run)
    assert produce.cluster.topics() == []
    produce.cluster.create_topic("t", config=config)
    with pytest.raises(InvalidRecord, match=message):
        produce(path, RowMapping(timestamp="at"), dry_run=True)
    produce.cluster.alter("t", config={"message.timestamp.type": "LogAppendTime"})
    assert produce(path, RowMapping(timestamp="at"), dry_run=True).records == 1


def test_a_dry_run_shows_the_rows_and_changes_nothing(produce: Runs, orders: Path) -> None:
    mapping = RowMapping(key=("customer",), timestamp="at", partition="id")
    source = InputSource(str(orders), options={"nullValue": ""})
    report = produce(source, mapping, create=NewTopic(4), dry_run=True)
    said = produce.said.getvalue()
    assert produce.cluster.topics() == []
    assert (report.records, report.dry_run, report.partitions) == (3, True, ())
    for line in (
        "3 rows, columns id, customer, item, at",
        "topic t, which would be created",
        "1 row without a key",
        "timestamps from 2024-05-01T10:00:00.000Z to 2024-05-01T11:00:00.000Z",
        "partitions 1, 2, 3",
        "key=anna  value={",
    ):
        assert line in said


def test_a_source_without_rows_commits_nothing(produce: Runs, orders: Path) -> None:
    report = produce(InputSource(str(orders), where="false"), create=NewTopic(2))
    assert (report.records, report.entry, report.exit_code) == (0, None, 0)
    assert "has no rows to write" in produce.said.getvalue()


def test_a_topic_that_is_there_must_be_what_create_asks_for(produce: Runs, orders: Path) -> None:
    produce.cluster.create_topic("t", partitions=2, config={"retention.ms": "-1"})
    with pytest.raises(InvalidPartitions, match="wanted 3 partitions, found t with 2"):
        produce(orders, create=NewTopic(3))
    with pytest.raises(Conflict, match=r"retention\.ms=5, found it with -1"):
        produce(orders, create=NewTopic(config={"retention.ms": "5"}))
    assert produce(orders, create=NewTopic(2, {"retention.ms": "-1"})).created_topic is False


def test_without_create_the_topic_must_be_there(produce: Runs, orders: Path) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="the cluster has no topics; add --create to create it"):
        produce(orders)
    produce.cluster.create_topic("tt", partitions=1)
    with pytest.raises(UnknownTopicOrPartition, match="did you mean tt"):
        produce(orders)


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        (RowMapping(value_expr="repeat('x', 2000)"), RecordTooLarge, "topic t"),
        (RowMapping(timestamp="item"), InvalidInput, "--timestamp item: CAST_INVALID_INPUT: The value 'tea'"),
        (
            RowMapping(value_expr="cast(item as int)", partition="id"),
            InvalidInput,
            "the expression cast(item as int): CAST_INVALID_INPUT: The value 'tea'",
        ),
        (RowMapping(timestamp_expr="bigint(id || repeat('9', 17))"), InvalidInput, "wanted milliseconds since"),
        (
            RowMapping(partition="id"),
            UnknownTopicOrPartition,
            "orders.csv, --partition-column id: column 'partition': wanted 0 to 1, found 3",
        ),
    ],
)
def test_one_row_that_cannot_be_written_stops_all_of_them(
    produce: Runs,
    orders: Path,
    pytestconfig: pytest.Config,
    mapping: RowMapping,
    error: type[Exception],
    message: str,
) -> None:
    if pytestconfig.getoption("--columns"):
        message = message.replace("found 3", "found 2")  # Java names the first wrong row, Python the greatest number
    produce.cluster.create_topic("t", partitions=2, config={"max.message.bytes": 1000})
    with pytest.raises(error) as raised:
        produce(orders, mapping)
    assert message in str(raised.value)
    assert "deleted" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert produce.cluster.describe("t").records == 0


# ---- bad rows, broken files -------------------------------------------------------------------------

BAD_CSV = b'id,note\n1,"a ""quoted"", long\nnote"\n2,too,many\n3,caf\xe9\n007,\n'
GOOD = [{"id": "1", "note": 'a "quoted", long\nnote'}, {"id": "007", "note": ""}]


@pytest.fixture
def bad_csv(tmp_path: Path) -> Path:
    path = tmp_path / "bad notes.csv"
    path.write_bytes(BAD_CSV)
    return path


def test_a_malformed_row_stops_the_job_with_file_and_line_and_the_created_topic_is_deleted_again(
    produce: Runs, bad_csv: Path
) -> None:
    with pytest.raises(InvalidRecord) as raised:
        produce(bad_csv, create=NewTopic(3))
    assert raised.value.message.startswith(f"{bad_csv}, line 4: wanted 2 columns, found 3; found '2,too,many'.")
    assert produce.cluster.topics() == []
    assert produce.said.getvalue().splitlines() == [
        "topic t created with 3 partitions",
        "deleted topic t, which this run had created",
    ]


def test_both_topics_that_a_failed_run_created_are_named_when_they_are_deleted(produce: Runs, orders: Path) -> None:
    bad_rows = BadRows(OnBadRow.DEAD_LETTER, "dead")
    with pytest.raises(InvalidInput):
        produce(orders, RowMapping(timestamp="item"), create=NewTopic(1), bad_rows=bad_rows)
    assert produce.cluster.topics() == []
    assert produce.said.getvalue().splitlines()[2:] == [
        "deleted topic t, which this run had created",
        "deleted topic dead, which this run had created",
    ]


def test_a_topic_that_was_there_before_stays_when_a_produce_fails(produce: Runs, bad_csv: Path) -> None:
    produce.cluster.create_topic("t", partitions=1)
    with pytest.raises(InvalidRecord):
        produce(bad_csv, create=NewTopic(1))
    assert produce.cluster.topics() == ["t"]


def fail_to_save(monkeypatch: pytest.MonkeyPatch, error: str, before: Callable[[], object] = lambda: None) -> None:
    """Spark's write does `before`, and then fails as if this error had come from sparklog's writer."""

    def save(writer: DataFrameWriter) -> None:
        before()
        raise RuntimeError(f"sparklog.core.errors.{error}: lost")

    monkeypatch.setattr(DataFrameWriter, "save", save)


def test_a_topic_that_was_created_stays_if_the_write_may_have_landed(
    produce: Runs, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_save(monkeypatch, "OutcomeUnknown: COMMIT_OUTCOME_UNKNOWN")
    with pytest.raises(OutcomeUnknown):
        produce(orders, create=NewTopic(1))
    assert produce.cluster.topics() == ["t"]


def test_a_topic_that_was_created_stays_if_somebody_wrote_to_it_meanwhile(
    produce: Runs, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pa.table({"value": ["from elsewhere"]})
    fail_to_save(monkeypatch, "InvalidRecord: INVALID_RECORD", lambda: produce.cluster.append("t", other))
    with pytest.raises(InvalidRecord):
        produce(orders, create=NewTopic(1))
    assert produce.rows("value") == [(b"from elsewhere",)]
    assert "topic t, which this run had created, stays: " in produce.said.getvalue()


@pytest.mark.parametrize("created_before", [True, False])
def test_a_job_whose_topic_is_deleted_while_it_writes_says_that_it_can_be_run_again(
    produce: Runs, orders: Path, created_before: bool
) -> None:
    """As by another job with --create that failed: this one's rows are uploaded, and the topic is gone."""
    url = produce.cluster.connection.url

    def delete_topic(value: str) -> str:
        with sparklog.connect(url) as cluster:
            if "t" in cluster.topics():
                cluster.delete_topic("t")
        return value

    produce.spark.udf.register("delete_topic", delete_topic)
    if created_before:
        produce.cluster.create_topic("t", partitions=1)
    with pytest.raises(
        UnknownTopicOrPartition, match=r"another process deleted t while this job ran .* can be run again"
    ):
        produce(orders, RowMapping(value_expr="delete_topic(item)"), create=None if created_before else NewTopic(1))
    said = produce.said.getvalue().splitlines()
    assert said[1:] == ([] if created_before else ["topic t, which this run had created, was deleted meanwhile"])


@pytest.mark.sparks("produce")
def test_bad_rows_can_be_counted_and_left_out(produce: Runs, bad_csv: Path) -> None:
    skip = BadRows(OnBadRow.SKIP)
    source = InputSource(str(bad_csv), where="id > ''", order_by=("note",))
    planned = produce(source, create=NewTopic(1), bad_rows=skip, dry_run=True)
    report = produce(source, create=NewTopic(1), bad_rows=skip)
    assert produce.values() == [GOOD[1], GOOD[0]]
    assert (report.records, report.bad_rows) == (planned.records, planned.bad_rows) == (2, 2)
    assert report.columns == ("id", "note")
    assert f"2 bad rows left out, the first: {bad_csv}, line 4: wanted 2 columns, found 3" in produce.said.getvalue()


@pytest.mark.sparks("produce")
def test_dead_letters_land_in_the_same_commit_with_file_row_and_reason(produce: Runs, bad_csv: Path) -> None:
    bad_rows = BadRows(OnBadRow.DEAD_LETTER, "dead")
    report = produce(bad_csv, RowMapping(key=("id",), partition="id"), create=NewTopic(8), bad_rows=bad_rows)
    assert [key for (key,) in produce.rows("key")] == [b"1", b"007"]
    letters = produce.rows("key", "value", "headers", topic="dead")
    assert [(key, value) for key, value, _ in letters] == [(None, b"2,too,many"), (None, b"3,caf\xe9")]
    assert [(each["key"], each["value"]) for each in letters[0][2]] == [
        ("file", str(bad_csv).encode()),
        ("row", b"4"),
        ("reason", b"wanted 2 columns, found 3"),
    ]
    assert (report.records, report.bad_rows, report.dead_letter_topic) == (2, 2, "dead")
    assert [(each.partition, each.records) for each in report.partitions] == [(1, 1), (7, 1)]
    follower = produce.cluster.connection.follower
    state = follower.newest_state()
    applied = state.results.labelled(report.write_id)
    assert [each.records for _, each in follower.results(applied)] == [4]


@pytest.mark.parametrize(
    ("bad_rows", "message"),
    [
        (BadRows(OnBadRow.DEAD_LETTER), "--dead-letter-topic together"),
        (BadRows(topic="dead"), "--dead-letter-topic together"),
        (BadRows(OnBadRow.DEAD_LETTER, "t"), "wanted another topic than --topic"),
    ],
)
def test_dead_letters_need_a_topic_of_their_own(bad_rows: BadRows, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        bad_rows.check("t")


def test_a_broken_file_is_one_line_with_its_name_a_code_and_what_to_do(produce: Runs, tmp_path: Path) -> None:
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)[:-50])
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing else")
    misnamed = tmp_path / "misnamed.csv"
    pq.write_table(pa.table({"n": [1]}), misnamed)
    wide = tmp_path / "wide.csv"
    wide.write_text("a,b\n1,2\n", encoding="utf-16")
    empty = tmp_path / "empty.csv"
    empty.touch()
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "1.csv").write_text("a,b\n1,2\n")
    (headers / "2.csv").write_text("b,a\n1,2\n")
    for path, message in (
        (cut, f"INVALID_REQUEST: {cut} can't be read to its end: it is cut off"),
        (broken, f"INVALID_REQUEST: {broken} can't be read to its end"),
        (misnamed, f"INVALID_REQUEST: {misnamed} is not text, it begins like Parquet: give --format parquet"),
        (wide, f"INVALID_REQUEST: {wide} is not text, it begins like UTF-16: convert it first"),
        (empty, f"INVALID_REQUEST: {empty} is empty: wanted at least a header line"),
        (headers, "wanted the header of"),
    ):
        with pytest.raises(SparklogError) as raised:
            produce(path, create=NewTopic(1))
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 600
    assert produce.cluster.topics() == []
