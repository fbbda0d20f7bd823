"""SIGKILL for executors in the middle of materialize and of produce --changes: each record lands once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.position import Mode
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.materialize.changed_table import ChangedTable
from tests.spark.materialize.filled_tables import append, is_the_latest, is_the_topic, materialize, numbered, tombstone

pytestmark = [pytest.mark.spark, pytest.mark.campaign]


@pytest.mark.timeout(1_000)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_table_is_the_topic_whenever_an_executor_dies(
    delta_executors: SparkSession, deaths: Deaths, cluster: Cluster, tmp_path: Path, mode: Mode
) -> None:
    """It dies before every fourth call of the store that its tasks make."""
    cluster.create_topic("t", partitions=2)
    for start in range(0, 20, 5):
        append(cluster, *numbered(start, start + 5), *numbered(start, start + 2))
    append(cluster, tombstone(3))
    is_right = is_the_topic if mode is Mode.APPEND else is_the_latest
    for step in itertools.count(0, 4):
        table = tmp_path / f"d{step}"
        with deaths.planned(Victim.EXECUTOR, step, reads=True) as death:
            report = materialize(delta_executors, cluster, table, records=15, layout=Layout(mode))
        assert report.exit_code == 0, report.to_json()
        assert is_right(delta_executors, cluster, table)
        if not death.came():
            break
    assert step > 3
    print(f"killed before {step // 4} calls of an executor")


def test_a_run_whose_executors_always_die_adds_nothing_and_the_next_one_everything(
    delta_executors: SparkSession, deaths: Deaths, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 20))
    with deaths.planned(Victim.EXECUTOR, 1, reads=True, always=True):
        report = materialize(delta_executors, cluster, tmp_path / "d")
    assert report.exit_code == 1
    assert {row.outcome for row in report.partitions} == {WorkOutcome.FAILED}
    assert all(row.messages[0].startswith("UNKNOWN_SERVER_ERROR: ") for row in report.partitions), report.to_json()
    assert materialize(delta_executors, cluster, tmp_path / "d").done.records == 20
    assert is_the_topic(delta_executors, cluster, tmp_path / "d")


@pytest.mark.timeout(1_000)
def test_changes_land_once_whenever_an_executor_dies(
    delta_executors: SparkSession, deaths: Deaths, cluster: Cluster, tmp_path: Path
) -> None:
    for step in itertools.count(0, 2):
        table = ChangedTable.create(delta_executors, cluster, tmp_path / f"d{step}", topic=f"t{step}")
        with deaths.planned(Victim.EXECUTOR, step) as death:
            table.produce(delta_executors)
        assert table.is_in_the_topic(delta_executors)
        if not death.came():
            break
    assert step > 2
    print(f"killed before {step // 2} changes of an executor")
