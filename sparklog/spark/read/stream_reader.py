"""A stream of records, read in Spark's micro-batches. `stream_run.py` makes the plans.

    initialOffset (first run) -> [latestOffset -> partitions -> read (each task)] for each micro-batch

For a whole run, Spark keeps one reader, with the state of the run, in a planner process. Tasks get pickled copies.
Positions are in Spark's checkpoint, so nothing is lost with the process. Spark never calls `stop`, and there is nothing
to release.

Spark starts a process to plan, another to pickle the reader, and one for each task that runs at a time. So modules that
only some of them need are imported where they are used: a query starts sooner. With sparklog's JAR, the planner of the
JVM plans instead (`sparklog/spark/planner/stream_requests.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from sparklog.core.reading.stream_positions import StreamPositions, from_json, to_json
from sparklog.host.clock import Clock, SystemClock
from sparklog.options.streams import StreamReadOptions
from sparklog.spark.read.stream_run import StreamRun
from sparklog.spark.schema import RECORDS_SCHEMA, columns_of
from sparklog.spark.spark_versions import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

_MOST_ROWS = 2**63 - 1

log = logging.getLogger("sparklog")


class StreamReader(SupportsTriggerAvailableNow, DataSourceStreamReader):
    """Reads records, micro-batch by micro-batch."""

    def __init__(self, options: StreamReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        """`schema` has the columns to read, in order. Raises InvalidInput if the log has no such columns."""
        self.columns = columns_of(schema, RECORDS_SCHEMA)
        self.options = options
        self._run = StreamRun(options, clock or SystemClock(), self._warn)
        self._said: set[str] = set()  # warnings that need no repetition
        self._first: StreamPositions | None = None
        self._seen: StreamPositions | None = None  # the end of the last micro-batch; only Spark 4.0 and 4.1 need it

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the reader for tasks, without secrets and without the state of the run."""
        schema = StructType([RECORDS_SCHEMA[name] for name in self.columns])
        return StreamReader, (self.options.for_tasks(), schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the positions at which the first run starts. Raises the errors of `StreamRun.start`.

        Spark asks more than once before it logs the first micro-batch, and "latest" must not move meanwhile.
        """
        if self._first is None:
            self._first = self._run.start()
        self._seen = self._first
        return to_json(self._first)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` if there is nothing to read, or not enough yet.

        Spark 4.0 and 4.1 pass no arguments, but have called `partitions` for the previous micro-batch, even after a
        restart. The `end` of that call is then the start. Raises the errors of `StreamRun.end_after`.
        """
        begin = self._run.positions(start) if start is not None else self._seen
        if begin is None:
            begin = from_json(self.initialOffset())
        takes_all = type(limit).__name__ == "ReadAllAvailable"  # Trigger.Once, or no limits
        return to_json(self._run.end_after(begin, takes_all=takes_all))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return ReadMaxRows if the options limit a micro-batch, else ReadAllAvailable.

        Spark passes this limit to `latestOffset`, except for `Trigger.Once`, for which it passes ReadAllAvailable. So
        after ReadMaxRows, `latestOffset` can tell that `Trigger.Once` wants everything.
        """
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        limits = self.options.limits
        return ReadMaxRows(limits.max_offsets or _MOST_ROWS) if limits.is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let this run end at the present high watermarks. Spark calls this for `Trigger.AvailableNow`."""
        self._run.end_at_present()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the high watermarks when the last micro-batch was planned; None before the first plan.

        With AvailableNow, return at most the end of the run. Spark computes the stream's lag from it, for its reports.
        """
        return None if self._run.newest is None else to_json(self._run.newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a partition for each task of the micro-batch, ordered by (topic, partition, offset).

        After a restart, Spark calls this for the last micro-batch again. It also calls this for an empty micro-batch:
        there `start` and `end` are both the end of the previous one. Raises DataLoss, InconsistentClusterId.
        """
        from sparklog.spark.read.input_partitions import input_partitions

        self._seen = self._run.positions(end)
        return input_partitions(*self._run.tasks(self._run.positions(start), self._seen))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task's ranges, each range in offset order.

        Raises DataLoss, Damaged, and the stores' errors.
        """
        from sparklog.spark.read.input_partitions import read_task

        return read_task(partition, self.columns, fail_on_data_loss=self.options.read.fail_on_data_loss)

    def _warn(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            log.warning("%s", line)
