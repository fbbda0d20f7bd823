"""Others delete the topic and create it again, or replace the table: the job refuses, and adds nothing to either."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.core.errors import Conflict
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.spark.materialize.delta_table import DeltaTable
from sparklog.spark.materialize.materialize_job import MaterializeJob
from tests.spark.materialize.filled_tables import append, is_the_topic, materialize, numbered, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def create_again(cluster: Cluster, records: int) -> None:
    """As many partitions, and as many records, with other values."""
    cluster.delete_topic("t")
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(100, 100 + records))


def test_a_topic_that_is_created_again_before_the_read_adds_nothing(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 4))
    begin = MaterializeJob._records

    def late(self: MaterializeJob, *given: Any) -> Any:
        monkeypatch.setattr(MaterializeJob, "_records", begin)
        create_again(cluster, 4)
        return begin(self, *given)

    monkeypatch.setattr(MaterializeJob, "_records", late)
    report = materialize(delta_spark, cluster, tmp_path / "d")
    assert (report.exit_code, {row.outcome for row in report.partitions}) == (1, {WorkOutcome.FAILED})
    assert "topicId: wanted topic" in report.partitions[0].messages[0]
    assert rows_of(delta_spark, tmp_path / "d") == []
    assert materialize(delta_spark, cluster, tmp_path / "d").exit_code == 0, "the table has nothing of the earlier one"
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")
    create_again(cluster, 4)
    with pytest.raises(Conflict, match="found the records of an earlier topic of that name"):
        materialize(delta_spark, cluster, tmp_path / "d")


def test_a_table_that_others_replaced_is_refused(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the same columns. Before a run, and in the middle of one."""
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 4))
    table = tmp_path / "d"

    def replace() -> None:
        fields = delta_spark.read.format("delta").load(str(table)).schema.fields
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
        delta_spark.sql(f"REPLACE TABLE delta.`{table}` ({columns}) USING delta")

    commit = DeltaTable.append

    def late(*given: Any) -> None:
        monkeypatch.setattr(DeltaTable, "append", commit)
        commit(*given)
        replace()

    monkeypatch.setattr(DeltaTable, "append", late)
    report = materialize(delta_spark, cluster, table)
    assert (report.exit_code, {row.outcome for row in report.partitions}) == (1, {WorkOutcome.FAILED})
    assert "wanted a table that only grows, found REPLACE TABLE by another writer" in report.partitions[0].messages[0]
    append(cluster, *numbered(4, 8))
    with pytest.raises(Conflict, match="wanted a table that only grows, found REPLACE TABLE by another writer"):
        materialize(delta_spark, cluster, table)
    assert rows_of(delta_spark, table) == []
