"""SIGKILL for driver and JVM at each step of materialize and of produce --changes: the next run completes the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.position import Mode
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.kills.killed_driver import SINK
from tests.spark.kills.running_driver import EXECUTORS, NOWHERE, Call, how_it_ended, running_driver
from tests.spark.materialize.changed_table import ChangedTable
from tests.spark.materialize.filled_tables import append, is_the_latest, is_the_topic, materialize, numbered, tombstone

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

TABLE: Final = "sparklog.spark.materialize.delta_table:DeltaTable"


def was_killed(
    folder: Path, job: Sequence[str], jars: Sequence[Path], at: Call = NOWHERE, deaths: Deaths | None = None
) -> bool:
    """Run a job on executors that die as planned, or on local[2]. Whether the driver was killed."""
    folder.mkdir()
    master, settings = ("local[2]", {}) if deaths is None else (EXECUTORS, deaths.settings())
    with running_driver(folder, job, at=at, master=master, jars=jars, settings=settings) as driver:
        return how_it_ended(driver, folder)


def materialize_words(cluster: Cluster, table: Path, *more: str) -> list[str]:
    words = ["materialize", "--cluster", cluster.connection.url, "--topic", "t", "--table", str(table)]
    return [*words, "--max-records", "8", *more]


@pytest.mark.parametrize(
    ("method", "when", "count"),
    [
        ("create", "before", 1),
        ("create", "after", 1),
        ("append", "before", 1),
        ("append", "after", 1),
        ("append", "before", 2),
        ("append", "after", 2),
    ],
)
def test_a_driver_killed_at_any_step_leaves_a_table_that_the_next_run_completes(
    delta_spark: SparkSession,
    delta_jars: list[Path],
    cluster: Cluster,
    tmp_path: Path,
    method: str,
    when: str,
    count: int,
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 20))
    job = materialize_words(cluster, tmp_path / "d")
    assert was_killed(tmp_path / "driver", job, delta_jars, (f"{TABLE}.{method}", when, count))
    append(cluster, *numbered(20, 24))
    assert materialize(delta_spark, cluster, tmp_path / "d", records=8).exit_code == 0
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")


@pytest.mark.parametrize(("when", "count"), [("before", 1), ("after", 1), ("before", 2), ("after", 2)])
def test_a_driver_killed_at_any_merge_leaves_a_table_of_the_latest_rows(
    delta_spark: SparkSession, delta_jars: list[Path], cluster: Cluster, tmp_path: Path, when: str, count: int
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 12), *numbered(0, 6), tombstone(3), tombstone(4))
    job = materialize_words(cluster, tmp_path / "d", "--mode", "latest")
    assert was_killed(tmp_path / "driver", job, delta_jars, (f"{TABLE}.merge", when, count))
    append(cluster, *numbered(2, 4), tombstone(9))
    report = materialize(delta_spark, cluster, tmp_path / "d", records=8, layout=Layout(Mode.LATEST))
    assert report.exit_code == 0
    assert is_the_latest(delta_spark, cluster, tmp_path / "d")


@pytest.mark.parametrize("step", [0, 5])
def test_a_driver_killed_while_its_executors_read_leaves_a_table_that_the_next_run_completes(
    delta_spark: SparkSession, delta_jars: list[Path], cluster: Cluster, tmp_path: Path, step: int
) -> None:
    cluster.create_topic("t", partitions=2)
    for start in range(0, 20, 5):
        append(cluster, *numbered(start, start + 5))
    deaths, job = Deaths(tmp_path / "deaths"), materialize_words(cluster, tmp_path / "d")
    with deaths.planned(Victim.DRIVER, step, reads=True) as death:
        assert was_killed(tmp_path / "driver", job, delta_jars, deaths=deaths)
    assert death.came()
    assert materialize(delta_spark, cluster, tmp_path / "d", records=8).exit_code == 0
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")


# ---- the other way round ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "step"),
    [
        *(((SINK, when, version), None) for when in ("before", "after") for version in (1, 2)),
        *((NOWHERE, step) for step in (0, 3)),
    ],
)
def test_a_driver_killed_at_any_step_leaves_changes_that_the_next_run_completes(
    delta_spark: SparkSession,
    delta_jars: list[Path],
    cluster: Cluster,
    tmp_path: Path,
    at: Call,
    step: int | None,
) -> None:
    """At the commit of a version, or while executors upload."""
    table = ChangedTable.create(delta_spark, cluster, tmp_path / "d")
    deaths = Deaths(tmp_path / "deaths")
    if step is None:
        assert was_killed(tmp_path / "driver", table.words(), delta_jars, at)
    else:
        with deaths.planned(Victim.DRIVER, step) as death:
            assert was_killed(tmp_path / "driver", table.words(), delta_jars, deaths=deaths)
        assert death.came()
    assert table.is_begun()
    table.change()
    table.produce(delta_spark)
    assert table.is_in_the_topic(delta_spark)
