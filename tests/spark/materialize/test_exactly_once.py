"""Each record is once in the table, whenever the job is killed, run again, or run twice at the same time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparklog.client.cluster import Cluster
from sparklog.maintenance.job_report import JobReport
from sparklog.spark.materialize.columns import Layout
from sparklog.spark.materialize.delta_table import DeltaTable
from tests.spark.materialize.filled_tables import append, is_the_topic, materialize, numbered, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


COUNTED = Layout(value_schema="n int")  # Spark counts bad values while it writes


def objects(start: int, end: int) -> list[dict[str, Any]]:
    return [{**row, "value": b'{"n":%d}' % n} for n, row in enumerate(numbered(start, end), start)]


class Killed(BaseException):
    """The driver is gone: nothing in the job handles it."""


def killing(commit: Callable[..., None], *, after: bool) -> Callable[..., None]:
    def killed(*given: Any) -> None:
        if after:
            commit(*given)
        raise Killed

    return killed


@pytest.mark.campaign
def test_a_run_killed_before_or_after_its_commit_is_done_again(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *numbered(0, 10))
    for after in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(DeltaTable, "append", killing(DeltaTable.append, after=after))
            with pytest.raises(Killed):
                materialize(delta_spark, cluster, tmp_path / "d")
    append(cluster, *numbered(10, 12))
    assert materialize(delta_spark, cluster, tmp_path / "d").done.records == 2
    assert is_the_topic(delta_spark, cluster, tmp_path / "d")


def test_a_copy_of_the_job_that_is_overtaken_with_more_records_adds_nothing_twice(
    delta_spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", partitions=2)
    append(cluster, *objects(0, 4))
    commit = DeltaTable.append
    others: list[JobReport] = []

    def after_another_run(*given: Any) -> None:
        monkeypatch.setattr(DeltaTable, "append", commit)
        append(cluster, *objects(4, 10))
        others.append(materialize(delta_spark, cluster, tmp_path / "d", layout=COUNTED))
        commit(*given)

    monkeypatch.setattr(DeltaTable, "append", after_another_run)
    report = materialize(delta_spark, cluster, tmp_path / "d", layout=COUNTED)
    assert others[0].done.records == 10
    assert (report.exit_code, report.done.records) == (0, 0)
    assert sorted(row.n for row in rows_of(delta_spark, tmp_path / "d")) == list(range(10))
