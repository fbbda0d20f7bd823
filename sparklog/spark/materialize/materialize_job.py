"""The materialize job: adds the records of a topic that a Delta table lacks, in bounded commits.

    the table's position -> what is due -> step by step: read the offsets, make rows, one commit with the next position

Only the table itself stores its position (position.py). A killed run loses at most its current step, and the next run
repeats this step. Copies of the job may run at the same time: each step lands once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from sparklog.core.describe.readable import counted
from sparklog.core.errors import Conflict, InvalidInput, InvalidOption
from sparklog.core.lookup import topic_of
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, TopicPartition
from sparklog.host.dice import new_id
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome
from sparklog.spark.materialize.columns import Layout, empty_rows, latest_of, rows_of
from sparklog.spark.materialize.delta_table import DeltaTable, JobCommit, check_delta, is_overtaken
from sparklog.spark.materialize.position import Mode, TablePosition, check_same_source
from sparklog.spark.materialize.steps import Due, Step, due_ranges, first_position, next_step, weighed
from sparklog.spark.spark_errors import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

DEFAULT_RECORDS: Final = 5_000_000  # per commit
RENEW_MS: Final = 7 * 86_400_000  # Delta keeps the entry of a commit for 30 days by default
MOST_OVERTAKEN: Final = 10  # the most times in a row that another writer may commit first
BadCounts = Callable[[], dict[str, int]]
_REQUESTS_PER_SLICE: Final = 2  # its index, its bytes


class Table(msgspec.Struct, frozen=True):
    """The target table and its rows. `name`: see DeltaTable. `partition_by`: used when the job creates the table.

    `records`: the approximate maximum of records in one commit. `fail_on_data_loss`: stop if records were removed
    before the table got them, or if an unclean election gave up records that the table has.
    """

    name: str
    layout: Layout = Layout()
    partition_by: tuple[str, ...] = ()
    records: int = DEFAULT_RECORDS
    fail_on_data_loss: bool = True


def run_materialize(
    cluster_url: str, topic: str, table: Table, spark: Callable[[], SparkSession], **options: Unpack[JobOptions]
) -> JobReport:
    """Bring a table up to the high watermarks of a topic. `spark` returns a session with Delta Lake.

    Raises InvalidOption, UnknownTopicOrPartition, Conflict (the table has another topic or another mode), DataLoss (see
    `Table.fail_on_data_loss`), InconsistentClusterId. Failures after planning are in the report.
    """
    options["topics"] = [topic]
    return run_job(MaterializeJob(topic, table, spark), cluster_url, **options)


class MaterializeJob:
    """Plans and does the work of `run_materialize`, as a `job_frame.Job`."""

    name = "materialize"
    unit = "slices"

    def __init__(self, topic: str, table: Table, spark: Callable[[], SparkSession]) -> None:
        self._warnings: list[str] = []
        self._bad: Counter[str] = Counter()  # unreadable values, by column
        self._topic, self._table, self._spark = topic, table, spark
        self._run = new_id()
        self._rows: dict[PartitionIndex, PartitionResult] = {}
        self._session: Any = None
        self._delta: Any = None
        self._last_commit: JobCommit | None = None

    @property
    def notes(self) -> list[str]:
        """Warnings, and for each of the columns BAD_KEY and BAD_VALUE the number of values kept there."""
        bad = [f"not of the schema: {counted(count, 'value')}, kept in {name}" for name, count in self._bad.items()]
        return self._warnings + bad

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Open the table, and return a row for each partition with records that the table lacks."""
        self._open()
        self._last_commit = self._delta.last_job_commit() if self._delta.exists() else None
        rows = empty_rows(self._session, self._table.layout)
        if self._delta.exists():
            _new_columns(self._delta, rows.schema, self._table)
        state = frame.connection.newest_state()
        topic = topic_of(state, self._topic)
        due = self._due(state, topic)
        for partition, range_ in due.items():
            self._rows[partition] = _planned(state, topic, partition, range_.offsets, self._table.name)
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Write step by step until the table has all records that were due when the run began; return the results."""
        try:
            self._prepare()
            self._last_commit = self._delta.last_job_commit() if self._delta.exists() else None
            state = frame.connection.newest_state()
            target = self._due(state, topic_of(state, self._topic))
            self._steps(frame, target)
            self._renew(frame)
        except Exception as error:
            reason = explained(error, self._table.name)
            if not self._rows:
                raise reason from error
            for partition, row in self._rows.items():
                if row.outcome is WorkOutcome.PLANNED:
                    self._rows[partition] = msgspec.structs.replace(
                        row, outcome=WorkOutcome.FAILED, messages=(*row.messages, str(reason))
                    )
        return list(self._rows.values())

    # ---- the table --------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the table in a new session, which only this job uses.

        A shared session would not do: Delta takes the step number of a MERGE from settings of the session.
        """
        from sparklog.spark import register

        self._session = self._spark().newSession()
        register(self._session)
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._session.conf.set("spark.sql.ansi.enabled", "true")
        self._session.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")
        check_delta(self._session)
        self._delta = DeltaTable(self._session, self._table.name)

    def _prepare(self) -> None:
        """Add the columns that the table lacks. If there is no table, create it, unless there are no records for it."""
        rows = empty_rows(self._session, self._table.layout)
        if not self._delta.exists():
            if not self._rows:
                return
            self._delta.create(rows.drop("_tombstone") if self._latest else rows, self._table.partition_by)
        new = _new_columns(self._delta, rows.schema, self._table)
        if new.fields:
            self._delta.add_columns(new)

    @property
    def _latest(self) -> bool:
        return self._table.layout.mode is Mode.LATEST

    def _due(self, state: ClusterState, topic: Topic) -> Due:
        position = None if self._last_commit is None else self._last_commit.position
        if position is not None:
            check_same_source(position, topic.name, topic.topic_id, self._table.layout.mode, self._table.name)
        due, warnings = due_ranges(state, topic, position, fail_on_data_loss=self._table.fail_on_data_loss)
        self._warnings += [warning for warning in warnings if warning not in self._warnings]
        return due

    # ---- the steps --------------------------------------------------------------------------------

    def _steps(self, frame: JobFrame, target: Due) -> None:
        total = sum(range_.offsets.end - range_.offsets.start for range_ in target.values())
        overtaken = 0
        while overtaken < MOST_OVERTAKEN:
            state = frame.connection.newest_state()
            topic = topic_of(state, self._topic)
            due = _within(self._due(state, topic), target)
            before = self._before(state, topic)
            if not due:
                self._close_rows()
                return
            left = sum(range_.offsets.end - range_.offsets.start for range_ in due.values())
            frame.output.progress("offsets materialized", total - left, total)
            step = next_step(before, due, weighed(state, topic, due), self._table.records)
            if self._commit(frame, step):
                overtaken = 0
                self._note_done(step)
            else:
                overtaken += 1
        raise Conflict(
            f"{self._table.name}: other writers changed the table first, {overtaken} times in a row: run the job again"
        )

    def _close_rows(self) -> None:
        """Set the outcome of each partition whose row is still planned: DONE if this run wrote records of it.

        Otherwise OVERTAKEN: other copies of the job wrote all of its records.
        """
        for partition, row in self._rows.items():
            if row.outcome is WorkOutcome.PLANNED:
                outcome = WorkOutcome.DONE if row.done.records else WorkOutcome.OVERTAKEN
                self._rows[partition] = msgspec.structs.replace(row, outcome=outcome)

    def _before(self, state: ClusterState, topic: Topic) -> TablePosition:
        """Return the position of the last commit, from which the next step starts, with this run as its `run`."""
        if self._last_commit is None:
            return first_position(state, topic, self._table.layout.mode, self._run)
        return msgspec.structs.replace(self._last_commit.position, run=self._run)

    def _commit(self, frame: JobFrame, step: Step) -> bool:
        """Write a step. Return False if another writer committed first, so that the step added nothing.

        Only the table shows whether the step landed: Spark may raise an error after the commit, and Delta raises none
        when it skips a step that the table already has. Raises the error that stopped Spark, or Conflict if Delta's
        history lacks the step.
        """
        failure: Exception | None = None
        counts: BadCounts = dict
        try:
            counts = self._write(frame, step)
        except Exception as error:
            failure = error
        self._last_commit = self._delta.last_job_commit()
        reached = None if self._last_commit is None else self._last_commit.position
        if reached is not None and (reached.run, reached.step) == (step.after.run, step.after.step):
            self._bad.update({name: count for name, count in counts().items() if count})
            return True
        if reached is not None and reached.step >= step.after.step:
            return False
        if failure is not None:
            if is_overtaken(failure):
                return False
            raise explained(failure, self._table.name) from failure
        raise Conflict(
            f"{self._table.name}: Delta already has a step {step.after.step} of {step.after.app_id!r}, but no entry of "
            "its history shows which offsets it wrote (delta.logRetentionDuration has passed): nothing was added; name "
            "another table"
        )

    def _write(self, frame: JobFrame, step: Step) -> BadCounts:
        """Commit the rows of a step. Return a function that gives the number of unreadable values by column.

        Call that function only if the step landed: it waits until Spark has written and counted the rows.
        """
        from pyspark.sql import Observation
        from pyspark.sql import functions as sql

        layout = self._table.layout
        records = self._records(frame, step)
        counts = [sql.count(f"`{name}`").alias(name) for name in layout.bad_columns]
        if not self._latest:
            rows = rows_of(records, layout)
            if not counts:
                self._delta.append(rows, step.after)
                return dict
            seen = Observation()
            self._delta.append(rows.observe(seen, *counts), step.after)
            return lambda: seen.get
        rows = rows_of(latest_of(records), layout).persist()
        try:
            bad: dict[str, int] = rows.agg(*counts).collect()[0].asDict() if counts else {}
            self._delta.merge(rows, layout, step.after)
        finally:
            rows.unpersist()
        return lambda: bad

    def _records(self, frame: JobFrame, step: Step) -> DataFrame:
        """The records of a step, with the columns of Spark's Kafka source."""
        if not step.ranges:
            nothing: DataFrame = self._session.createDataFrame([], _records_schema())
            return nothing
        starts = {str(partition): offsets.start for partition, offsets in step.ranges.items()}
        ends = {str(partition): offsets.end for partition, offsets in step.ranges.items()}
        reader = self._session.read.format("sparklog").option("cluster", frame.connection.url)
        reader = reader.option("topicId", step.after.topic_id)
        reader = reader.option("assign", _json({self._topic: [int(partition) for partition in step.ranges]}))
        reader = reader.option("startingOffsets", _json({self._topic: starts}))
        reader = reader.option("endingOffsets", _json({self._topic: ends}))
        reader = reader.option("failOnDataLoss", str(self._table.fail_on_data_loss).lower())
        loaded: DataFrame = reader.option("includeHeaders", "true").load()
        return loaded

    def _renew(self, frame: JobFrame) -> None:
        """Write a step without records if others have written to the table and the job's last commit is a week old.

        Delta drops old commits from its history, and with the job's last commit it would drop the table's position.
        """
        if self._last_commit is None or self._last_commit.is_last:
            return
        age_ms = frame.now_ms - _ms(self._last_commit.committed_at)
        if age_ms < RENEW_MS:
            return
        state = frame.connection.newest_state()
        before = self._before(state, topic_of(state, self._topic))
        if self._commit(frame, next_step(before, {}, {}, 1)):
            self._warnings.append("an empty commit repeats the position before Delta drops the entry that holds it")

    # ---- the report -------------------------------------------------------------------------------

    def _note_done(self, step: Step) -> None:
        for partition, offsets in step.ranges.items():
            row = self._rows.get(partition)
            if row is not None:
                done = row.done + Work(records=offsets.end - offsets.start)
                self._rows[partition] = msgspec.structs.replace(row, done=done)


