"""The mirror job: copies topics of a Kafka cluster into topics here, each record at its offset, exactly once.

    ask Kafka -> create what is missing -> (ranges -> a Spark task for each -> one append for each topic)* -> report

A run copies what Kafka had when the run began; with `follow`, it asks again, until it is stopped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.client.commits.commit_write import commit_append
from sparklog.client.plans.write_plan import TaskWritten, WritePlan, append_command, plan_write
from sparklog.core.commands import AddPartitions, CreateTopic
from sparklog.core.errors import (
    AccessRefused,
    Conflict,
    InconsistentTopicId,
    InvalidOption,
    InvalidPartitions,
    Landed,
    NotFound,
    OffsetOutOfRange,
    SparklogError,
    TopicAlreadyExists,
    TryAgain,
)
from sparklog.core.lookup import topic_of
from sparklog.core.state import ClusterState
from sparklog.core.types import KafkaTopic, Offset, TopicId
from sparklog.host.clock import sleep_s
from sparklog.maintenance.job_frame import JobFrame, JobOptions, run_job
from sparklog.maintenance.job_report import JobReport, PartitionResult, Work, WorkOutcome, total
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
    `fail_on_data_loss`: see `range_to_copy`. `follow`: also copy what Kafka gets later, until stopped. Raises
    InvalidOption without a name and a pattern, and for a pattern that is no regular expression.
    """

    kafka: Mapping[str, str]
    names: tuple[str, ...] = ()
    pattern: str | None = None
    max_records: int = 5_000_000
    fail_on_data_loss: bool = True
    follow: bool = False

    def __repr__(self) -> str:
        return f"Source({self.kafka.get('bootstrap.servers')}, {self.names}, {self.pattern!r})"  # without secrets

    def __post_init__(self) -> None:
        if not self.names and self.pattern is None:
            raise InvalidOption("wanted --topic or --pattern, found neither")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise InvalidOption(f"--pattern: wanted a regular expression, found {self.pattern!r}: {error}") from error


class _Copied(msgspec.Struct):
    """The report of a task: its uploads, and the offset up to which it covers the partition."""

    result: TaskWritten
    end: Offset
    records: int


