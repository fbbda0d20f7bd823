"""The mirror job: copies topics of a Kafka cluster into topics here, each record at its offset, exactly once.

    ask Kafka -> create what is missing -> (ranges -> a Spark task for each -> one append for each topic)* -> report

A run copies what Kafka had when the run began; with `follow`, it asks again, until it is stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.commits.commit_write import commit_append
from sparklog.client.plans.write_plan import TaskWritten, WritePlan, append_command, plan_write
from sparklog.core.commands import AddPartitions, CreateTopic
from sparklog.core.errors import (
    AccessRefused,
    Conflict,
    InvalidInput,
    InvalidOption,
    Landed,
    OffsetOutOfRange,
    SparklogError,
    TopicAlreadyExists,
    TryAgain,
)
from sparklog.core.lookup import topic_of
from sparklog.core.state import ClusterState
from sparklog.core.types import Offset
from sparklog.host.clock import sleep_s
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome
from sparklog.spark.jar import add_jar_unless_there
from sparklog.spark.mirror.kafka_cluster import KafkaCluster
from sparklog.spark.mirror.kafka_tasks import run_tasks
from sparklog.spark.mirror.mirror_plan import (
    BatchPurpose,
    FoundTopic,
    KafkaRange,
    carried_config,
    check_mirrors,
    range_to_copy,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_TIMEOUT_MS: Final = 60_000
APPEND_TRIES: Final = 3
_MAY_PASS: Final = (OffsetOutOfRange, Conflict, TryAgain)  # with OffsetOutOfRange, another mirror was first
_IDLE_S: Final = 1.0  # between two looks at a Kafka that has nothing new


class Source(msgspec.Struct, frozen=True):
    """The topics that a mirror copies, and how.

    `kafka`: the config of Kafka's clients, which may have secrets. `names` and `pattern`: the topics, by name and by a
    regular expression of the whole name. `max_records`: the most records of one partition in one append.
    `fail_on_data_loss`: see `range_to_copy`. `follow`: also copy what Kafka gets later, until stopped.
    """

    kafka: Mapping[str, str]
    names: tuple[str, ...] = ()
    pattern: str | None = None
    max_records: int = 5_000_000
    fail_on_data_loss: bool = True
    follow: bool = False


class _Copied(msgspec.Struct):
    """The report of a task: its uploads, and the offset up to which it covers the partition."""

    result: TaskWritten
    end: Offset
    records: int


def run_mirror(
    cluster_url: str, source: Source, spark: Callable[[], SparkSession], **options: Unpack[JobOptions]
) -> JobReport:
    """Copy topics of a Kafka cluster. `spark` returns a session with Kafka's Java clients.

    Raises InvalidOption, UnknownTopicOrPartition (in Kafka), NotFound (nothing matches), and what Kafka says of its
    address or the credentials. What concerns single topics or partitions is in the report.
    """
    if not source.names and source.pattern is None:
        raise InvalidOption("wanted --topic or --pattern, found neither")
    job = MirrorJob(source, spark)
    try:
        return run_job(job, cluster_url, only_reads=True, **options)
    finally:
        job.close()


class MirrorJob:
    """Plans and does the work of `run_mirror`, as a `job_frame.Job`."""

    name = "mirror"
    unit = "objects"

    def __init__(self, source: Source, spark: Callable[[], SparkSession]) -> None:
        self._source, self._spark = source, spark
        self._notes: list[str] = []
        self._rows: dict[tuple[str, int], PartitionResult] = {}
        self._read: dict[tuple[str, int], Offset] = {}  # see `range_to_copy`
        self._tries: Counter[str] = Counter()  # of topics, since their last append
        self._session: Any = None
        self._found: list[FoundTopic] = []
        self._kafka: KafkaCluster | None = None

    @property
    def notes(self) -> list[str]:
        """The keys of topics that are not carried over."""
        return self._notes

    def close(self) -> None:
        """Close the connection to Kafka."""
        if self._kafka is not None:
            self._kafka.close()

    def plan(self, frame: JobFrame) -> list[PartitionResult]:
        """Return a row for each partition with offsets to copy, and one for each that can't be copied."""
        self._session = self._spark()
        add_jar_unless_there(self._session)
        self._kafka = KafkaCluster(self._session._jvm, self._source.kafka)
        self._found = self._kafka.topics(self._source.names, self._source.pattern)
        state = frame.connection.newest_state()
        for topic in self._found:
            if topic.name not in state.topic_ids:
                self._notes += carried_config(topic)[1]
        self._due(state, self._found)
        return list(self._rows.values())

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Copy step by step until everything is here that Kafka had at the beginning, or until stopped."""
        assert self._kafka is not None
        try:
            self._round(frame, self._found)
            while self._source.follow:
                sleep_s(_IDLE_S)
                self._round(frame, self._kafka.topics(self._source.names, self._source.pattern))
        except KeyboardInterrupt:
            if not self._source.follow:
                raise
            frame.output.say("interrupted: what was appended stays")
        return [
            row.noted(WorkOutcome.DONE) if row.outcome is WorkOutcome.PLANNED else row for row in self._rows.values()
        ]

    # ---- a round ----------------------------------------------------------------------------------

    def _round(self, frame: JobFrame, found: list[FoundTopic]) -> None:
        """Copy everything up to the ends that were found. What fails is noted."""
        for topic in found:
            try:
                self._create(frame, topic)
            except SparklogError as error:
                self._fail(topic.name, 0, error)
        while due := self._due(frame.connection.newest_state(), found):
            state = frame.connection.newest_state()
            plans = {range_.topic: None for range_ in due}
            planned = {name: self._write_plan(frame, state, name) for name in plans}
            copied = self._copied(planned, due)
            for name, plan in planned.items():
                of_topic = [(range_, result) for range_, result in copied if range_.topic == name]
                if of_topic:
                    self._append(frame, plan, name, of_topic)
            left = sum(range_.until - range_.first for range_ in due)
            frame.output.progress("offsets mirrored", left, left)

    def _create(self, frame: JobFrame, found: FoundTopic) -> None:
        """Create the topic or the partitions that are missing here."""
        state = frame.connection.newest_state()
        if found.name not in state.topic_ids:
            config, _ = carried_config(found)
            with suppress(TopicAlreadyExists):  # another process was first: `check_mirrors` decides
                frame.commit(CreateTopic(found.name, len(found.partitions), None, config, mirror_of=found.id))
            return
        topic = topic_of(state, found.name)
        check_mirrors(found, topic)
        if topic.partitions < len(found.partitions):
            frame.commit(AddPartitions(topic.topic_id, len(found.partitions)))

    def _due(self, state: ClusterState, found: list[FoundTopic]) -> list[KafkaRange]:
        """Return the ranges to copy, and note each in the row of its partition. What can't be copied is noted there."""
        due: list[KafkaRange] = []
        for topic in found:
            next_offsets = [Offset(0)] * len(topic.partitions)
            try:
                if topic.name in state.topic_ids:
                    here = topic_of(state, topic.name)
                    check_mirrors(topic, here)
                    for number, partition in enumerate(state.partitions_of(here)):
                        next_offsets[number] = partition.next_offset
            except SparklogError as error:
                self._fail(topic.name, 0, error)
                continue
            for number, next_offset in enumerate(next_offsets):
                try:
                    due += self._due_of(topic, number, next_offset)
                except SparklogError as error:
                    self._fail(topic.name, number, error)
        return due

    def _due_of(self, topic: FoundTopic, partition: int, next_offset: Offset) -> list[KafkaRange]:
        """Return the range of a partition that is due, if any, unless the partition has failed."""
        row = self._rows.get((topic.name, partition))
        if row is not None and row.outcome is WorkOutcome.FAILED:
            return []
        read = self._read.get((topic.name, partition), Offset(0))
        source = self._source
        range_ = range_to_copy(
            topic,
            partition,
            next_offset,
            read,
            fail_on_data_loss=source.fail_on_data_loss,
            max_records=source.max_records,
        )
        if range_ is None:
            return []
        if row is None:
            reason = f"offsets [{range_.first:,}, {range_.until:,}) of Kafka"
            self._rows[topic.name, partition] = PartitionResult(
                f"{topic.name}-{partition}", topic.name, partition, reason, Work(0, range_.until - range_.first)
            )
        return [range_]

    # ---- a step -----------------------------------------------------------------------------------

    def _write_plan(self, frame: JobFrame, state: ClusterState, name: str) -> WritePlan:
        return plan_write(
            state,
            frame.connection.addresses(state),
            new_command_id(),
            topic=name,
            compression=None,
            now_ms=frame.clock.now_ms(),
            keep_offsets=True,
        )

    def _copied(self, plans: Mapping[str, WritePlan], due: list[KafkaRange]) -> list[tuple[KafkaRange, _Copied]]:
        """Copy ranges, one Spark task each; return the results of those that did not fail.

        An error that is about some range, and not about Kafka or the stores, is noted there, and the others are copied.
        """
        try:
            ranges = [msgspec.structs.replace(range_, to=_target(plans[range_.topic])) for range_ in due]
            results = run_tasks(self._session, plans, ranges, self._source.kafka, _Copied)
        except SparklogError as reason:
            if len(due) > 1 and isinstance(reason, InvalidInput | AccessRefused):
                half = len(due) // 2
                return self._copied(plans, due[:half]) + self._copied(plans, due[half:])
            for range_ in due:
                self._fail(range_.topic, range_.partition, reason)
            return []
        return list(zip(due, results, strict=True))

    def _append(self, frame: JobFrame, plan: WritePlan, name: str, copied: list[tuple[KafkaRange, _Copied]]) -> None:
        """Append what the tasks uploaded of a topic. After an error that may pass, the next step copies it again."""
        written = [result.result for _, result in copied]
        command = append_command(plan, written)
        try:
            if command is not None:
                commit_append(frame.connection, plan, written, command, COMMIT_TIMEOUT_MS)
        except SparklogError as error:
            self._tries[name] += 1
            if self._tries[name] < APPEND_TRIES and (error.landed is not Landed.NO or isinstance(error, _MAY_PASS)):
                return  # the next offsets here say whether it landed, also if another mirror was first
            for range_, _ in copied:
                self._fail(name, range_.partition, error)
            return
        self._tries[name] = 0
        for range_, result in copied:
            key = name, range_.partition
            self._read[key] = result.end
            objects = result.result.objects
            size = sum(object_.total_bytes for object_ in objects)
            row = self._rows[key]
            done = row.done + Work(len(objects), result.records, size)
            self._rows[key] = msgspec.structs.replace(row, done=done)

    def _fail(self, topic: str, partition: int, error: SparklogError) -> None:
        """Note that a partition, or its topic, can't be copied now. A mirror that follows Kafka tries it again."""
        key, place = (topic, partition), f"{topic}-{partition}"
        row = self._rows.get(key) or PartitionResult(place, topic, partition, "can't be mirrored", Work())
        outcome = None if self._source.follow else WorkOutcome.FAILED
        self._rows[key] = row.noted(outcome, str(error))


def _target(plan: WritePlan) -> BatchPurpose:
    assert plan.topic is not None
    topic = plan.topics[plan.topic]
    return BatchPurpose("begin_range", topic.topic_id, topic.compression, topic.max_message_bytes, topic.needs_key)
