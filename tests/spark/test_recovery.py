"""Recovery on Spark: tasks read and check, also where there are more of them than cores."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.maintenance.verify import look_tasks
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import damaged_log


# M: F-04
@pytest.mark.sparks("recovery")
def test_spark_tasks_read_the_objects_and_the_job_repairs_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_tasks, "TASK_OBJECTS", 1)  # a task for each object
    log = damaged_log(str(tmp_path / "log"))
    log.damage("a", 0, "flipped")
    log.damage("b", 1, "lost", index=True)
    log.damage("c", 3, "cut")
    report = run_recovery(log.url, tasks=SparkTasks(spark), console=SILENT)
    assert report.exit_code == 0, report.to_json()
    assert report.done.objects == 15
    log.check()
    log.world.cluster.close()
