"""The produce job: the rows of a file, a directory or a table into a topic, in one commit.

check what can be checked without Spark -> (written before? done) -> source -> rows as the sink takes them
-> (--dry-run stops here) -> create the topic if asked -> one write -> report
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec

from sparklog.chain.clock import Clock, SystemClock
from sparklog.chain.entry import Author
from sparklog.client.cluster import Cluster
from sparklog.client.connection import Connection
from sparklog.core.config_key import did_you_mean
from sparklog.core.errors import Conflict, InvalidPartitions, UnknownTopicOrPartition
from sparklog.core.options import WriteOptions, parse_write_options
from sparklog.core.readable import amount
from sparklog.core.records import CommandResult
from sparklog.core.topic_config import parse_topic_config
from sparklog.spark.produce_preview import preview
from sparklog.spark.produce_rows import RowMapping, check_mapping, written_rows
from sparklog.spark.produce_source import Source, checked, open_source
from sparklog.spark.spark_errors import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

PROGRESS_EVERY_S = 5.0


class NewTopic(msgspec.Struct, frozen=True):
    """What to create if the topic is not there; if it is, it must be what is asked for."""

    partitions: int | None = None
    config: Mapping[str, str] = {}


class Target(msgspec.Struct, frozen=True):
    """Where rows go. `transaction`: (app id, version); `create` None: the topic must be there."""

    cluster: str
    topic: str
    create: NewTopic | None = None
    transaction: tuple[str, str] | None = None
    compression: str | None = None


class RangeWritten(msgspec.Struct, frozen=True):
    """What one partition got: offsets [start, end), `bytes` as stored."""

    partition: int
    start: int
    end: int
    records: int
    size_bytes: int = msgspec.field(name="bytes")


class ProduceReport(msgspec.Struct, frozen=True):
    """A run of produce. `records` and `bytes` are what was written, or (--dry-run) would be: then bytes of keys and
    values. `skipped`: this version of the application was written before. `entry`: of the chain, None if no rows.
    """

    source: str
    cluster: str
    topic: str
    dry_run: bool
    skipped: bool
    started_ms: int
    ended_ms: int
    records: int
    size_bytes: int = msgspec.field(name="bytes")
    created_topic: bool = False
    columns: tuple[str, ...] = ()
    write_id: str | None = None
    entry: int | None = None
    partitions: tuple[RangeWritten, ...] = ()
    job: str = "produce"
    exit_code: int = 0

    def to_json(self) -> str:
        """For --report."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()


def run_produce(
    source: Source,
    mapping: RowMapping,
    target: Target,
    *,
    spark: SparkSession | Callable[[], SparkSession],
    dry_run: bool = False,
    console: Console | None = None,
    clock: Clock | None = None,
) -> ProduceReport:
    """Write the rows of `source` to `target`: all of them, or nothing.

    `spark` is asked for when all that needs no Spark was checked. Times without a zone are taken in the session's
    zone, which is expected to be UTC. Raises InvalidInput and its kin, NotFound, Conflict, OutcomeUnknown.
    """
    check_mapping(mapping)
    produce = _Produce(checked(source), mapping, target, console or _stderr(), clock or SystemClock())
    with closing(produce.connection):
        return produce.run(spark, dry_run)


