"""SIGKILL for executors in the middle of a micro-batch: Spark runs their tasks again, and only one attempt counts."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sparklog
from sparklog.client.bootstrap import init_cluster
from tests.spark.conftest import OneSpark
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.kills.test_killed_executors import Steps, steps
from tests.spark.stream.keyed_stream import KeyedStream
from tests.spark.stream.killed_driver import run_query
from tests.spark.test_failures import spark

__all__ = ["spark", "steps"]  # two executors, in JVMs of their own

pytestmark = [pytest.mark.spark, pytest.mark.slow]


# M: I-03 I-04 I-05 (kills)
@pytest.mark.timeout(3_000)
@pytest.mark.sparks("killed", since="4.0")
def test_a_micro_batch_whose_executor_is_killed_is_written_once(
    spark: SparkSession, one_spark: OneSpark, deaths: Deaths, tmp_path: Path, steps: Steps
) -> None:
    if one_spark.with_jar:
        pytest.skip("tasks of Java call no store in Python: see tests/spark/columns/test_write_attempts.py")
    for step in steps(3):
        folder = tmp_path / uuid.uuid4().hex
        url = str(folder / "cluster")
        init_cluster(url)
        with sparklog.connect(url) as cluster:
            stream = KeyedStream(cluster)
            stream.send(1)
            with deaths.planned(Victim.EXECUTOR, step, reads=True) as death:
                run_query(spark, "sparklog", url, str(folder / "checkpoint"))
            stream.check()
        if not death.came():
            break
    assert step >= 3
    assert step > 3 or death.came()
