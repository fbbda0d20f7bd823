"""jobs/produce.py: rows of files and tables become records, all of them or none."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from sparklog.client.cluster import Cluster
from sparklog.core.errors import Conflict, InvalidInput, InvalidPartitions, RecordTooLarge, UnknownTopicOrPartition
from sparklog.core.murmur2 import partition_for_key
from sparklog.spark.produce_job import NewTopic, ProduceReport, Target, run_produce
from sparklog.spark.produce_rows import RowMapping
from sparklog.spark.produce_source import Source

pytestmark = pytest.mark.spark

ORDERS = "id,customer,item,at\n1,anna,tea,2024-05-01T10:00:00Z\n2,ben,cups,2024-05-01T11:00:00\n3,,cake,\n"


@pytest.fixture
def utc(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as `quiet_session` makes it."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", zone)


class Runs:
    """Produces into topic `t` of a cluster, and reads it back."""

    def __init__(self, spark: SparkSession, cluster: Cluster) -> None:
        self.spark = spark
        self.cluster = cluster
        self.said = io.StringIO()

    def __call__(
        self,
        source: Path | Source,
        mapping: RowMapping | None = None,
        *,
        create: NewTopic | None = None,
        transaction: tuple[str, str] | None = None,
        dry_run: bool = False,
    ) -> ProduceReport:
        return run_produce(
            source if isinstance(source, Source) else Source(str(source)),
            mapping or RowMapping(),
            Target(self.cluster.connection.url, "t", create, transaction),
            spark=self.spark,
            dry_run=dry_run,
            console=Console(file=self.said, width=200),
        )

    def rows(self, *columns: str) -> list[tuple[object, ...]]:
        """All records of the topic, by partition and offset."""
        parts = range(len(self.cluster.describe("t").partitions))
        table = pa.concat_tables([self.cluster.read("t", partition=each, columns=list(columns)) for each in parts])
        return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture
def produce(utc: SparkSession, cluster: Cluster) -> Runs:
    return Runs(utc, cluster)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    path = tmp_path / "orders.csv"
    path.write_text(ORDERS)
    return path


def test_the_whole_row_is_the_value_as_json_with_its_nulls(produce: Runs, orders: Path) -> None:
    report = produce(orders, RowMapping(key=("customer",), timestamp="at"), create=NewTopic(1))
    found = produce.rows("key", "value", "timestamp")
    assert [key for key, _, _ in found] == [b"anna", b"ben", None]
    assert json.loads(found[2][1]) == {"id": "3", "customer": None, "item": "cake", "at": None}  # type: ignore[arg-type]
    assert [time.isoformat() for _, _, time in found[:2]] == [  # type: ignore[attr-defined]
        "2024-05-01T10:00:00+00:00",
        "2024-05-01T11:00:00+00:00",
    ]
    assert (report.records, report.created_topic, report.columns) == (3, True, ("id", "customer", "item", "at"))
    assert [(each.start, each.end) for each in report.partitions] == [(0, 3)]


# M: S-07
def test_records_go_where_kafka_would_put_their_keys(produce: Runs, orders: Path) -> None:
    produce(orders, RowMapping(key_expr="coalesce(customer, id)"), create=NewTopic(5))
    found = produce.rows("partition", "key")
    assert sorted(key for _, key in found) == [b"3", b"anna", b"ben"]  # type: ignore[type-var]
    assert all(partition == partition_for_key(key, 5) for partition, key in found)  # type: ignore[arg-type]


def test_json_and_parquet_and_tables_are_read_as_well(produce: Runs, tmp_path: Path) -> None:
    json_file, parquet = tmp_path / "one.jsonl", tmp_path / "two"
    json_file.write_text('{"n": 1, "who": "anna"}\n')
    parquet.mkdir()
    pq.write_table(pa.table({"n": [2], "who": ["ben"]}), parquet / "part-0.parquet")
    (parquet / "_SUCCESS").touch()
    produce.spark.sql("select 3 as n, 'carl' as who").createOrReplaceTempView("three")
    mapping = RowMapping(key=("who",), value_expr="n")
    for source in (Source(str(json_file)), Source(str(parquet)), Source(table="three")):
        produce(source, mapping, create=NewTopic(1))
    assert produce.rows("offset", "key", "value") == [(0, b"anna", b"1"), (1, b"ben", b"2"), (2, b"carl", b"3")]


def test_order_by_decides_offsets_and_where_decides_rows(produce: Runs, orders: Path) -> None:
    source = Source(str(orders), where="item != 'cups'", order_by=("item",))
    produce(source, RowMapping(value_expr="item"), create=NewTopic(1))
    assert produce.rows("value") == [(b"cake",), (b"tea",)]


def test_a_partition_column_is_used_as_given(produce: Runs, orders: Path) -> None:
    produce(orders, RowMapping(partition="id", key=("customer",), value_columns=("item",)), create=NewTopic(4))
    assert produce.rows("partition", "value") == [
        (1, b'{"item":"tea"}'),
        (2, b'{"item":"cups"}'),
        (3, b'{"item":"cake"}'),
    ]


def test_a_version_that_was_written_is_not_written_again(produce: Runs, orders: Path) -> None:
    first = produce(orders, create=NewTopic(1), transaction=("import", "7"))
    again = produce(orders, create=NewTopic(1), transaction=("import", "7"))
    assert (first.records, first.skipped, again.records, again.skipped) == (3, False, 0, True)
    assert len(produce.rows("offset")) == 3
    assert produce(orders, transaction=("import", "8")).partitions[0].start == 3


def test_a_dry_run_shows_the_rows_and_changes_nothing(produce: Runs, orders: Path) -> None:
    mapping = RowMapping(key=("customer",), timestamp="at", partition="id")
    report = produce(orders, mapping, create=NewTopic(4), dry_run=True)
    said = produce.said.getvalue()
    assert produce.cluster.topics() == []
    assert (report.records, report.dry_run, report.partitions) == (3, True, ())
    for line in (
        "3 rows, columns id, customer, item, at",
        "topic t, which would be created",
        "1 rows have no key",
        "timestamps from 2024-05-01T10:00:00Z to 2024-05-01T11:00:00Z",
        "partitions 1, 2, 3",
        "key=anna  value={",
    ):
        assert line in said


def test_a_source_without_rows_commits_nothing(produce: Runs, orders: Path) -> None:
    report = produce(Source(str(orders), where="false"), create=NewTopic(2))
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
    with pytest.raises(UnknownTopicOrPartition, match="--create makes it"):
        produce(orders)
    produce.cluster.create_topic("tt", partitions=1)
    with pytest.raises(UnknownTopicOrPartition, match="did you mean tt"):
        produce(orders)


@pytest.mark.parametrize(
    ("mapping", "error", "message"),
    [
        (RowMapping(value_expr="repeat('x', 2000)"), RecordTooLarge, "topic t"),
        (RowMapping(timestamp="item"), InvalidInput, "CAST_INVALID_INPUT: The value 'tea'"),
        (RowMapping(value_expr="cast(item as int)"), InvalidInput, "CAST_INVALID_INPUT: The value 'tea'"),
        (RowMapping(partition="id"), UnknownTopicOrPartition, "wanted 0 to 1, found 3"),
    ],
)
def test_one_row_that_cannot_be_written_stops_all_of_them(
    produce: Runs, orders: Path, mapping: RowMapping, error: type[Exception], message: str
) -> None:
    produce.cluster.create_topic("t", partitions=2, config={"max.message.bytes": 1000})
    with pytest.raises(error) as raised:
        produce(orders, mapping)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert produce.cluster.describe("t").records == 0
