"""The heavy part of a maintenance job as Spark tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.maintenance.replication_job import run_replication
from sparklog.maintenance.rewrite.roll_job import run_roll
from sparklog.spark.maintain import spark_tasks as tasks
from sparklog.spark.maintain.spark_tasks import SparkTasks
from tests.agent.agent_world import replicated_cluster
from tests.maintenance.maintained_log import DAY_MS, maintained
from tests.maintenance.space.test_vacuum_job import upload


def doubled(payload: bytes) -> bytes:
    return payload * 2


def test_a_session_is_made_once_and_only_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(tasks, "_on_spark", lambda session, task, payloads: [session] * len(payloads))

    def session() -> Any:
        made.append("session")
        return "session"

    runner = SparkTasks(session)
    assert runner.run(doubled, []) == []
    assert made == []
    for _ in range(2):
        runner.run(doubled, [b"a"])
    assert made == ["session"]


def test_what_spark_raises_is_an_error_of_sparklog(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(session: object, task: object, payloads: object) -> list[bytes]:
        raise RuntimeError("stage 7 was aborted")

    monkeypatch.setattr(tasks, "_on_spark", failing)
    session: Any = object()
    with pytest.raises(SparklogError, match="Spark could not run 1 task: stage 7 was aborted"):
        SparkTasks(lambda: session).run(doubled, [b"a"])


def test_a_cluster_in_memory_is_refused_by_name() -> None:
    session: Any = lambda: pytest.fail("no session is needed to refuse it")  # noqa: E731
    with pytest.raises(InvalidInput, match="one process"):
        run_roll("memory://x", tasks=SparkTasks(session))


@pytest.mark.spark
def test_spark_gives_results_in_the_order_of_payloads(spark: Any) -> None:
    payloads = [f"{each}".encode() for each in range(12)]  # as texts they have another order
    assert SparkTasks(spark).run(_decorated, payloads) == [each + b"!" for each in payloads]


@pytest.mark.spark
@pytest.mark.sparks("roll")
def test_spark_tasks_roll_what_one_process_would(spark: Any, tmp_path: Path) -> None:  # M: R-06
    for log in maintained(str(tmp_path / "cluster")):
        log.topic("t", 3, segment_bytes=3_000)
        for partition in range(3):
            for count in (8, 2, 60):
                log.append("t", partition, count)
        tasks = SparkTasks(spark)
        report = log.roll(tasks=tasks)
        assert report.exit_code == 0
        assert report.done.records == 210
        log.check()
        log.clock.at_ms += DAY_MS
        assert log.retention(tasks=tasks).deletion.done.objects == 9
        assert log.stored() == log.named()


@pytest.mark.spark
@pytest.mark.sparks("vacuum")
def test_spark_tasks_find_and_delete_what_nothing_names(spark: Any, tmp_path: Path) -> None:  # M: F-09
    for log in maintained(str(tmp_path / "cluster")):
        log.topic("t")
        log.append("t", 0, 8)
        upload(log, "t")
        log.append("t", 0, 1)
        log.clock.at_ms += 8 * DAY_MS
        report = log.vacuum(tasks=SparkTasks(spark))
        assert (report.exit_code, report.done.objects) == (0, 2)
        assert log.stored() == log.named()
        log.check()


@pytest.mark.spark
@pytest.mark.sparks("replication")
def test_spark_tasks_fill_the_replicas_on_a_store(spark: Any, tmp_path: Path) -> None:  # M: P-02 L-03
    world = replicated_cluster(str(tmp_path / "cluster"), partitions=2)
    for partition in (0, 1, 0):
        world.write(f"{partition}", on="ab", partition=partition)
    assert run_replication(world.cluster.connection.url, tasks=SparkTasks(spark)).exit_code == 0
    assert (world.replicas(0), world.replicas(1)) == ("a:abc a2 b2 c2", "a:abc a1 b1 c1")
    assert world.objects("c") == world.objects("a")
    world.cluster.close()


def _decorated(payload: bytes) -> bytes:
    return payload + b"!"
