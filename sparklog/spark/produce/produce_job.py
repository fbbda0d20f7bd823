"""The produce job: writes the rows of a file, a directory or a table to a topic, in one commit.

checks without Spark -> (already written? done) -> source -> columns for the sink -> (--dry-run stops here)
-> create the topic if wanted -> one write -> report

All rows are written, or none. If the write fails, a topic that this run created is deleted again if it is still empty,
unless the write is in doubt. A killed run leaves the topic behind, without records, and the next run with --create
uses it. Vacuum removes the objects of a failed write.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from sparklog.client.connection import Connection
from sparklog.core.config.timestamp_bounds import timestamp_bounds
from sparklog.core.coordination import Author
from sparklog.core.describe.readable import amount, counted, duration, printable
from sparklog.core.errors import InvalidOption, SparklogError, UnknownTopicOrPartition
from sparklog.core.records import AppendedRange, CommandResult
from sparklog.host.clock import Clock, SystemClock
from sparklog.host.dice import new_id
from sparklog.host.standard_streams import print_to
from sparklog.options.typed import ApplicationVersion, WriteOptions, parse_write_options
from sparklog.spark.produce.conversions import explained_of_rows
from sparklog.spark.produce.delta_changes import CHANGE, with_tombstones
from sparklog.spark.produce.formats.bad_rows import (
    BAD,
    BadRow,
    BadRows,
    OnBadRow,
    has_bad_rows,
    is_bad,
    shown,
    with_dead_letters,
)
from sparklog.spark.produce.input_source import InputSource, checked, hidden_files, open_source, open_table, reading
from sparklog.spark.produce.preview import preview
from sparklog.spark.produce.produce_report import ProduceReport, RangeWritten
from sparklog.spark.produce.rows import RowMapping, check_mapping, visible, written_columns
from sparklog.spark.produce.target_topics import NewTopic, WrittenTopics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

PROGRESS_EVERY_S = 5.0


class Target(msgspec.Struct, frozen=True):
    """The cluster and topic to write to. If `create` is None, the topic must exist.

    `transaction`: --txn-app-id and --txn-version. `bad_rows`: the treatment of unreadable rows.
    """

    cluster: str
    topic: str
    create: NewTopic | None = None
    transaction: tuple[str, str] | None = None
    compression: str | None = None
    bad_rows: BadRows = BadRows()


def run_produce(
    source: InputSource,
    mapping: RowMapping,
    target: Target,
    *,
    spark: SparkSession | Callable[[], SparkSession],
    dry_run: bool = False,
    console: TextIO | None = None,
    plan: TextIO | None = None,
    clock: Clock | None = None,
) -> ProduceReport:
    """Write the rows of `source` to `target`: all of them, or nothing.

    `spark` is called after all checks that need no Spark. Times without a zone are UTC. `console` shows progress
    (default: stderr), `plan` the result of --dry-run (default: the console). Raises InvalidInput and its subclasses,
    NotFound, Conflict, OutcomeUnknown.
    """
    check_mapping(mapping)
    source = checked(source)
    target.bad_rows.check(target.topic)
    if target.bad_rows.then is not OnBadRow.FAIL and not source.is_text:
        raise InvalidOption(
            f"--on-bad-row applies to CSV and JSON files: {source.name} has no rows that could be malformed"
        )
    console = console or sys.stderr
    produce = _Produce(source, mapping, target, console, plan or console, clock or SystemClock())
    with closing(produce.connection):
        return produce.run(spark, dry_run)


class _Produce:
    """One run of the produce job."""

    def __init__(
        self, source: InputSource, mapping: RowMapping, target: Target, console: TextIO, plan: TextIO, clock: Clock
    ) -> None:
        self.source, self.mapping, self.target, self.clock = source, mapping, target, clock
        self.console, self.plan = console, plan
        self.write_id = f"produce-{new_id()}"
        self.raw_options = _sink_options(target, self.write_id)
        self.options: WriteOptions = parse_write_options(self.raw_options)
        self.bad_rows = target.bad_rows
        author = Author("job", f"produce@{socket.gethostname()}:{os.getpid()}")
        self.connection = Connection(self.options.cluster, author)
        self.topics = WrittenTopics(self.connection, target.topic, self.bad_rows.topic, target.create, self._say)
        self.started_ms = clock.now_ms()
        self.hidden_files = 0

    def run(self, spark: SparkSession | Callable[[], SparkSession], dry_run: bool) -> ProduceReport:
        exists = self.topics.check()
        transaction = self.options.transaction
        if transaction is not None and self._was_written(transaction):
            self._say(
                f"nothing was written: txn-app-id {transaction.app_id!r} has already written version "
                f"{transaction.version} or a later one"
            )
            return self._report(dry_run=dry_run, skipped=True)
        session = spark() if callable(spark) else spark
        with self._progress(session), reading(self.source, session):
            if aside := hidden_files(self.source, session):
                self._say(
                    f"{counted(len(aside), 'file')} left out: Spark does not look into folders whose names begin with "
                    f"_ or ., the first: {aside[0]}"
                )
            self.hidden_files = len(aside)
            frame = open_source(self.source, session, stop_at_bad=self.bad_rows.then is OnBadRow.FAIL)
            columns = written_columns(frame, self.mapping)
            if dry_run:
                return self._show(frame, columns, exists)
            with self.topics.created():
                return self._write(frame, columns, created=not exists)

    def _write(self, frame: DataFrame, columns: dict[str, Column], *, created: bool) -> ProduceReport:
        state = self.connection.newest_state()
        before = state.n
        if self.bad_rows.topic is not None:
            columns = with_dead_letters(columns, self.target.topic, self.bad_rows.topic)
        skipped, frame_left = self._left_out(frame)
        try:
            rows = self._records(frame_left, columns)
            rows.write.format("sparklog").options(**self.raw_options).mode("append").save()
        except Exception as error:
            raise self._explained(error) from error
        report = self._written(before, columns=tuple(visible(frame).columns), created_topic=created)
        return report if skipped is None else self._with_skipped(report, skipped.get)

    def _records(self, frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
        named = [column.alias(name) for name, column in columns.items()]
        if self.source.version is None:
            return frame.select(*named)

        def table() -> DataFrame:
            rows = open_table(self.source, frame.sparkSession, visible(frame).schema)
            return rows.select(*(column.alias(name) for name, column in written_columns(rows, self.mapping).items()))

        place = f"{self.source.name}, version {self.source.version}"
        return with_tombstones(frame.select(*named, CHANGE), table, place)

    def _explained(self, error: Exception) -> SparklogError:
        """Return the error to show for Spark's `error`. It says if another process deleted a topic during the run."""
        reason = explained_of_rows(error, self.source.name, self.mapping)
        gone = self.topics.deleted() if isinstance(reason, UnknownTopicOrPartition) else []
        if not gone:
            return reason
        return UnknownTopicOrPartition(
            f"{reason.message}; another process deleted {' and '.join(gone)} while this job ran (a produce --create "
            "that fails deletes its new topics): nothing was written, and the job can be run again"
        )

    def _left_out(self, frame: DataFrame) -> tuple[Observation | None, DataFrame]:
        """Leave bad rows out if that is wanted (--on-bad-row skip).

        Returns an Observation, which counts the bad rows during the write, and the frame without them. Otherwise
        returns None and `frame` unchanged.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        if self.bad_rows.then is not OnBadRow.SKIP:
            return None, frame
        seen = Observation()
        first = sql.min(sql.col(BAD))
        parts = [
            first.getField(name).alias(name) for name in ("file", "row", "reason", "text")
        ]  # Spark 4.0 reports no struct
        return seen, frame.observe(seen, sql.count(BAD).alias("bad"), *parts).where(~is_bad())

    def _with_skipped(self, report: ProduceReport, seen: dict[str, Any]) -> ProduceReport:
        if seen["bad"]:
            self._say(_of_bad_rows(seen["bad"], seen, "left out"))
        return msgspec.structs.replace(report, bad_rows=seen["bad"])

    # ---- before ---------------------------------------------------------------------------------

    def _was_written(self, transaction: ApplicationVersion) -> bool:
        state = self.connection.newest_state()
        before = state.applications.get(transaction.app_id)
        return before is not None and before.has_written(transaction.version)

    # ---- after ----------------------------------------------------------------------------------

    def _written(self, before: int, *, columns: tuple[str, ...], created_topic: bool) -> ProduceReport:
        state = self.connection.newest_state()
        applied = [command for command in state.results.labelled(self.write_id) if command.n > before]
        topic = state.topic_named(self.target.topic)
        results = [result for _, result in self.connection.follower.results(applied) if result.label == self.write_id]
        if not results or not results[0].ranges:
            self._say(f"{self.source.name} has no rows to write")
            return self._report(columns=columns, created_topic=created_topic)
        result = results[0]
        ours = [range_ for range_ in result.ranges if topic is None or range_.topic_id == topic.topic_id]
        report = self._report(result=result, ranges=ours, columns=columns, created_topic=created_topic)
        for part in report.partitions:
            self._say(
                f"{report.topic}-{part.partition}: offsets [{part.start:,}, {part.end:,}), {amount(part.size_bytes)}"
            )
        if report.bad_rows:
            self._say(f"{counted(report.bad_rows, 'bad row')} written to topic {self.bad_rows.topic}")
        self._say(
            f"{counted(report.records, 'record')}, {amount(report.size_bytes)} stored, committed in entry "
            f"{report.entry} as write {self.write_id}, {duration(report.ended_ms - report.started_ms)} in all"
        )
        return report

    def _show(self, frame: DataFrame, columns: dict[str, Column], exists: bool) -> ProduceReport:
        """Show the result of a dry run: counts, columns and the first rows.

        This fails, as the write would, for a row whose key, value or timestamp cannot be computed, and for a timestamp
        that the topic refuses.
        """
        from pyspark.sql import functions as sql

        good = frame.where(~is_bad()) if has_bad_rows(frame) else frame
        bad, first = 0, None
        try:
            seen = preview(self._records(good, columns))
            if self.bad_rows.then is not OnBadRow.FAIL:
                bad, first = frame.agg(sql.count(BAD), sql.min(BAD)).collect()[0]
            if seen.oldest_us is not None and seen.newest_us is not None:
                bounds = timestamp_bounds(self.topics.config(), self.clock.now_ms())
                bounds.check(self.target.topic, seen.oldest_us, seen.newest_us)
        except Exception as error:
            raise self._explained(error) from error
        names = tuple(visible(frame).columns)
        self._show_line(f"{self.source.name}: {counted(seen.records, 'row')}, columns {', '.join(names)}")
        place = f"topic {self.target.topic}" + ("" if exists else ", which would be created")
        self._show_line(
            f"would be written to {place}: {amount(seen.size_bytes)} of keys and values, not yet compressed"
        )
        if bad:
            to = "left out" if self.bad_rows.topic is None else f"written to topic {self.bad_rows.topic}"
            self._show_line(f"besides, {_of_bad_rows(bad, first, f'would be {to}')}")
        for line in [*seen.remarks(), *(f"  {row}" for row in seen.first)]:
            self._show_line(line)
        report = self._report(dry_run=True, columns=names)
        return msgspec.structs.replace(report, records=seen.records, size_bytes=seen.size_bytes, bad_rows=bad)

    def _report(
        self,
        *,
        result: CommandResult | None = None,
        ranges: Sequence[AppendedRange] = (),
        columns: tuple[str, ...] = (),
        created_topic: bool = False,
        dry_run: bool = False,
        skipped: bool = False,
    ) -> ProduceReport:
        written = tuple(
            RangeWritten(int(range_.partition), range_.start, range_.end, range_.records, range_.size_bytes)
            for range_ in sorted(ranges, key=lambda range_: range_.partition)
        )
        return ProduceReport(
            source=self.source.name,
            cluster=self.connection.url,
            topic=self.target.topic,
            dry_run=dry_run,
            skipped=skipped,
            started_ms=self.started_ms,
            ended_ms=self.clock.now_ms(),
            records=sum(part.records for part in written),
            size_bytes=sum(part.size_bytes for part in written),
            created_topic=created_topic,
            columns=columns,
            write_id=None if dry_run or skipped else self.write_id,
            entry=None if result is None else result.n,
            partitions=written,
            bad_rows=0 if result is None else result.records - sum(part.records for part in written),
            dead_letter_topic=self.bad_rows.topic,
            hidden_files=self.hidden_files,
        )

    @contextmanager
    def _progress(self, session: SparkSession) -> Iterator[None]:
        """Print the progress of Spark's tasks every PROGRESS_EVERY_S, for stages with more than one task."""
        ended = threading.Event()

        def print_progress() -> None:
            tracker = session.sparkContext.statusTracker()
            while not ended.wait(PROGRESS_EVERY_S):
                for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                    if stage is not None and stage.numTasks > 1:
                        done = f"{stage.numCompletedTasks:,} of {stage.numTasks:,} tasks done"
                        self._say(f"{done} of stage {stage.stageId}")

        thread = threading.Thread(target=print_progress, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _say(self, line: str) -> None:
        print_to(self.console, printable(line))

    def _show_line(self, line: str) -> None:
        print_to(self.plan, printable(line))


def _sink_options(target: Target, write_id: str) -> dict[str, str]:
    options = {"cluster": target.cluster, "writeId": write_id}
    if target.bad_rows.topic is None:  # otherwise each row names its topic
        options["topic"] = target.topic
    if target.compression is not None:
        options["compression"] = target.compression
    if target.transaction is not None:
        options["txnAppId"], options["txnVersion"] = target.transaction
    return options


def _of_bad_rows(count: int, first: Any, what: str) -> str:
    example = BadRow(first["row"], first["reason"], bytes(first["text"] or b""))
    return (
        f"{counted(count, 'bad row')} {what}, the first: {first['file']}, line {example.line:,}: {example.reason}; "
        f"found {shown(example.text)}"
    )
