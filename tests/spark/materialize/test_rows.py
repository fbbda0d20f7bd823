"""What a table has after materialize, with Spark and Delta Lake (`--campaign`: half a minute of processor time)."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import Conflict, InvalidInput
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.materialize_job import RENEW_MS
from sparklog.spark.materialize.position import Mode
from tests.spark.materialize.filled_tables import append, is_the_topic, materialize, numbered, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

LATEST = Layout(Mode.LATEST)
EXPANDED = Layout(value_schema="id long, name string", key_schema="k int")


@pytest.mark.sparks("materialize", since="4.0", before="4.3")
def test_a_repeat_adds_nothing_and_more_records_are_added(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 10))
    report = materialize(delta_spark, cluster, tmp_path / "d", records=6)
    assert (report.exit_code, report.done.records) == (0, 10)
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")
    assert materialize(delta_spark, cluster, tmp_path / "d").planned.records == 0
    append(cluster, *numbered(10, 13))
    cluster.add_partitions("t", 3)
    append(cluster, {"key": b"k", "value": b"in the new partition", "partition": 2})
    assert materialize(delta_spark, cluster, tmp_path / "d").done.records == 4
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")
    files = sorted((tmp_path / "d/_delta_log").glob("*.json"))
    log = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [entry["txn"]["version"] for entry in log if "txn" in entry] == [1, 2, 3], "what another reader sees"


@pytest.mark.sparks("materialize", since="4.0", before="4.3")
def test_latest_is_the_newest_record_of_each_key(delta_spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("t", partitions=3)
    dice = random.Random(13)
    model: dict[bytes, tuple[int, bytes]] = {}
    for _ in range(2):
        rows = []
        for _ in range(60):
            n = dice.randrange(12)
            key, value = b"%d" % n, None if dice.random() < 0.3 else b"%d" % dice.randrange(10**6)
            rows.append({"key": key, "value": value, "partition": n % 3})
            model.pop(key, None)
            if value is not None:
                model[key] = (n % 3, value)
        append(cluster, *rows)
        assert materialize(delta_spark, cluster, tmp_path / "d", layout=LATEST, records=40).exit_code == 0
        stored = {bytes(row.key): (row.partition, bytes(row.value)) for row in rows_of(delta_spark, tmp_path / "d")}
        assert stored == model
    append(cluster, {"key": None, "value": b"v", "partition": 0})
    report = materialize(delta_spark, cluster, tmp_path / "d", layout=LATEST)
    assert "INVALID_RECORD: wanted records with keys" in report.partitions[0].messages[0]
    assert len(rows_of(delta_spark, tmp_path / "d")) == len(model)


def test_json_becomes_columns_and_what_is_no_json_keeps_its_bytes(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    good = {b'{"id":1,"name":"a"}': (1, "a"), b' {"name":"b","more":[1]} ': (None, "b"), b"{}": (None, None)}
    bad = [
        b'{"id":1} and more',
        b'{"id":1}{"id":2}',
        b'{"id":1}} ',
        b'[{"id":1}]',
        b'{"id":"x","name":"a"}',
        b'{"id":1.5}',
        b"{'id':1}",
        b"null",
        b"",
        b'{"name":"\xff"}',
        b'{"id":99999999999999999999}',
    ]
    append(cluster, *({"key": b'{"k":7}', "value": value, "partition": 0} for value in [*good, *bad, None]))
    append(cluster, {"key": b"seven", "value": None, "partition": 0})
    report = materialize(delta_spark, cluster, tmp_path / "d", layout=EXPANDED)
    assert "not of the schema: 11 values, kept in _bad_value" in report.notes
    assert "not of the schema: 1 value, kept in _bad_key" in report.notes
    rows = sorted(rows_of(delta_spark, tmp_path / "d"), key=lambda row: row._offset)
    assert [(row.id, row.name) for row in rows[:3]] == list(good.values())
    assert [bytes(row._bad_value) for row in rows[3:14]] == bad
    assert {(row.id, row.name) for row in rows[3:]} == {(None, None)}
    assert [(row.k, row._bad_value, row._tombstone) for row in rows[14:]] == [(7, None, True), (None, None, True)]
    assert bytes(rows[15]._bad_key) == b"seven"

    append(cluster, {"key": None, "value": b'{"id":5,"more":6}', "partition": 0})
    wider = Layout(value_schema="id long, name string, more int", key_schema="k int")
    materialize(delta_spark, cluster, tmp_path / "d", layout=wider)
    assert [row.more for row in rows_of(delta_spark, tmp_path / "d") if row.more is not None] == [6]
    with pytest.raises(InvalidInput, match="wanted column id as string, found bigint"):
        materialize(delta_spark, cluster, tmp_path / "d", layout=Layout(value_schema="id string, name string"))
    with pytest.raises(InvalidInput, match=r"not wanted: .*name"):
        materialize(delta_spark, cluster, tmp_path / "d", layout=Layout(value_schema="id long", key_schema="k int"))
    append(cluster, {"key": None, "value": b"bad", "partition": 0})
    strict = Layout(value_schema=wider.value_schema, key_schema="k int", fail_on_bad=True)
    report = materialize(delta_spark, cluster, tmp_path / "d", layout=strict)
    assert "INVALID_RECORD: the value of t-0 at offset 17 is not a JSON object" in report.partitions[0].messages[0]


def test_a_table_belongs_to_one_topic_and_losses_are_not_passed_over(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    append(cluster, {"key": b"k", "value": b"v", "partition": 0})
    materialize(delta_spark, cluster, tmp_path / "d")
    with pytest.raises(Conflict, match="filled with --mode append"):
        materialize(delta_spark, cluster, tmp_path / "d", layout=LATEST)
    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=1)
    append(cluster, {"key": b"k", "value": b"another", "partition": 0})
    with pytest.raises(Conflict, match="an earlier topic of that name"):
        materialize(delta_spark, cluster, tmp_path / "d")
    assert [bytes(row.value) for row in rows_of(delta_spark, tmp_path / "d")] == [b"v"]


def test_a_table_by_name_is_filled_as_one_by_path(delta_spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    try:
        for mode in Mode:
            for end in (3, 6):
                append(cluster, *numbered(end - 3, end))
                assert materialize(delta_spark, cluster, f"of_{mode}", layout=Layout(mode)).exit_code == 0
                assert materialize(delta_spark, cluster, f"of_{mode}", layout=Layout(mode)).planned.records == 0
            keys = delta_spark.table(f"of_{mode}").selectExpr("cast(key as string) AS key").collect()
            assert {row.key for row in keys} == set("012345")
    finally:
        for mode in Mode:
            delta_spark.sql(f"DROP TABLE IF EXISTS of_{mode}")


def test_a_resting_topic_keeps_its_position_in_the_history(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    append(cluster, {"key": b"k", "value": b"v", "partition": 0})
    table = tmp_path / "d"
    materialize(delta_spark, cluster, table)
    delta_spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('somebody' = 'else')")
    later = int(datetime.now(UTC).timestamp() * 1000) + RENEW_MS
    assert len(materialize(delta_spark, cluster, table, now_ms=later).notes) == 2
    assert len(materialize(delta_spark, cluster, table, now_ms=later).notes) == 1, "once is enough"
    for file in sorted((table / "_delta_log").glob("*.json"))[:-1]:
        assert "sparklog.materialize" not in file.read_text() or file.name < f"{2:020}.json"
    append(cluster, {"key": b"k", "value": b"w", "partition": 0})
    materialize(delta_spark, cluster, table)
    assert sorted(bytes(row.value) for row in rows_of(delta_spark, table)) == [b"v", b"w"]
