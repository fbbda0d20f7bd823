"""One run of a stream: plans its micro-batches. `client/plans/stream_plan.py` has the rules. Does not import pyspark.

    start (first run) -> [end_after -> tasks] for each micro-batch

Two shells call it: `StreamReader`, which Spark keeps for a whole run, and the planner of the JVM, which makes a
StreamRun for each request. Positions are in Spark's checkpoint, so nothing is lost with a process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sparklog.core.errors import SparklogError
from sparklog.core.reading.kafka_checkpoint import from_kafka, is_of_kafka
from sparklog.core.reading.stream_positions import StreamPositions, from_json
from sparklog.core.reading.trigger_limits import TriggerLimits
from sparklog.host.clock import Clock
from sparklog.options.given import warning_of
from sparklog.options.streams import StreamReadOptions
from sparklog.spark.lazy_connection import shared

if TYPE_CHECKING:
    from sparklog.client.connection import Connection
    from sparklog.core.reading.plan import RangeToRead
    from sparklog.log.cluster_stores import StoreAddresses


class StreamRun:
    """Plans the micro-batches of one run.

    `target`: the end of a run with AvailableNow, else None. `newest`: the high watermarks at the last plan, at most
    those of `target`; None before the first plan. `last_go_ms`: the monotonic time of the last plan that
    `minOffsetsPerTrigger` did not hold back; None before the first.
    """

    def __init__(self, options: StreamReadOptions, clock: Clock, warn: Callable[[str], None]) -> None:
        """`warn` gets each warning; the same one may come again with each plan."""
        self.options = options
        self.target: StreamPositions | None = None
        self.newest: StreamPositions | None = None
        self.last_go_ms: int | None = None
        self._clock = clock
        self._warn = warn

    def start(self) -> StreamPositions:
        """Return the positions at which the first run starts.

        Raises InvalidOption, UnknownTopicOrPartition, OffsetOutOfRange.
        """
        from sparklog.log.read.read_errors import may_be_replaced

        connection = self._connection()
        try:
            return self._start(connection)
        except SparklogError as error:
            if not may_be_replaced(error):
                raise
            return self._start(connection)  # the newer state names the successor of a replaced object

    def positions(self, stored: object) -> StreamPositions:
        """Parse positions of a checkpoint: those of a stream like this, or of Spark's Kafka source.

        Raises UnsupportedVersion, InvalidInput, and the errors of `from_kafka`.
        """
        if not is_of_kafka(stored):
            return from_json(stored)
        return from_kafka(self._connection().newest_state(), stored)

    def end_at_present(self) -> None:
        """Let this run end at the present high watermarks."""
        from sparklog.client.plans.stream_plan import newest_positions

        self.target = newest_positions(self._connection().newest_state(), self.options.read, None)

    def end_after(self, begin: StreamPositions, *, takes_all: bool) -> StreamPositions:
        """Return the end of the micro-batch that begins at `begin`; `begin` if there is too little to read.

        `takes_all`: the limits of the options do not apply. If the query has a group, `begin` is committed for it.
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
        state = connection.newest_state()
        newest = newest_positions(state, self.options.read, begin)
        self._report(losses_at(state, begin, newest, self.options.read))
        if self.target is not None:
            newest = not_beyond(newest, self.target)
        self.newest = newest
        limits = self._limits(takes_all=takes_all)
        new, now_ms = new_offsets(state, begin, newest), self._clock.monotonic_ms()
        is_early = limits.holds_back(new, now_ms, self.last_go_ms)
        end = begin if is_early else next_positions(state, begin, newest, limits)
        if not is_early:
            self.last_go_ms = now_ms
        if self.options.group is not None:  # Spark asks for a micro-batch only after the previous one was written
            from sparklog.client.groups.offsets import advance_group

            advance_group(connection, self.options.group, begin.at.values())
        return end

    def tasks(self, start: StreamPositions, end: StreamPositions) -> tuple[list[list[RangeToRead]], StoreAddresses]:
        """Return the ranges of each task of a micro-batch, ordered by (topic, partition, offset), and the stores.

        Raises DataLoss, InconsistentClusterId.
        """
        from sparklog.client.plans.stream_plan import tasks_between
        from sparklog.spark.read.task_to_read import addresses_for

        connection = self._connection()
        losses: list[str] = []
        state = connection.newest_state()
        tasks = tasks_between(state, start, end, self.options.read, losses)
        _, addresses = addresses_for(connection, state, self.options.read.zone)
        self._report(losses)
        return tasks, addresses

    def _connection(self) -> Connection:
        warning = warning_of(self.options.read.ignored)
        if warning is not None:
            self._warn(warning)
        return shared(self.options.read.cluster, self.options.read.storage)

    def _start(self, connection: Connection) -> StreamPositions:
        from sparklog.client.plans.stream_plan import start_positions
        from sparklog.spark.read.task_to_read import addresses_for

        warnings: list[str] = []
        state = connection.newest_state()
        stores, _ = addresses_for(connection, state, self.options.read.zone)
        positions = start_positions(state, self.options.read, stores, warnings)
        for line in warnings:
            self._warn(line)
        return positions

    def _limits(self, *, takes_all: bool) -> TriggerLimits:
        if takes_all:
            return TriggerLimits()
        limits = self.options.limits
        return limits if self.target is None else limits.without_minimum()

    def _report(self, losses: list[str]) -> None:
        if losses and self.options.read.fail_on_data_loss:
            from sparklog.client.plans.stream_plan import data_loss

            raise data_loss(losses)
        for line in losses:
            self._warn(f"{line}: the stream continues without them (failOnDataLoss=false)")
