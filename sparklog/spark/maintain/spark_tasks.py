"""Runs the tasks of a maintenance job on Spark: an adapter of `maintenance.task_runner.TaskRunner`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.maintenance.task_runner import Task
from sparklog.spark.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkTasks:
    """Runs tasks on Spark executors. `session` is a session, or a function that returns one: the first task calls it.

    A task is sent by its name, so each executor runs the code of its own sparklog.
    """

    in_this_process = False
    tasks_at_once = 64

    def __init__(self, session: SparkSession | Callable[[], SparkSession]) -> None:
        self._session = session

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """Return the result of `task` for each payload, in order. Raises SparklogError if a task fails for good."""
        if not payloads:
            return []
        if callable(self._session):
            self._session = self._session()
        try:
            return _on_spark(self._session, task, list(payloads))
        except Exception as error:  # Spark raises many kinds; for a job they all mean that these tasks failed
            raise SparklogError(f"Spark could not run {counted(len(payloads), 'task')}: {brief(error)}") from error


def _on_spark(session: SparkSession, task: Task, payloads: list[bytes]) -> list[bytes]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0)
            results = pa.array([task(payloads[number]) for number in numbers.to_pylist()], pa.binary())
            yield pa.RecordBatch.from_arrays([numbers, results], names=["id", "result"])

    count = len(payloads)
    rows = session.range(0, count, 1, count).mapInArrow(run, "id long, result binary").collect()
    by_number = {row["id"]: bytes(row["result"]) for row in rows}
    return [by_number[number] for number in range(count)]
