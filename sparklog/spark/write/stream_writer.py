"""Stream writes: each micro-batch is a batch write. Its application is the query, its version the micro-batch's number.

    begin_stream_write (planning) -> StreamWriter.write (each task attempt) -> StreamWriter.commit (driver)

Spark makes two writers for every micro-batch, in two Python processes beside the driver: one plans the write, the other
commits it. Only tasks can learn the query, the run and the number of the micro-batch, so their messages carry these.
The message of Spark partition 0 also carries the plan. With sparklog's JAR, the JVM's driver knows all of this, and
calls `plan_micro_batch` and `commit_micro_batch` through its planner (`sparklog/spark/planner/stream_requests.py`).

If Spark repeats the last micro-batch that the query has written, tasks upload nothing and the commit changes nothing,
however late that is: versions never expire. An older micro-batch is refused, because the checkpoint must have been set
back. The last micro-batch is refused, too, if its input has changed. To find that out, the commit carries a digest of
the input that the checkpoint records, if the checkpoint can be read.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import InvalidInput, WriteLost
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicId
from sparklog.log.kafka_columns import left_out_warning
from sparklog.options.given import warning_of
from sparklog.options.typed import ApplicationVersion, ConsumedByQuery, WriteOptions
from sparklog.spark.lazy_connection import shared
from sparklog.spark.read.offset_log import digest_of, ends_of, logged_if_readable, logged_offsets, open_checkpoint
from sparklog.spark.spark_versions import StreamArrowWriter, WriterCommitMessage
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage, planned_write
from sparklog.storage.object_store import ObjectStore

QUERY_ID = "sql.streaming.queryId"  # local properties that Spark sets for the tasks of a micro-batch
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

_SAID: Final[set[str]] = set()  # warnings given by this process: every micro-batch of a query has the same ones

log = logging.getLogger("sparklog")


class MicroBatch(msgspec.Struct, frozen=True):
    """A micro-batch: its query, its number, and the run of the query that works on it."""

    query_id: str
    batch_id: int
    run_id: str


@dataclass(frozen=True)
class StreamTaskMessage(TaskMessage):
    """The result of one task attempt. `skipped`: it uploaded nothing, because the micro-batch is already written.

    `plan` is the plan of the write, as MessagePack, in the message of Spark partition 0. It is empty in the others,
    because all tasks have the same plan.
    """

    micro_batch: MicroBatch
    skipped: bool
    plan: bytes


def begin_stream_write(options: WriteOptions, schema: StructType) -> StreamWriter:
    """Plan the write of a micro-batch, and return its writer. Raises the errors of `plan_micro_batch`."""
    return StreamWriter(options, *plan_micro_batch(options, schema))


def plan_micro_batch(options: WriteOptions, schema: StructType) -> tuple[bytes, dict[str, int]]:
    """Plan the write of a micro-batch. Return the plan as MessagePack, and what queries have written (`_written`).

    Logs a warning if the write ignores options or columns. Raises InvalidInput (also for a bad checkpoint address),
    UnknownTopicOrPartition, and the cluster's errors.
    """
    if isinstance(options.consumed, ConsumedByQuery):
        _checkpoint_of(options)
    plan, state = planned_write(options, schema)
    for warning in (warning_of(options.ignored), left_out_warning(schema.fieldNames())):
        if warning is not None and warning not in _SAID:
            _SAID.add(warning)
            log.warning("%s", warning)
    topic_ids = None if options.topic is None else {plan.topics[options.topic].topic_id}
    return msgspec.msgpack.encode(plan), _written(state, topic_ids)


def micro_batch_of(properties: Mapping[str, str | None]) -> MicroBatch:
    """Return the micro-batch that Spark's local properties QUERY_ID, BATCH_ID and RUN_ID name.

    Raises InvalidInput if Spark gave one of them no value.
    """
    query_id, batch_id, run_id = (properties.get(name) for name in (QUERY_ID, BATCH_ID, RUN_ID))
    if query_id is None or batch_id is None or run_id is None:
        missing = ", ".join(name for name in (QUERY_ID, BATCH_ID, RUN_ID) if properties.get(name) is None)
        raise InvalidInput(f"a micro-batch is identified by its query, run and number, and Spark gave no {missing}")
    return MicroBatch(query_id, int(batch_id), run_id)


def is_written(micro_batch: MicroBatch, written: Mapping[str, int]) -> bool:
    """True if the query has written the micro-batch already, so that its tasks upload nothing.

    `written`: from `plan_micro_batch`.
    """
    return micro_batch.batch_id <= written.get(micro_batch.query_id, -1)


def micro_batch_writer(options: WriteOptions, plan: bytes, micro_batch: MicroBatch, made_of: str = "") -> BatchWriter:
    """Return the BatchWriter that writes a micro-batch. `made_of`: the digest of its input offsets."""
    transaction = ApplicationVersion(micro_batch.query_id, micro_batch.batch_id, micro_batch.run_id, made_of)
    return BatchWriter(msgspec.structs.replace(options, transaction=transaction), plan, None)


def commit_micro_batch(
    options: WriteOptions,
    plan: bytes,
    micro_batch: MicroBatch,
    messages: Sequence[WriterCommitMessage | None],
    *,
    skipped: bool,
) -> None:
    """Commit, in one command, all uploads of the tasks. A repeat of the last written micro-batch changes nothing.

    `skipped`: the tasks uploaded nothing, because the micro-batch was already written. Raises InvalidInput if the
    message of a task is missing, InvalidProducerEpoch if a newer run of the query has written, OutOfOrderSequence if
    the checkpoint was set back, WriteLost if an election gave up the micro-batch, OutcomeUnknown, and the other errors
    of the command. With a group, also raises InvalidInput, UnsupportedVersion or a store's error if the checkpoint
    can't be used.
    """
    logged = _logged_offsets(options, micro_batch)
    made_of = "" if logged is None else digest_of(logged)
    if skipped:
        _check_still_written(options, micro_batch)
    consumed = _consumed(options, micro_batch.query_id, logged)
    micro_batch_writer(options, plan, micro_batch, made_of).commit(messages, consumed)


def warn_of_abort(batch_id: int) -> None:
    """Log a warning. The objects stay, because a commit whose reply was lost may have named them.

    Vacuum removes orphans.
    """
    log.warning("micro-batch %d was given up by Spark; the vacuum job removes the objects of its tasks", batch_id)


class StreamWriter(StreamArrowWriter):
    """The writer of one micro-batch; see the module.

    `written`: by query id, the number of the last micro-batch that the query had written when this write was planned.
    """

    def __init__(self, options: WriteOptions, plan: bytes, written: Mapping[str, int]) -> None:
        self.options = options
        self.plan = plan
        self.written = written

    def __reduce__(self) -> tuple[type[StreamWriter], tuple[WriteOptions, bytes, Mapping[str, int]]]:
        """Pickle the writer for tasks, without secrets."""
        return StreamWriter, (self.options.for_tasks(), self.plan, self.written)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamTaskMessage:
        """Upload the rows of one task attempt. They are not visible until `commit`.

        Raises InvalidInput and its subclasses for wrong rows, NoReplicaOnline, and the stores' errors.
        """
        from sparklog.client.plans.task_upload import upload_task_rows

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        micro_batch = micro_batch_of({name: context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID)})
        skipped = is_written(micro_batch, self.written)
        plan = msgspec.msgpack.decode(self.plan, type=WritePlan)
        written = TaskWritten() if skipped else upload_task_rows(plan, iterator, sticky=task)
        sent = msgspec.msgpack.encode(written)
        return StreamTaskMessage(
            task, socket.gethostname(), sent, micro_batch, skipped, self.plan if task == 0 else b""
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit all uploads of the tasks. Raises the errors of `commit_micro_batch`."""
        sent = [message for message in messages if isinstance(message, StreamTaskMessage)]
        first = next((message for message in sent if message.spark_partition == 0), None)
        if first is None:
            if messages:
                raise InvalidInput(f"micro-batch {batchId}: wanted a message from each task, found none from task 0")
            return  # no tasks, so no rows
        skipped = any(message.skipped for message in sent)
        commit_micro_batch(self.options, first.plan, first.micro_batch, messages, skipped=skipped)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log a warning: see `warn_of_abort`."""
        warn_of_abort(batchId)


def _logged_offsets(options: WriteOptions, micro_batch: MicroBatch) -> bytes | None:
    """Return the micro-batch's file in the offset log of the query's checkpoint.

    If the file can't be read, returns None, or raises an error if the write commits offsets for a group. Also
    returns None if the options name no checkpoint.
    """
    query_id, batch_id = micro_batch.query_id, micro_batch.batch_id
    if isinstance(options.consumed, ConsumedByQuery):
        return logged_offsets(_checkpoint_of(options), query_id, batch_id)
    if options.checkpoint is None:
        return None
    return logged_if_readable(options.checkpoint, query_id, batch_id)


def _consumed(options: WriteOptions, query_id: str, logged: bytes | None) -> CommitOffsets | None:
    """Return the command that commits the input offsets of the micro-batch, or None if there is nothing to commit.

    It is None without a group, and if no committed offset would change. Raises InvalidInput if the query reads no
    stream of this cluster, and UnsupportedVersion or InvalidInput if the offset log has an unknown form.
    """
    from sparklog.client.groups.offsets import commit_of_stream

    consumed = options.consumed
    if not isinstance(consumed, ConsumedByQuery) or logged is None:
        return None
    state = shared(options.cluster, options.storage).newest_state()
    ends = ends_of(logged, query_id, state.chain_id)
    return commit_of_stream(state, consumed.group, (at for end in ends for at in end.at.values()))


def _check_still_written(options: WriteOptions, micro_batch: MicroBatch) -> None:
    """Raise WriteLost if an unclean election has given up the micro-batch since its write was planned.

    It was already written at that time, so its tasks uploaded nothing that could replace it.
    """
    state = shared(options.cluster, options.storage).newest_state()
    known = state.applications.get(micro_batch.query_id)
    if known is None or not known.has_written(micro_batch.batch_id):
        raise WriteLost(
            f"micro-batch {micro_batch.batch_id} of query {micro_batch.query_id} was already written when it was "
            "planned again, but is lost now: start the query again to write it"
        )


def _checkpoint_of(options: WriteOptions) -> ObjectStore:
    """Open the checkpoint of the query. Raises InvalidInput for an address that this process can't open."""
    assert options.checkpoint is not None, "options with a group have one"
    return open_checkpoint(options.checkpoint)


def _written(state: ClusterState, topic_ids: set[TopicId] | None) -> dict[str, int]:
    """Return the number of the last micro-batch that each query has written, by query id.

    Leaves out queries whose last write was lost. With `topic_ids`, also leaves out queries whose last write was to none
    of these topics.
    """
    return {
        app_id: known.version
        for app_id, known in state.applications.items()
        if known.runs
        and known.lost is None
        and (topic_ids is None or any(range_.topic_id in topic_ids for range_ in known.result.ranges))
    }