def _new_columns(delta: DeltaTable, wanted: StructType, table: Table) -> StructType:
    """Return the wanted columns that the table lacks.

    Raises InvalidInput if a column of the table has another type than wanted, or is not wanted, or if the table lacks
    the column for key, partition, offset or timestamp.
    """
    from pyspark.sql.types import StructType

    there = {field.name: field.dataType for field in delta.schema()}
    new = StructType()
    for field in wanted:
        if field.name == "_tombstone" and table.layout.mode is Mode.LATEST:
            continue
        kind = there.pop(field.name, None)
        if kind is None:
            new.add(field)
        elif kind != field.dataType:
            raise InvalidInput(
                f"{table.name}: wanted column {field.name} as {field.dataType.simpleString()}, found "
                f"{kind.simpleString()}: give the type that the table has, or name another table"
            )
    own = {table.layout.own(name) for name in ("key", "partition", "offset", "timestamp")}
    if there or any(field.name in own for field in new):
        missing = ", ".join(there) or "none"
        raise InvalidInput(
            f"{table.name}: wanted a table with these columns and no others: {', '.join(wanted.fieldNames())}; found "
            f"{', '.join(delta.schema().fieldNames())} (not wanted: {missing}): a schema may add columns at the end, "
            "not leave any out"
        )
    return new


