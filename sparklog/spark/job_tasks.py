"""Runs the heavy part of a job: as Spark tasks, or in this process where there is no session.

Payloads and results are bytes, functions are found by name in the executors' own sparklog. A function reports its
failures in its result: one task that fails must not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.readable import counted
from sparklog.spark.spark_errors import brief

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = Callable[[bytes], bytes]
# A session, a function that makes one when the first task is to run, or None: run here, one task after the other.
Session = Union["SparkSession", "Callable[[], SparkSession]", None]

TASKS_AT_ONCE = 64  # what one round of tasks did is committed before the next begins


class TaskRunner:
    """Runs tasks for one job."""

    def __init__(self, session: Session, cluster_url: str) -> None:
        if session is not None and cluster_url.startswith("memory:"):
            raise InvalidInput(f"{cluster_url} lives in one process: Spark tasks can't reach it, use file:///path")
        self._session = session

    @property
    def tasks_at_once(self) -> int:
        """How many tasks to hand over in one call of `run`: here one, so that each is committed at once."""
        return 1 if self._session is None else TASKS_AT_ONCE

    def run(self, task: Task, payloads: Sequence[bytes]) -> list[bytes]:
        """`task` of each payload, in their order. Raises SparklogError if Spark fails to run them for good."""
        if self._session is None:
            return [task(each) for each in payloads]
        if not payloads:
            return []
        if callable(self._session):
            self._session = self._session()
        try:
            return _on_spark(self._session, task, list(payloads))
        except Exception as error:  # Spark has many kinds; to a job they all mean that these tasks did not work
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
