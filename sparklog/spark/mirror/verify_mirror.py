"""`sparklog job mirror --verify`: compares mirror topics with Kafka, record by record, in tasks on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from sparklog.core.config.key import LONG_MAX
from sparklog.core.describe.readable import counted
from sparklog.core.errors import SparklogError
from sparklog.core.lookup import topic_of
from sparklog.core.reading.plan import RangeToRead, check_range, plan_range
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset
from sparklog.maintenance.job_frame import JobFrame, JobOptions, chunks, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, total
from sparklog.spark.jar import add_jar_unless_there
from sparklog.spark.mirror.comparison import Compared
from sparklog.spark.mirror.kafka_cluster import KafkaCluster
from sparklog.spark.mirror.kafka_tasks import run_tasks
from sparklog.spark.mirror.mirror_plan import BatchPurpose, FoundTopic, KafkaRange, check_end, check_mirrors
from sparklog.spark.read.task_to_read import TaskToRead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklog.spark.mirror.mirror_job import Source

OFFSETS_OF_TASK = 1_000_000
TASKS_AT_ONCE = 64


class _Result(msgspec.Struct):
    result: Compared


def run_verify_mirror(
    cluster_url: str, source: Source, spark: Callable[[], SparkSession], **options: Unpack[JobOptions]
) -> JobReport:
    """Compare the records that both have: from the higher log start to the lower end of each partition.

    Raises what `run_mirror` raises. Differences are failures of the report. Of topics that are compacted, a record that
    only one side has is no difference.
    """
    return run_job(VerifyMirrorJob(source, spark), cluster_url, only_reads=True, **options)


class VerifyMirrorJob:
    """Plans and does the work of `run_verify_mirror`, as a `job_frame.Job`."""

    name = "mirror-verify"
    unit = "ranges"

    def __init__(self, source: Source, spark: Callable[[], SparkSession]) -> None:
        self._source, self._spark = source, spark
        self._session: Any = None
        self._ranges: list[KafkaRange] = []
        self._rows: dict[tuple[str, int], PartitionResult] = {}
        self._compacted: set[str] = set()
        self._is_compared = False

    @property
    def notes(self) -> list[str]:
        """The compacted topics, and after the comparison whether all is equal."""
        notes = [f"{name} is compacted: a record that only one side has is no difference" for name in self._compacted]
        rows = self._rows.values()
        if self._is_compared and not any(row.outcome is WorkOutcome.FAILED for row in rows):
            places = counted(len(rows), "partition")
            notes.append(f"no difference in {counted(total(row.done for row in rows).records, 'record')} of {places}")
        return notes

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each partition, with the offsets to compare."""
        self._session = self._spark()
        add_jar_unless_there(self._session)
        with KafkaCluster(self._session._jvm, self._source.kafka) as kafka:
            names = kafka.chosen_names(self._source.names, self._source.pattern)
            topics = kafka.topics(names) if len(names) == 1 else kafka.found(names, self._fail_topic)
        state = frame.connection.newest_state()
        for topic in topics:
            try:
                self._plan_topic(state, topic)
            except SparklogError as error:
                self._fail_topic(topic.name, error)
        return list(self._rows.values())

    def _plan_topic(self, state: ClusterState, found: FoundTopic) -> None:
        topic = topic_of(state, found.name)
        check_mirrors(found, topic)
        if state.topic_config(topic).compact or "compact" in found.config.get("cleanup.policy", ""):
            self._compacted.add(topic.name)
        for partition in state.partitions_of(topic):
            ranges = list(_ranges(found, topic, partition))
            place = f"{topic.name}-{partition.partition}"
            work = Work(len(ranges), sum(range_.end - range_.base_offset for range_ in ranges))
            reason = f"offsets [{ranges[0].base_offset:,}, {ranges[-1].end:,})" if ranges else "no offsets in common"
            row = PartitionResult(place, topic.name, partition.partition, reason, work)
            self._ranges += ranges
            try:
                check_end(found, partition.partition, partition.next_offset)
            except SparklogError as error:
                row = row.noted(WorkOutcome.FAILED, str(error))
            self._rows[topic.name, partition.partition] = row

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Compare all ranges. A partition with a difference has failed, and its row names the first one."""
        done = 0
        for some in chunks(self._ranges, TASKS_AT_ONCE):
            state = frame.connection.newest_state()
            addresses = frame.connection.addresses(state)
            plans = {}
            for range_ in some:
                try:
                    plans[range_.plan] = TaskToRead(addresses, [_plan(state, range_)])
                except SparklogError as error:  # what was here is not here any more
                    self._fail(range_, error)
            planned = [range_ for range_ in some if range_.plan in plans]
            results = run_tasks(self._session, plans, planned, self._source.kafka, _Result)
            for range_, result in zip(planned, results, strict=True):
                if isinstance(result, SparklogError):
                    self._fail(range_, result)
                else:
                    self._note(range_, result.result)
            done += len(some)
            frame.output.progress("ranges compared", done, len(self._ranges))
        self._is_compared = True
        return [row.noted(WorkOutcome.DONE) for row in self._rows.values()]

    def _fail_topic(self, name: str, error: SparklogError) -> None:
        row = PartitionResult(name, name, None, "can't be compared", Work())
        self._rows[name, 0] = row.noted(WorkOutcome.FAILED, str(error))

    def _fail(self, range_: KafkaRange, error: SparklogError) -> None:
        key = range_.topic, range_.partition
        place = f"offsets [{range_.base_offset:,}, {range_.end:,})"
        self._rows[key] = self._rows[key].noted(WorkOutcome.FAILED, f"{place}: {error}")

    def _note(self, range_: KafkaRange, found: Compared) -> None:
        key = range_.topic, range_.partition
        row = self._rows[key]
        row = msgspec.structs.replace(row, done=row.done + Work(1, found.here))
        may_lack = range_.topic in self._compacted
        first = found.first_changed if may_lack else found.first
        if first is not None:
            row = row.noted(
                WorkOutcome.FAILED,
                f"offsets [{range_.base_offset:,}, {range_.end:,}): {found.kafka:,} records in Kafka, {found.here:,} "
                f"here, {found.only_kafka:,} only in Kafka, {found.only_here:,} only here, {found.changed:,} changed; "
                f"the first {'change' if may_lack else 'difference'} is at {first}",
            )
        self._rows[key] = row


def _plan(state: ClusterState, range_: KafkaRange) -> RangeToRead:
    topic = topic_of(state, range_.topic)
    partition = state.partitions_of(topic)[range_.partition]
    offsets = check_range(topic.name, partition, range_.base_offset, range_.end)
    return plan_range(state, topic, partition.partition, offsets)


def _ranges(found: FoundTopic, topic: Topic, partition: Partition) -> Iterator[KafkaRange]:
    """Divide the offsets that a partition has on both sides into ranges for tasks."""
    number = int(partition.partition)
    there = found.partitions[number]
    start = max(partition.log_start, there.start)
    end = min(partition.high_watermark, there.end)
    purpose = BatchPurpose("begin_comparison", topic.topic_id, "none", LONG_MAX, needs_key=False, always_offsets=True)
    for base in map(Offset, range(start, end, OFFSETS_OF_TASK)):
        until = Offset(min(end, base + OFFSETS_OF_TASK))
        yield KafkaRange(
            topic.name, number, base, base, until, until - base + 1, f"{topic.name}-{number}-{base}", purpose
        )