def check_table(table: Table) -> None:
    """Raise InvalidOption for options that can't work. Needs no Spark, so it can be called before Spark starts."""
    if not table.name.strip():
        raise InvalidOption("--table: wanted a name or a path, found an empty one")
    if table.records < 1:
        raise InvalidOption(f"--max-records: wanted at least 1, found {table.records}")
    if table.layout.fail_on_bad and not table.layout.expands:
        raise InvalidOption("--on-bad-value: wanted --schema or --key-schema, found neither: nothing can be bad")


def _within(due: Due, target: Due) -> Due:
    """Return the part of `due` that is also in `target`, the offsets that were due when the run began.

    So the run ends even if writers continue.
    """
    kept: Due = {}
    for partition, range_ in due.items():
        end = target[partition].offsets.end if partition in target else 0
        if range_.offsets.start < end:
            stop = min(range_.offsets.end, Offset(end))
            kept[partition] = range_._replace(offsets=OffsetRange(range_.offsets.start, stop))
    return kept


def _planned(
    state: ClusterState, topic: Topic, partition: PartitionIndex, offsets: OffsetRange, table: str
) -> PartitionResult:
    columns = state.slices.find(TopicPartition(topic.topic_id, partition), offsets).columns
    slices = len(columns["start"])
    work = Work(slices, offsets.end - offsets.start, int(columns["length"].sum()), _REQUESTS_PER_SLICE * slices)
    reason = f"offsets [{offsets.start:,}, {offsets.end:,}) -> {table}"
    return PartitionResult(f"{topic.name}-{partition}", topic.name, partition, reason, work)


def _records_schema() -> StructType:
    from sparklog.spark.schema import RECORDS_SCHEMA

    return RECORDS_SCHEMA


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
