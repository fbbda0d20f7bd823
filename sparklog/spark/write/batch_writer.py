"""A batch write: the driver plans it, tasks upload it, and one command in the driver makes it visible.

    begin_write (planning) -> BatchWriter.write (each task attempt) -> BatchWriter.commit (driver)

The writer is pickled between processes. The command id is drawn once, in `planned_write`, so a second call of `commit`
after a lost reply submits the same command. Failed, repeated and speculative attempts upload too, but Spark passes to
`commit` the message of only one attempt of each task. Objects that no commit names are orphans, which vacuum removes.

Spark plans the write in a Python process of its own beside the driver; tasks and commit are other processes. So
modules that only some of them need are imported where they are used. Where Java writes, `sparklog.spark.planner`
plans and commits instead.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from sparklog.client.plans.write_plan import Durability, TaskWritten, WritePlan, append_command, plan_write
from sparklog.core.commands import Append, Application, CommitOffsets
from sparklog.core.describe.readable import amount, counted
from sparklog.core.errors import (
    InvalidInput,
    InvalidRequiredAcks,
    KeyNotFound,
    Landed,
    OutcomeUnknown,
    SparklogError,
)
from sparklog.core.idempotence.applications import check_run
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.host.clock import now_ms
from sparklog.log.cluster_stores import Stores
from sparklog.log.kafka_columns import left_out_warning
from sparklog.options.given import warning_of
from sparklog.options.typed import ApplicationVersion, ConsumedOffsets, WriteOptions
from sparklog.spark.lazy_connection import shared
from sparklog.spark.schema import check_written
from sparklog.spark.spark_versions import ArrowWriter, WriterCommitMessage
from sparklog.storage.http.coordinator_addresses import is_coordinator
from sparklog.storage.keys import data_key

if TYPE_CHECKING:
    from sparklog.client.groups.offsets import Offsets

MANY_SLICES: Final = 256  # a commit with fewer slices causes no warning about their size
SMALL_SLICE_BYTES: Final = 64 << 10

log = logging.getLogger("sparklog")


@dataclass(frozen=True)
class TaskMessage(WriterCommitMessage):
    """The result of one task attempt: `written` is a TaskWritten as MessagePack, `host` is the host of the attempt."""

    spark_partition: int
    host: str
    written: bytes


def begin_write(options: WriteOptions, schema: StructType) -> BatchWriter:
    """Plan a write of rows of `schema`, and log its warnings.

    Raises InvalidInput, UnknownTopicOrPartition, OutOfOrderSequence (the version was already written, with other
    input), and the cluster's errors.
    """
    writer = planned_writer(options, schema)
    warn_of(options, schema)
    return writer


def warn_of(options: WriteOptions, schema: StructType) -> None:
    """Log a warning if the write ignores options, and one if it ignores columns."""
    for warning in (warning_of(options.ignored), left_out_warning(schema.fieldNames())):
        if warning is not None:
            log.warning("%s", warning)


def planned_writer(options: WriteOptions, schema: StructType) -> BatchWriter:
    """Plan a write of rows of `schema`, and return its writer. Logs nothing.

    Raises InvalidInput, UnknownTopicOrPartition, OutOfOrderSequence (the version was already written, with other
    input), and the cluster's errors.
    """
    plan, state = planned_write(options, schema)
    if isinstance(options.consumed, ConsumedOffsets):
        _commit_of(state, options.consumed)  # raises for a mistake before anything is uploaded
    transaction = options.transaction
    before = None if transaction is None else state.applications.get(transaction.app_id)
    if transaction is not None:
        check_run(state, _application(transaction))
    done = None
    if before is not None and transaction is not None and before.has_written(transaction.version):
        done = before.version
    if options.topic is not None and "partition" not in schema.fieldNames():
        _check_durability(plan.durability, {options.topic: plan.topics[options.topic].partitions})
    return BatchWriter(options.for_tasks(), msgspec.msgpack.encode(plan), done)


def planned_write(options: WriteOptions, schema: StructType) -> tuple[WritePlan, ClusterState]:
    """Return the plan of a write of rows of `schema`, and the state from which it was made.

    Raises InvalidInput, UnknownTopicOrPartition, and the cluster's errors.
    """
    from sparklog.chain.commit.committer import new_command_id

    check_written(schema, options.topic)
    connection = shared(options.cluster, options.storage)
    state = connection.newest_state()
    plan = plan_write(
        state,
        connection.addresses(state),
        new_command_id(),
        topic=options.topic,
        compression=options.compression,
        now_ms=now_ms(),
        durability=Durability(options.acks, options.pull),
    )
    return plan, state


class BatchWriter(ArrowWriter):
    """The writer of one batch write; see the module. `plan`: a WritePlan as MessagePack.

    `done`: the last version that the application has written, if that includes the version of this write, so that
    nothing is to be written. Otherwise None.
    """

    def __init__(self, options: WriteOptions, plan: bytes, done: int | None) -> None:
        self.options = options
        self.plan = plan
        self.done = done

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Upload the rows of one task attempt. They are not visible until `commit`.

        Raises InvalidInput and its subclasses for wrong rows, NoReplicaOnline, and the stores' errors.
        """
        from sparklog.client.plans.task_upload import upload_task_rows

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        written = upload_task_rows(self._plan(), iterator, sticky=task) if self.done is None else TaskWritten()
        return TaskMessage(task, socket.gethostname(), msgspec.msgpack.encode(written))

    def commit(self, messages: Sequence[WriterCommitMessage | None], consumed: CommitOffsets | None = None) -> None:
        """Commit, in one command, everything that the tasks uploaded. Offsets follow (Spark partition id, row order).

        `consumed`: the input offsets of the rows, used if the options give no consumed offsets. A second call with the
        same messages changes nothing. Raises the command's error (then nothing was changed), or an OutcomeUnknown that
        says how to learn the outcome.
        """
        from sparklog.client.commits.commit_write import commit_append

        if self.done is not None:
            self._warn_of_skipping(self.done)
            return
        plan = self._plan()
        sent = sorted(_all_of(messages), key=lambda message: message.spark_partition)
        written = [msgspec.msgpack.decode(message.written, type=TaskWritten) for message in sent]
        transaction = self.options.transaction
        application = None if transaction is None else _application(transaction)
        through_http = is_coordinator(self.options.cluster)  # else the plan has the absolute path
        connection = shared(self.options.cluster if through_http else plan.addresses.cluster, self.options.storage)
        connection.check_chain(plan.chain_id)
        if isinstance(self.options.consumed, ConsumedOffsets):
            state = connection.newest_state()
            consumed = _commit_of(state, self.options.consumed)
        label = self.options.write_id or ""
        command = append_command(plan, written, application=application, label=label, consumed=consumed)
        if command is None:
            log.info("sparklog write %s had no rows: nothing to commit", self._name(plan))
            return
        _check_durability(plan.durability, _touched(plan, command))
        _check_visible(plan, command, {message.host for message in sent})
        try:
            result = commit_append(connection, plan, written, command, self.options.timeout_ms)
        except SparklogError as error:
            if error.landed is not Landed.UNKNOWN:
                raise
            # Spark's errors are texts, in which only the code says that the write may have landed.
            text = error.message if isinstance(error, OutcomeUnknown) else str(error)
            raise OutcomeUnknown(f"{text}; {self.if_unknown()}") from error
        self._log_written(plan, command, result)
        try:
            _warn(plan, command)
        except Exception as error:  # the write has landed: on a failure here, Spark would run the job again
            log.warning("sparklog write %s landed, but checking it for warnings failed: %s", self._name(plan), error)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log a warning. The uploaded objects stay, because a commit whose reply was lost may have named them.

        If no commit has, they are orphans, and vacuum removes them.
        """
        log.warning(
            "sparklog write %s was given up by Spark; the objects of its tasks are not part of the log unless an "
            "earlier commit named them, and the vacuum job removes the rest",
            self._name(self._plan()),
        )

    def if_unknown(self) -> str:
        """Return what to do if the outcome of the commit is unknown."""
        plan = self._plan()
        find = f"look the write up with 'sparklog chain write {plan.command_id}'"
        transaction = self.options.transaction
        if transaction is None:
            return f"write {self._name(plan)} may have landed: {find} before it is run again"
        if transaction.run:
            return (
                f"micro-batch {transaction.version} of query {transaction.app_id} may have landed: start the query "
                f"again from its checkpoint, which adds nothing if it did, or {find}"
            )
        return (
            f"write {self._name(plan)} may have landed: run it again with the same txnAppId {transaction.app_id!r} "
            f"and txnVersion {transaction.version}, which adds nothing if it did, or {find}"
        )

    def _plan(self) -> WritePlan:
        return msgspec.msgpack.decode(self.plan, type=WritePlan)

    def _name(self, plan: WritePlan) -> str:
        label = self.options.write_id
        return plan.command_id if label is None else f"{plan.command_id} ({label})"

    def _warn_of_skipping(self, done: int) -> None:
        transaction = self.options.transaction
        if transaction is not None:
            log.warning(
                "nothing was written: txnAppId %r has written txnVersion %d already, and this write is version %d; "
                "new rows need a version above %d",
                transaction.app_id,
                done,
                transaction.version,
                done,
            )

    def _log_written(self, plan: WritePlan, command: Append, result: CommandResult) -> None:
        log.info(
            "sparklog write %s: records: %d, objects: %d, committed in entry %d",
            self._name(plan),
            result.records,
            len(command.objects),
            result.n,
        )


def _commit_of(state: ClusterState, consumed: ConsumedOffsets) -> CommitOffsets:
    from sparklog.client.groups.offsets import commit_with_records

    offsets: Offsets = {
        (topic, int(partition)): offset
        for topic, by_partition in consumed.offsets.items()
        for partition, offset in by_partition.items()
    }
    return commit_with_records(state, consumed.group, offsets)


def _application(transaction: ApplicationVersion) -> Application:
    return Application(transaction.app_id, transaction.version, transaction.run, transaction.made_of)


def _all_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    sent = [message for message in messages if isinstance(message, TaskMessage)]
    if len(sent) < len(messages):
        raise InvalidInput(
            f"wanted a message from each task, got {len(sent)} of {len(messages)} from Spark: rows are missing"
        )
    return sent


def _check_durability(durability: Durability, partitions: dict[str, int]) -> None:
    """Raise InvalidRequiredAcks for a write to several partitions, unless it has acks=all and push replication.

    Without both, readers could see one partition's records before another's. `partitions`: the number of written
    partitions by topic.
    """
    if durability == Durability():
        return
    total = sum(partitions.values())
    if total > 1:
        counts = ", ".join(f"{topic}: {count}" for topic, count in sorted(partitions.items()))
        how = "replication=pull" if durability.pull else f"acks={int(durability.acks)}"
        instead = "replication=push" if durability.acks is Acks.ALL else "acks=all"
        raise InvalidRequiredAcks(
            f"{how} writes to one partition, found {total} partitions ({counts}): use {instead}, or give a column "
            "'partition'"
        )


def _touched(plan: WritePlan, command: Append) -> dict[str, int]:
    names = {topic.topic_id: topic.name for topic in plan.topics.values()}
    counts: dict[str, int] = {}
    for epoch in command.epochs:
        counts[names[epoch.topic_id]] = counts.get(names[epoch.topic_id], 0) + 1
    return counts


def _check_visible(plan: WritePlan, command: Append, hosts: set[str]) -> None:
    """Raise InvalidInput if executors wrote the objects of a file:// cluster to disks that this host can't read.

    `hosts`: the hosts of the tasks, which must share the cluster's path with the driver. Call this before the commit.
    """
    elsewhere = sorted(hosts - {socket.gethostname()})
    if not elsewhere or not plan.addresses.cluster.startswith("file:"):
        return
    log.warning(
        "cluster %s is a path, and tasks ran on %s: all executors must share it with the driver",
        plan.addresses.cluster,
        ", ".join(elsewhere),
    )
    stores = Stores(plan.addresses)
    names = {topic.topic_id: topic.name for topic in plan.topics.values()}
    for uploaded in command.objects:
        key = data_key(uploaded, names[uploaded.topic_id])
        for holder in uploaded.holders:
            store = stores.get(holder.store)
            try:
                size = store.size(key)
            except KeyNotFound:
                size = None
            if size != uploaded.size_bytes:
                raise InvalidInput(
                    f"an executor uploaded {key} ({uploaded.size_bytes} bytes) to {store.url}, the driver on "
                    f"{socket.gethostname()} finds {'nothing' if size is None else f'{size} bytes'} there; tasks ran "
                    f"on {', '.join(elsewhere)}: a file:// cluster needs a path that all of them share"
                )


def _warn(plan: WritePlan, command: Append) -> None:
    if not command.slices:
        return
    mean_bytes = sum(slice_.length for slice_ in command.slices) // len(command.slices)
    if len(command.slices) >= MANY_SLICES and mean_bytes < SMALL_SLICE_BYTES:
        topic = next(topic.name for topic in plan.topics.values() if topic.topic_id == command.slices[0].topic_id)
        log.warning(
            "this write made %s of %s on average, and small slices read slowly: shuffle the rows first with "
            "sparklog.spark.by_partition(df, %r, tasks=N), or roll the topic soon",
            counted(len(command.slices), "slice"),
            amount(mean_bytes),
            topic,
        )
