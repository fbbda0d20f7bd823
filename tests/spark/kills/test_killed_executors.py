"""SIGKILL for executors in the middle of maintenance: Spark runs their tasks again, and only one attempt counts."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparklog.maintenance.job_report import JobReport, WorkOutcome
from sparklog.maintenance.verify.recovery_job import run_recovery
from sparklog.maintenance.verify.verify_job import run_verify
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.faults.killed_recovery import run as recover_here
from tests.faults.test_recovery_sigkill import damage, readable
from tests.kit.silent_console import SILENT
from tests.maintenance.damaged_log import DamagedLog, damaged_log
from tests.maintenance.keyed_log import KeyedLog
from tests.spark.kills.compacted_log import compact, filled_log, roll, settle, use_while
from tests.spark.kills.deaths import Deaths, Victim
from tests.spark.test_failures import spark

__all__ = ["spark"]  # two executors, in JVMs of their own

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Steps = Callable[..., Iterator[int]]


@pytest.fixture
def steps(request: pytest.FixtureRequest) -> Steps:
    """At which calls of the store an executor dies: at this one; with --campaign at one after the other."""

    def chosen(usual: int, every: int = 1) -> Iterator[int]:
        return itertools.count(0, every) if request.config.getoption("--campaign") else iter([usual])

    return chosen


def died_at(
    keyed: KeyedLog, deaths: Deaths, step: int, job: Callable[[], JobReport], *, always: bool = False
) -> tuple[bool, JobReport]:
    """Run a job beside writes and reads, with an executor that is killed. (Whether it was, and the report.)"""
    with deaths.planned(Victim.EXECUTOR, step, always=always) as death, ThreadPoolExecutor(1) as pool:
        running = pool.submit(job)
        use_while(keyed, lambda: not running.done())
        return death.came(), running.result()


@pytest.fixture
def new_url(tmp_path: Path) -> Callable[[], str]:
    """Addresses of new clusters; `test_on_stores` has others."""
    return lambda: (tmp_path / uuid.uuid4().hex).as_uri()


# M: C-01 C-05 C-07 S-09 (kills)
@pytest.mark.timeout(3_000)
@pytest.mark.sparks("compaction")
def test_a_compaction_whose_executor_is_killed_is_right(
    spark: SparkSession, deaths: Deaths, new_url: Callable[[], str], steps: Steps
) -> None:
    for step in steps(3):
        with filled_log(new_url()) as keyed:
            plan = keyed.log.planned("t")
            came, report = died_at(keyed, deaths, step, partial(compact, keyed, spark))
            assert [row.outcome for row in report.partitions] == [WorkOutcome.DONE], report.to_json()
            assert set(keyed.log.read_plan(plan)) <= {value and value.encode() for _, _, value in keyed.rows}
            settle(keyed)
        if not came:
            break
    assert came or step > 3
    print(f"the last step was {step}")


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
@pytest.mark.sparks("roll")
def test_a_roll_whose_executor_is_killed_is_right(
    spark: SparkSession, deaths: Deaths, new_url: Callable[[], str], steps: Steps
) -> None:
    for step in steps(3):
        with filled_log(new_url()) as keyed:
            came, report = died_at(keyed, deaths, step, partial(roll, keyed, spark))
            assert [row.outcome for row in report.partitions] == [WorkOutcome.DONE], report.to_json()
            settle(keyed)
        if not came:
            break
    assert came or step > 3
    print(f"the last step was {step}")


@pytest.mark.campaign
@pytest.mark.parametrize("job", [roll, compact])
def test_a_job_whose_executors_always_die_fails_and_changes_nothing(
    spark: SparkSession,
    deaths: Deaths,
    new_url: Callable[[], str],
    job: Callable[[KeyedLog, SparkSession], JobReport],
) -> None:
    with filled_log(new_url()) as keyed:
        before = keyed.log.segments("t")
        came, report = died_at(keyed, deaths, 1, partial(job, keyed, spark), always=True)
        assert came
        (row,) = report.partitions
        assert (report.exit_code, row.outcome) == (1, WorkOutcome.FAILED)
        assert row.messages[0].startswith("UNKNOWN_SERVER_ERROR: Spark could not "), row.messages
        assert keyed.log.segments("t")[: len(before)] == before
        settle(keyed)


# ---- recovery and verify --------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Callable[[], DamagedLog]]:
    """New logs on three stores, with damage on each that another one can repair."""
    made: list[DamagedLog] = []

    def new() -> DamagedLog:
        made.append(damaged_log(str(tmp_path / uuid.uuid4().hex)))
        damage(made[-1])
        return made[-1]

    yield new
    for log in made:
        log.world.cluster.close()


def recover(log: DamagedLog, spark: SparkSession) -> JobReport:
    return run_recovery(log.url, tasks=SparkTasks(spark), console=SILENT)


@pytest.mark.campaign
@pytest.mark.timeout(3_000)
def test_recovery_and_verify_with_a_killed_executor_leave_whole_stores(
    spark: SparkSession, deaths: Deaths, damaged: Callable[[], DamagedLog], steps: Steps
) -> None:
    for step in steps(20, every=4):
        log = damaged()
        with deaths.planned(Victim.EXECUTOR, step, reads=True) as death:
            report = recover(log, spark)
        assert report.exit_code == 0, report.to_json()
        readable(log)
        log.check()
        assert recover_here(log.url) == 0
        if not death.came():
            break
    assert death.came() or step > 20
    print(f"the last step of recovery was {step}")
    for step in steps(4, every=4):
        with deaths.planned(Victim.EXECUTOR, step, reads=True) as death:
            verified = run_verify(log.url, tasks=SparkTasks(spark), console=SILENT)
        assert (verified.exit_code, verified.differences) == (0, ()), verified.to_json()
        assert verified.done.objects == verified.planned.objects
        if not death.came():
            break
    assert death.came() or step > 4
    print(f"the last step of verify was {step}")
    assert _names(recover(log, spark)) == []


@pytest.mark.campaign
def test_recovery_and_verify_whose_executors_always_die_say_so(
    spark: SparkSession, deaths: Deaths, damaged: Callable[[], DamagedLog]
) -> None:
    log = damaged()
    with deaths.planned(Victim.EXECUTOR, 3, reads=True, always=True):
        report = recover(log, spark)
        verified = run_verify(log.url, tasks=SparkTasks(spark), console=SILENT)
    for failed in (report, verified):
        assert failed.exit_code == 1
        assert "Spark could not run 1 task" in failed.to_json()
    assert [log.point(store) for store in "abc"] == [0, 0, 0]
    readable(log)
    assert recover(log, spark).exit_code == 0
    log.check()


def _names(report: JobReport) -> Sequence[str]:
    return [row.place for row in report.partitions]
