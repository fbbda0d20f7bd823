"""The change feed of a Delta table as records: every version once, in order, and back into a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidOption, InvalidRecord, SparklogError
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.materialize_job import Table, run_materialize
from sparklog.spark.materialize.position import Mode
from sparklog.spark.produce import change_runs, produce_job
from sparklog.spark.produce.change_runs import run_changes
from sparklog.spark.produce.input_source import InputSource
from sparklog.spark.produce.produce_job import Target
from sparklog.spark.produce.produce_report import ProduceReport
from sparklog.spark.produce.rows import RowMapping
from tests.kit.silent_console import SILENT

pytestmark = [pytest.mark.spark, pytest.mark.campaign]


def changes(
    spark: SparkSession,
    cluster: Cluster,
    path: Path,
    start: int | None = None,
    *,
    mapping: RowMapping | None = None,
    dry_run: bool = False,
) -> ProduceReport:
    return run_changes(
        InputSource(str(path)),
        mapping or RowMapping(key=("id",)),
        Target(cluster.connection.url, "t"),
        spark=lambda: spark,
        starting_version=start,
        dry_run=dry_run,
        console=SILENT,
    )


def newest_is_a_row(spark: SparkSession, cluster: Cluster, path: Path) -> bool:
    """Whether the newest value of each key in the topic is a row of the table, and null where no row has the key."""
    rows: dict[bytes, set[str]] = {}
    for row in spark.read.format("delta").load(str(path)).collect():
        rows.setdefault(b"%d" % row.id, set()).add(row.name)
    newest = dict(records(cluster))
    live = {key: json.loads(value)["name"] for key, value in newest.items() if value is not None}
    return live.keys() == rows.keys() and all(name in rows[key] for key, name in live.items())


def records(cluster: Cluster) -> list[tuple[bytes, bytes | None]]:
    return [(row["key"], row["value"]) for row in cluster.read("t", partition=0).to_pylist()]


def test_each_version_becomes_one_commit_and_the_topic_becomes_the_table_again(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", partitions=1)
    table, sql = f"delta.`{tmp_path}/d`", delta_spark.sql
    sql(f"CREATE TABLE {table} (id INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql(f"UPDATE {table} SET id = CASE id WHEN 2 THEN 12 ELSE 4 - id END, name = 'moved'")  # 1 and 3 change places

    run_produce, runs = produce_job.run_produce, 0

    def killed_after_the_second(*given: object, **named: object) -> ProduceReport:
        nonlocal runs
        report = run_produce(*given, **named)  # type: ignore[arg-type]
        runs += 1
        if runs == 2:
            raise SystemExit
        return report

    with monkeypatch.context() as patched:
        patched.setattr(change_runs, "run_produce", killed_after_the_second)
        with pytest.raises(SystemExit):
            changes(delta_spark, cluster, tmp_path / "d")
    assert sorted(records(cluster)) == [(b"%d" % n, b'{"id":%d,"name":"%c"}' % (n, 96 + n)) for n in (1, 2, 3)]
    assert changes(delta_spark, cluster, tmp_path / "d").delta_versions == (2, 3)
    assert sorted(records(cluster)[3:], key=str) == [
        (b"1", b'{"id":1,"name":"moved"}'),
        (b"12", b'{"id":12,"name":"moved"}'),
        (b"2", None),
        (b"3", b'{"id":3,"name":"moved"}'),
    ]
    sql(f"DELETE FROM {table} WHERE id = 12")
    assert changes(delta_spark, cluster, tmp_path / "d").records == 1
    assert changes(delta_spark, cluster, tmp_path / "d").records == 0
    assert records(cluster)[7:] == [(b"12", None)]
    with pytest.raises(InvalidOption, match="has the versions below 4"):
        changes(delta_spark, cluster, tmp_path / "d", start=1)

    wanted = Table(str(tmp_path / "again"), Layout(Mode.LATEST, value_schema="id int, name string"))
    run_materialize(cluster.connection.url, "t", wanted, lambda: delta_spark, console=SILENT)
    again = delta_spark.read.format("delta").load(str(tmp_path / "again")).select("id", "name")
    there = delta_spark.read.format("delta").load(str(tmp_path / "d"))
    assert sorted(again.collect()) == sorted(there.collect())


def test_a_key_that_another_row_still_has_keeps_the_value_of_that_row(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    table, sql, path = f"delta.`{tmp_path}/d`", delta_spark.sql, tmp_path / "d"
    sql(f"CREATE TABLE {table} (id INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    steps = (
        f"INSERT INTO {table} VALUES (1, 'a'), (1, 'b'), (2, 'c'), (3, 'd'), (3, 'd'), (4, 'f'), (4, 'f'), (4, 'g')",
        f"DELETE FROM {table} WHERE name = 'b'",  # cleans up duplicates
        f"DELETE FROM {table} WHERE name = 'g'",  # two equal rows remain: they are one value
        f"INSERT INTO {table} VALUES (2, 'e')",
        f"UPDATE {table} SET id = 9 WHERE name = 'c'",  # another row still has the old key
        f"""MERGE INTO {table} t
            USING (SELECT * FROM VALUES (2, 'new'), (3, 'gone'), (9, 'x'), (7, 'h') v(id, name)) s ON t.id = s.id
            WHEN MATCHED AND s.name = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name
            WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)""",
        f"INSERT INTO {table} VALUES (7, 'i')",
        f"DELETE FROM {table} WHERE id IN (1, 9) OR name = 'h'",
    )
    for step in steps:
        sql(step)
        changes(delta_spark, cluster, path)
        assert newest_is_a_row(delta_spark, cluster, path), step
    assert records(cluster)[8:10] == [(b"1", b'{"id":1,"name":"a"}'), (b"4", b'{"id":4,"name":"f"}')]

    sql(f"ALTER TABLE {table} ADD COLUMN more STRING")  # the feed of earlier versions has it, those versions do not
    written = records(cluster)
    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=1)
    assert changes(delta_spark, cluster, path).records == len(written)
    assert dict(records(cluster)).keys() == dict(written).keys()
    assert newest_is_a_row(delta_spark, cluster, path)


def test_a_key_in_several_rows_is_named_if_one_of_them_is_deleted(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    table, sql = f"delta.`{tmp_path}/d`", delta_spark.sql
    sql(f"CREATE TABLE {table} (id INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    sql(f"INSERT INTO {table} SELECT id DIV 3, concat('n', id) FROM range(15)")
    sql(f"DELETE FROM {table} WHERE name IN ('n0', 'n3', 'n6', 'n9')")
    with pytest.raises(InvalidRecord, match=r"version 2: .* 4 keys with several: '0' \(2 rows\), .*'2' \(2 rows\), …"):
        changes(delta_spark, cluster, tmp_path / "d")
    assert len(records(cluster)) == 15, "the version before is whole, and nothing of this one was written"
    with pytest.raises(InvalidRecord, match="name columns in --key"):
        changes(delta_spark, cluster, tmp_path / "d", dry_run=True)
    told_apart = RowMapping(key=("id", "name"))
    assert changes(delta_spark, cluster, tmp_path / "d", mapping=told_apart).records == 4


def test_an_updated_row_that_names_no_partition_leaves_no_tombstone(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    table, sql = f"delta.`{tmp_path}/d`", delta_spark.sql
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    sql(f"CREATE TABLE {table} (id INT, name STRING, p INT) USING delta {feed}")
    sql(f"INSERT INTO {table} VALUES (1, 'a', null), (2, 'b', 0)")
    sql(f"UPDATE {table} SET name = 'c'")
    changes(delta_spark, cluster, tmp_path / "d", mapping=RowMapping(key=("id",), partition="p"))
    assert newest_is_a_row(delta_spark, cluster, tmp_path / "d")
    assert len(records(cluster)) == 4


def test_a_table_without_a_feed_or_a_key_is_refused(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=1)
    delta_spark.sql(f"CREATE TABLE delta.`{tmp_path}/d` (id INT) USING delta")
    with pytest.raises(SparklogError, match="enableChangeDataFeed"):
        changes(delta_spark, cluster, tmp_path / "d")
    with pytest.raises(SparklogError, match="missing"):
        changes(delta_spark, cluster, tmp_path / "missing")
    with pytest.raises(InvalidOption, match="--key"):
        run_changes(InputSource("/d"), RowMapping(), Target(cluster.connection.url, "t"), spark=lambda: delta_spark)
    assert records(cluster) == []
