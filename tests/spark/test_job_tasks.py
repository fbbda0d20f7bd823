"""Where the heavy part of a job runs."""

from __future__ import annotations

from typing import Any

import pytest

from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.spark import job_tasks
from sparklog.spark.job_tasks import TaskRunner


def doubled(payload: bytes) -> bytes:
    return payload * 2


def test_without_a_session_tasks_run_here_in_order() -> None:
    assert TaskRunner(None, "memory://x").run(doubled, [b"a", b"b"]) == [b"aa", b"bb"]


def test_a_session_is_made_once_and_only_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(job_tasks, "_on_spark", lambda session, task, payloads: [session] * len(payloads))

    def session() -> Any:
        made.append("session")
        return "session"

    runner = TaskRunner(session, "file:///c")
    assert runner.run(doubled, []) == []
    assert made == []
    for _ in range(2):
        runner.run(doubled, [b"a"])
    assert made == ["session"]


def test_what_spark_raises_is_an_error_of_sparklog(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(session: object, task: object, payloads: object) -> list[bytes]:
        raise RuntimeError("stage 7 was aborted")

    monkeypatch.setattr(job_tasks, "_on_spark", failing)
    session: Any = object()
    with pytest.raises(SparklogError, match="Spark could not run 1 task: stage 7 was aborted"):
        TaskRunner(session, "file:///c").run(doubled, [b"a"])


def test_a_cluster_in_memory_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one process"):
        TaskRunner(lambda: pytest.fail("not needed"), "memory://x")


@pytest.mark.spark
def test_spark_gives_results_in_the_order_of_payloads(spark: Any) -> None:
    payloads = [f"{each}".encode() for each in range(70)]
    assert TaskRunner(spark, "file:///c").run(_decorated, payloads) == [each + b"!" for each in payloads]


def _decorated(payload: bytes) -> bytes:
    return payload + b"!"