class _Produce:
    """One run."""

    def __init__(self, source: Source, mapping: RowMapping, target: Target, console: Console, clock: Clock) -> None:
        self.source, self.mapping, self.target, self.console, self.clock = source, mapping, target, console, clock
        self.write_id = f"produce-{uuid.uuid4().hex}"
        self.raw_options = _sink_options(target, self.write_id)
        self.options: WriteOptions = parse_write_options(self.raw_options)
        self.config = parse_topic_config(target.create.config) if target.create is not None else {}
        author = Author("job", f"produce@{socket.gethostname()}:{os.getpid()}")
        self.connection = Connection(self.options.cluster, author)
        self.started_ms = clock.now_ms()

    def run(self, spark: SparkSession | Callable[[], SparkSession], dry_run: bool) -> ProduceReport:
        there = self._check_topic()
        if self._was_written():
            self._say(f"{self.target.transaction}: this version or a later one was written before, nothing to do")
            return self._report(dry_run=dry_run, skipped=True)
        session = spark() if callable(spark) else spark
        with self._progress(session):
            frame = open_source(self.source, session)
            rows = written_rows(frame, self.mapping)
            if dry_run:
                return self._show(frame, rows, there)
            if not there:
                self._create()
            return self._write(frame, rows, created=not there)

    def _write(self, frame: DataFrame, rows: DataFrame, *, created: bool) -> ProduceReport:
        with self.connection.follower.current() as state:
            before = state.n
        try:
            rows.write.format("sparklog").options(**self.raw_options).mode("append").save()
        except Exception as error:
            raise explained(error, self.source.name) from error
        return self._written(before, columns=tuple(frame.columns), created_topic=created)

    # ---- before ---------------------------------------------------------------------------------

    def _check_topic(self) -> bool:
        """Whether the topic is there. Raises UnknownTopicOrPartition, or Conflict if it is not what is asked for."""
        name, create = self.target.topic, self.target.create
        with self.connection.follower.current() as state:
            topic = state.topic_named(name)
            names = list(state.topic_ids)
        if topic is None:
            if create is None:
                raise UnknownTopicOrPartition(
                    f"wanted topic {name}, found none of this name in {self.connection.url}"
                    f"{did_you_mean(name, names) or '; --create makes it'}"
                )
            return False
        if create is None:
            return True
        if create.partitions is not None and create.partitions != topic.partitions:
            raise InvalidPartitions(f"wanted {create.partitions} partitions, found {name} with {topic.partitions}")
        for key, value in self.config.items():
            if topic.config.get(key) != value:
                raise Conflict(
                    f"wanted topic {name} with {key}={value}, found it with {topic.config.get(key, 'the default')}: "
                    "alter it, or leave --config out"
                )
        return True

    def _was_written(self) -> bool:
        transaction = self.options.transaction
        if transaction is None:
            return False
        with self.connection.follower.current() as state:
            before = state.applications.get(transaction.app_id)
        return before is not None and transaction.version <= before.version

    def _create(self) -> None:
        wanted = self.target.create or NewTopic()
        made = Cluster(self.connection).create_topic(
            self.target.topic, partitions=wanted.partitions, config=wanted.config
        )
        self._say(f"topic {made.name} created with {len(made.partitions)} partitions")

    # ---- after ----------------------------------------------------------------------------------

    def _written(self, before: int, *, columns: tuple[str, ...], created_topic: bool) -> ProduceReport:
        with self.connection.follower.current() as state:
            found = [each for each in state.results.values() if each.n > before and each.label == self.write_id]
        if not found or not found[0].ranges:
            self._say(f"{self.source.name} has no rows to write")
            return self._report(columns=columns, created_topic=created_topic)
        report = self._report(result=found[0], columns=columns, created_topic=created_topic)
        for each in report.partitions:
            self._say(
                f"{report.topic}-{each.partition}: offsets [{each.start:,}, {each.end:,}), {amount(each.size_bytes)}"
            )
        self._say(
            f"{report.records:,} records, {amount(report.size_bytes)} stored, committed in entry {report.entry} as "
            f"write {self.write_id}, {(report.ended_ms - report.started_ms) / 1000:.1f} s in all"
        )
        return report

    def _show(self, frame: DataFrame, rows: DataFrame, there: bool) -> ProduceReport:
        """What would be written. A row from which no key, value or timestamp can be made shows here already."""
        try:
            seen = preview(rows)
        except Exception as error:
            raise explained(error, self.source.name) from error
        self._say(f"{self.source.name}: {seen.records:,} rows, columns {', '.join(frame.columns)}")
        place = f"topic {self.target.topic}" + ("" if there else ", which would be created")
        self._say(f"would be written to {place}: {amount(seen.size_bytes)} of keys and values, not yet compressed")
        for line in [*seen.remarks(), *(f"  {each}" for each in seen.first)]:
            self._say(line)
        report = self._report(dry_run=True, columns=tuple(frame.columns))
        return msgspec.structs.replace(report, records=seen.records, size_bytes=seen.size_bytes)

    def _report(
        self,
        *,
        result: CommandResult | None = None,
        columns: tuple[str, ...] = (),
        created_topic: bool = False,
        dry_run: bool = False,
        skipped: bool = False,
    ) -> ProduceReport:
        ranges = () if result is None else result.ranges
        written = tuple(
            RangeWritten(int(each.partition), each.start, each.end, each.end - each.start, each.size_bytes)
            for each in sorted(ranges, key=lambda each: each.partition)
        )
        return ProduceReport(
            source=self.source.name,
            cluster=self.connection.url,
            topic=self.target.topic,
            dry_run=dry_run,
            skipped=skipped,
            started_ms=self.started_ms,
            ended_ms=self.clock.now_ms(),
            records=sum(each.records for each in written),
            size_bytes=sum(each.size_bytes for each in written),
            created_topic=created_topic,
            columns=columns,
            write_id=None if dry_run or skipped else self.write_id,
            entry=None if result is None else result.n,
            partitions=written,
        )

    @contextmanager
    def _progress(self, session: SparkSession) -> Iterator[None]:
        """Tell how far Spark's tasks are, every PROGRESS_EVERY_S while a stage runs that has more than one."""
        ended = threading.Event()

        def tell() -> None:
            tracker = session.sparkContext.statusTracker()
            while not ended.wait(PROGRESS_EVERY_S):
                for each in map(tracker.getStageInfo, tracker.getActiveStageIds()):
                    if each is not None and each.numTasks > 1:
                        self._say(f"{each.numCompletedTasks:,} of {each.numTasks:,} tasks done of stage {each.stageId}")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _say(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)


def _sink_options(target: Target, write_id: str) -> dict[str, str]:
    options = {"cluster": target.cluster, "topic": target.topic, "writeId": write_id}
    if target.compression is not None:
        options["compression"] = target.compression
    if target.transaction is not None:
        options["txnAppId"], options["txnVersion"] = target.transaction
    return options


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)