def run_mirror(
    cluster_url: str, source: Source, spark: Callable[[], SparkSession], **options: Unpack[JobOptions]
) -> JobReport:
    """Copy topics of a Kafka cluster. `spark` returns a session with Kafka's Java clients.

    Raises UnknownTopicOrPartition (if the only topic is not in Kafka), NotFound (nothing matches), and Kafka's errors
    about its address or the credentials. Errors of single topics or partitions are in the report.
    """
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
        self._failed: set[tuple[str, int]] = set()  # in this round: left alone until the next one
        self._read: dict[tuple[TopicId, int], Offset] = {}  # see `range_to_copy`
        self._tries: Counter[tuple[str, int]] = Counter()  # of partitions, since their last append
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
        names = self._kafka.chosen_names(self._source.names, self._source.pattern)
        fail = partial(self._fail_name, frame)
        self._found = self._kafka.topics(names) if len(names) == 1 else self._kafka.found(names, fail)
        state = frame.connection.newest_state()
        for topic in self._found:
            if topic.name not in state.topic_ids:
                self._notes += carried_config(topic)[1]
        self._due(frame, state, self._found)
        return self._reported(WorkOutcome.PLANNED)

    def execute(self, frame: JobFrame) -> list[PartitionResult]:
        """Copy step by step until all that Kafka had at the start is here, or until stopped."""
        assert self._kafka is not None
        try:
            self._round(frame, self._found)
            while self._source.follow:
                sleep_s(_IDLE_S)
                self._round_again(frame)
        except KeyboardInterrupt:
            if not self._source.follow:
                raise
            frame.output.say("interrupted: what was appended stays")
        return self._reported(WorkOutcome.DONE)

    def _reported(self, outcome: WorkOutcome) -> list[PartitionResult]:
        """All rows: with this outcome, unless their partitions have failed in this round."""
        return [row.noted(WorkOutcome.FAILED if key in self._failed else outcome) for key, row in self._rows.items()]

    # ---- a round ----------------------------------------------------------------------------------

    def _round(self, frame: JobFrame, found: list[FoundTopic]) -> None:
        """Copy everything up to the ends that were found. What fails is noted."""
        by_name = {topic.name: topic for topic in found}
        for topic in found:
            try:
                self._create(frame, topic)
            except SparklogError as error:
                self._fail_topic(frame, topic, error)
        while due := self._due(frame, state := frame.connection.newest_state(), found):
            plans: dict[str, WritePlan] = {}
            for name in dict.fromkeys(range_.topic for range_ in due):
                try:
                    plans[name] = self._write_plan(frame, state, name)
                except SparklogError as error:  # it was deleted here, for example
                    self._fail_topic(frame, by_name[name], error)
            copied = self._copied(frame, plans, [range_ for range_ in due if range_.topic in plans])
            for name, plan in plans.items():
                of_topic = [(range_, result) for range_, result in copied if range_.topic == name]
                try:
                    self._check_same(by_name[name].id)
                except SparklogError as error:
                    self._fail_topic(frame, by_name[name], error)
                    continue
                if of_topic:
                    self._append(frame, plan, name, of_topic)
            done, planned = (
                total(row.done for row in self._rows.values()),
                total(row.planned for row in self._rows.values()),
            )
            frame.output.progress("records mirrored", done.records, max(done.records, planned.records))

    def _round_again(self, frame: JobFrame) -> None:
        """Do another round of a mirror that follows Kafka. After an error that may pass, the next one does its work."""
        assert self._kafka is not None
        try:
            names = self._kafka.chosen_names(self._source.names, self._source.pattern)
            self._failed.clear()
            self._round(frame, self._kafka.found(names, partial(self._fail_name, frame)))
        except (TryAgain, NotFound, AccessRefused) as error:  # no topic matches now, for example
            frame.output.say(f"trying again in {_IDLE_S:g} s: {error}")

    def _check_same(self, read: KafkaTopic) -> None:
        """Raise an error unless Kafka still has the topic that a step has read: a consumer knows only its name."""
        assert self._kafka is not None
        now = self._kafka.identity(read.topic)
        if now != read:
            raise InconsistentTopicId(
                f"topic {read.topic} mirrors {read}, found {now}: it was created again while it was copied; nothing of "
                "this step was appended"
            )

    def _create(self, frame: JobFrame, found: FoundTopic) -> None:
        """Create the topic or the partitions that are missing here."""
        state = frame.connection.newest_state()
        if found.name not in state.topic_ids:
            config, left = carried_config(found)
            for line in left:
                if line not in self._notes:  # those of the plan are
                    self._notes.append(line)
                    frame.output.say(line)
            with suppress(TopicAlreadyExists):  # another process was first: `check_mirrors` decides
                frame.commit(CreateTopic(found.name, len(found.partitions), None, config, mirror_of=found.id))
            return
        topic = topic_of(state, found.name)
        check_mirrors(found, topic)
        if topic.partitions < len(found.partitions):
            try:
                frame.commit(AddPartitions(topic.topic_id, len(found.partitions)))
            except InvalidPartitions:
                if topic_of(frame.connection.newest_state(), found.name).partitions < len(found.partitions):
                    raise  # else another mirror was first

    def _due(self, frame: JobFrame, state: ClusterState, found: list[FoundTopic]) -> list[KafkaRange]:
        """Return the ranges to copy, and note each in the row of its partition. What can't be copied is noted there."""
        due: list[KafkaRange] = []
        for topic in found:
            next_offsets = [(Offset(0), Offset(0))] * len(topic.partitions)
            try:
                if topic.name in state.topic_ids:
                    here = topic_of(state, topic.name)
                    check_mirrors(topic, here)
                    for number, partition in enumerate(state.partitions_of(here)):
                        read = self._read.get((here.topic_id, number), Offset(0))
                        next_offsets[number] = partition.next_offset, read
            except SparklogError as error:
                self._fail_topic(frame, topic, error)
                continue
            for number, (next_offset, read) in enumerate(next_offsets):
                try:
                    due += self._due_of(topic, number, next_offset, read)
                except SparklogError as error:
                    self._fail(frame, topic.name, number, error)
        return due

    def _due_of(self, topic: FoundTopic, partition: int, next_offset: Offset, read: Offset) -> list[KafkaRange]:
        """Return the range of a partition that is due, if any, unless the partition has failed in this round."""
        if (topic.name, partition) in self._failed:
            return []
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
        if (topic.name, partition) not in self._rows:
            reason = f"offsets [{range_.start:,}, {range_.end:,}) of Kafka"
            self._rows[topic.name, partition] = PartitionResult(
                f"{topic.name}-{partition}", topic.name, partition, reason, Work(0, range_.end - range_.start)
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

    def _copied(
        self, frame: JobFrame, plans: Mapping[str, WritePlan], due: list[KafkaRange]
    ) -> list[tuple[KafkaRange, _Copied]]:
        """Copy ranges, one Spark task each; return the results of those that did not fail. The errors are noted."""
        ranges = [msgspec.structs.replace(range_, purpose=_target(plans[range_.topic])) for range_ in due]
        copied = []
        for range_, result in zip(
            due, run_tasks(self._session, plans, ranges, self._source.kafka, _Copied), strict=True
        ):
            if isinstance(result, SparklogError):
                self._fail(frame, range_.topic, range_.partition, result)
            else:
                copied.append((range_, result))
        return copied

    def _append(
        self,
        frame: JobFrame,
        plan: WritePlan,
        name: str,
        copied: list[tuple[KafkaRange, _Copied]],
        refusals_ms: int | None = None,
    ) -> None:
        """Append what the tasks uploaded of a topic. After an error that may pass, the next step copies it again.

        If the append is refused, perhaps for one partition, the others are appended without it. `refusals_ms`: see
        `commit_append`.
        """
        written = [result.result for _, result in copied]
        command = append_command(plan, written)
        try:
            if command is not None:
                commit_append(frame.connection, plan, written, command, COMMIT_TIMEOUT_MS, refusals_ms=refusals_ms)
        except SparklogError as error:
            if _is_ahead(frame.connection.newest_state(), plan, copied):
                return  # another mirror was first
            if error.landed is Landed.NO and len(copied) > 1:
                half = len(copied) // 2
                for some in (copied[:half], copied[half:]):
                    again = msgspec.structs.replace(plan, command_id=new_command_id())
                    self._append(frame, again, name, some, refusals_ms=0)  # the first try waited long enough
                return
            may_pass = error.landed is not Landed.NO or isinstance(error, _MAY_PASS)
            for range_, _ in copied:
                key = name, range_.partition
                self._tries[key] += 1
                if self._tries[key] >= APPEND_TRIES or not may_pass:  # else the next offsets here say whether it landed
                    self._fail(frame, *key, error)
            return
        for range_, result in copied:
            key = name, range_.partition
            self._tries[key] = 0
            self._read[plan.topics[name].topic_id, range_.partition] = result.end
            objects = result.result.objects
            size = sum(object_.total_bytes for object_ in objects)
            row = self._rows[key]
            done = row.done + Work(len(objects), result.records, size)
            self._rows[key] = msgspec.structs.replace(row, done=done)

    def _fail_name(self, frame: JobFrame, name: str, error: SparklogError) -> None:
        """Note that Kafka does not show a topic: in its rows, and in that of partition 0."""
        for key in {(name, 0), *(key for key in self._rows if key[0] == name)}:
            self._fail(frame, *key, error)

    def _fail_topic(self, frame: JobFrame, topic: FoundTopic, error: SparklogError) -> None:
        """Note that no partition of a topic can be copied now: in the rows that it has, and in that of partition 0."""
        for number in range(len(topic.partitions)):
            if number == 0 or (topic.name, number) in self._rows:
                self._fail(frame, topic.name, number, error)
            self._failed.add((topic.name, number))

    def _fail(self, frame: JobFrame, topic: str, partition: int, error: SparklogError) -> None:
        """Note that a partition can't be copied in this round. A mirror that follows Kafka says so, and tries it again.

        Its rows have only the last error, because it may run for months.
        """
        key, place = (topic, partition), f"{topic}-{partition}"
        row = self._rows.get(key) or PartitionResult(place, topic, partition, "can't be mirrored", Work())
        if self._source.follow:
            if row.messages != (str(error),):
                frame.output.say(f"{place}: {error}")
            row = msgspec.structs.replace(row, messages=())
        self._failed.add(key)
        self._rows[key] = row.noted(None, str(error))


def _is_ahead(state: ClusterState, plan: WritePlan, copied: Sequence[tuple[KafkaRange, _Copied]]) -> bool:
    """True if a partition here has offsets that were copied: this copy of them comes too late."""
    assert plan.topic is not None
    topic_id = plan.topics[plan.topic].topic_id
    for range_, _ in copied:
        partition = state.partition(topic_id, range_.partition)
        if partition is not None and partition.next_offset > range_.base_offset:
            return True
    return False


def _target(plan: WritePlan) -> BatchPurpose:
    assert plan.topic is not None
    topic = plan.topics[plan.topic]
    return BatchPurpose("begin_range", topic.topic_id, topic.compression, topic.max_message_bytes, topic.needs_key)
