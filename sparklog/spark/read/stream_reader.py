"""A stream of records, read in Spark's micro-batches. `client/plans/stream_plan.py` makes the plans.

    initialOffset (first run) -> [latestOffset -> partitions -> read (each task)] for each micro-batch

For a whole run, Spark keeps one reader, with the state of the run, in a planner process. Tasks get pickled copies.
Positions are in Spark's checkpoint, so nothing is lost with the process. Spark never calls `stop`, and there is nothing
to release.

Spark starts a process to plan, another to pickle the reader, and one for each task that runs at a time. So modules that
only some of them need are imported where they are used: a query starts sooner.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from sparklog.core.errors import SparklogError
from sparklog.core.reading.stream_positions import StreamPositions, from_json, to_json
from sparklog.core.reading.trigger_limits import TriggerLimits
from sparklog.host.clock import Clock, SystemClock
from sparklog.options.given import warning_of
from sparklog.options.streams import StreamReadOptions
from sparklog.spark.installed import SupportsTriggerAvailableNow
from sparklog.spark.lazy_connection import shared
from sparklog.spark.schema import RECORDS_SCHEMA, columns_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

    from sparklog.client.connection import Connection

_MOST_ROWS = 2**63 - 1

log = logging.getLogger("sparklog")


class StreamReader(SupportsTriggerAvailableNow, DataSourceStreamReader):
    """Reads records, micro-batch by micro-batch."""

    def __init__(self, options: StreamReadOptions, schema: StructType, clock: Clock | None = None) -> None:
        """`schema` has the columns to read, in order. Raises InvalidInput if the log has no such columns."""
        self.columns = columns_of(schema, RECORDS_SCHEMA)
        self.options = options
        self._clock = clock or SystemClock()
        self._said: set[str] = set()  # warnings that need no repetition
        self._seen: StreamPositions | None = None  # the end of the last micro-batch; only Spark 4.0 and 4.1 need it
        self._target: StreamPositions | None = None  # the end of a run with AvailableNow
        self._newest: StreamPositions | None = None
        self._last_go_ms: int | None = None  # monotonic time at which a micro-batch was last not held back

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the reader for tasks, without secrets and without the state of the run."""
        schema = StructType([RECORDS_SCHEMA[name] for name in self.columns])
        return StreamReader, (self.options.for_tasks(), schema)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the positions at which the first run starts.

        Raises InvalidOption, UnknownTopicOrPartition, OffsetOutOfRange.
        """
        from sparklog.log.read.read_errors import may_be_replaced

        connection = self._connection()
        try:
            self._seen = self._start(connection)
        except SparklogError as error:
            if not may_be_replaced(error):
                raise
            self._seen = self._start(connection)  # the newer state names the successor of a replaced object
        return to_json(self._seen)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch; `start` if there is nothing to read, or not enough yet.

        Spark 4.0 and 4.1 pass no arguments, but have called `partitions` for the previous micro-batch, even after a
        restart. The `end` of that call is then the start. If the query has a group, the start is committed for it.
        Raises DataLoss, InconsistentClusterId, UnknownTopicOrPartition; with a group also UnknownMemberId (it has
        members), InvalidGroupId, and other errors of a commit.
        """
        from sparklog.client.plans.stream_plan import (
            losses_at,
            new_offsets,
            newest_positions,
            next_positions,
            not_beyond,
        )

        connection = self._connection()
        begin = from_json(start) if start is not None else self._seen
        if begin is None:
            begin = from_json(self.initialOffset())
        state = connection.follower.newest_state()
        newest = newest_positions(state, self.options.read, begin)
        self._report(losses_at(state, begin, newest, self.options.read))
        if self._target is not None:
            newest = not_beyond(newest, self._target)
        self._newest = newest
        limits = self._limits(limit)
        new, now_ms = new_offsets(state, begin, newest), self._clock.monotonic_ms()
        is_early = limits.holds_back(new, now_ms, self._last_go_ms)
        end = begin if is_early else next_positions(state, begin, newest, limits)
        if not is_early:
            self._last_go_ms = now_ms
        if self.options.group is not None:  # Spark asks for a micro-batch only after the previous one was written
            from sparklog.client.groups.offsets import advance_group

            advance_group(connection, self.options.group, begin.at.values())
        return to_json(end)

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
        from sparklog.client.plans.stream_plan import newest_positions

        state = self._connection().follower.newest_state()
        self._target = newest_positions(state, self.options.read, None)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the high watermarks when the last micro-batch was planned; None before the first plan.

        With AvailableNow, return at most the end of the run. Spark computes the stream's lag from it, for its reports.
        """
        return None if self._newest is None else to_json(self._newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return a partition for each task of the micro-batch, ordered by (topic, partition, offset).

        After a restart, Spark calls this for the last micro-batch again. It also calls this for an empty micro-batch:
        there `start` and `end` are both the end of the previous one. Raises DataLoss, InconsistentClusterId.
        """
        from sparklog.client.plans.stream_plan import tasks_between
        from sparklog.spark.read.input_partitions import input_partitions
        from sparklog.spark.read.task_to_read import addresses_for

        connection = self._connection()
        self._seen = from_json(end)
        losses: list[str] = []
        state = connection.follower.newest_state()
        tasks = tasks_between(state, from_json(start), self._seen, self.options.read, losses)
        _, addresses = addresses_for(connection, state, self.options.read.zone)
        self._report(losses)
        return input_partitions(tasks, addresses)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task's ranges, each range in offset order.

        Raises DataLoss, Damaged, and the stores' errors.
        """
        from sparklog.spark.read.input_partitions import read_task

        return read_task(partition, self.columns, fail_on_data_loss=self.options.read.fail_on_data_loss)

    def _connection(self) -> Connection:
        warning = warning_of(self.options.read.ignored)
        if warning is not None:
            self._warn(warning)
        return shared(self.options.read.cluster, self.options.read.storage)

    def _start(self, connection: Connection) -> StreamPositions:
        from sparklog.client.plans.stream_plan import start_positions
        from sparklog.spark.read.task_to_read import addresses_for

        warnings: list[str] = []
        state = connection.follower.newest_state()
        stores, _ = addresses_for(connection, state, self.options.read.zone)
        positions = start_positions(state, self.options.read, stores, warnings)
        for line in warnings:
            self._warn(line)
        return positions

    def _limits(self, limit: ReadLimit | None) -> TriggerLimits:
        limits = self.options.limits
        if limits.is_limited and type(limit).__name__ == "ReadAllAvailable":  # Trigger.Once
            return TriggerLimits()
        return limits if self._target is None else limits.without_minimum()

    def _report(self, losses: list[str]) -> None:
        if losses and self.options.read.fail_on_data_loss:
            from sparklog.client.plans.stream_plan import data_loss

            raise data_loss(losses)
        for line in losses:
            self._warn(f"{line}: the stream continues without them (failOnDataLoss=false)")

    def _warn(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            log.warning("%s", line)
