"""The change feed of a Delta table as records: every version once, in order, and back into a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import InvalidOption, SparklogError
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


def changes(spark: SparkSession, cluster: Cluster, path: Path, start: int | None = None) -> ProduceReport:
    mapping, target = RowMapping(key=("id",)), Target(cluster.connection.url, "t")
    said = SILENT
    return run_changes(
        InputSource(str(path)), mapping, target, spark=lambda: spark, starting_version=start, console=said
    )


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
