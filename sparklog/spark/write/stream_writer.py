"""A stream write: each micro-batch is a batch write whose application is the query, and whose version is its number.

    begin_stream_write (planner) -> StreamWriter.write (each task attempt) -> StreamWriter.commit (driver)

Spark makes a new writer for every micro-batch, in the planner, and another one to commit it. Only tasks can ask which
query, run and micro-batch they belong to, so their messages say it, and the first one brings the plan. A micro-batch
that is written already uploads nothing and commits nothing, however long ago it was: versions never expire. What it is
made of is in the checkpoint, from which the commit takes a digest: a micro-batch of an old number that is made of
something else is not taken for a repeat.
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
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from sparklog.client.plans.write_plan import TaskWritten, WritePlan
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import InvalidInput, WriteLost
from sparklog.core.state import ClusterState
from sparklog.core.types import TopicId
from sparklog.log.records_schema import left_out_warning
from sparklog.options.given import warning_of
from sparklog.options.typed import ApplicationVersion, ConsumedByQuery, WriteOptions
from sparklog.spark.installed import StreamArrowWriter
from sparklog.spark.lazy_connection import shared
from sparklog.spark.read.offset_log import digest_of, ends_of, logged_if_readable, logged_offsets, open_checkpoint
from sparklog.spark.write.batch_writer import BatchWriter, TaskMessage, planned_write
from sparklog.storage.object_store import ObjectStore

QUERY_ID = "sql.streaming.queryId"  # local properties that Spark gives the tasks of a micro-batch
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"

_SAID: Final[set[str]] = set()  # warnings of this process: every micro-batch of a query has the same ones

log = logging.getLogger("sparklog")


class MicroBatch(msgspec.Struct, frozen=True):
    """A micro-batch: its query, its number there, and the run of the query that works on it."""

    query_id: str
    batch_id: int
    run_id: str


@dataclass(frozen=True)
class StreamTaskMessage(TaskMessage):
    """What one task attempt wrote. `skipped`: nothing, because the micro-batch is written already.

    `plan` is what the attempt was planned with; only Spark partition 0 brings it, as every task has the same one.
    """

    micro_batch: MicroBatch
    skipped: bool
    plan: bytes


def begin_stream_write(options: WriteOptions, schema: StructType) -> StreamWriter:
    """Plan the write of a micro-batch. Raises as `begin_write`, and InvalidInput for an address of a checkpoint."""
    if isinstance(options.consumed, ConsumedByQuery):
        _checkpoint_of(options)
    plan, state = planned_write(options, schema)
    for warning in (warning_of(options.ignored), left_out_warning(schema.fieldNames())):
        if warning is not None and warning not in _SAID:
            _SAID.add(warning)
            log.warning("%s", warning)
    topic_ids = None if options.topic is None else {plan.topics[options.topic].topic_id}
    return StreamWriter(options, msgspec.msgpack.encode(plan), _written(state, topic_ids))


class StreamWriter(StreamArrowWriter):
    """See the module. `written`: by query, the last micro-batch that was written when this one was planned."""

    def __init__(self, options: WriteOptions, plan: bytes, written: Mapping[str, int]) -> None:
        self.options = options
        self.plan = plan
        self.written = written

    def __reduce__(self) -> tuple[type[StreamWriter], tuple[WriteOptions, bytes, Mapping[str, int]]]:
        """To tasks, without secrets."""
        return StreamWriter, (self.options.for_tasks(), self.plan, self.written)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamTaskMessage:
        """Upload the rows of one task attempt. They are not visible until `commit`. Raises as `write_rows`."""
        from sparklog.client.plans.write_rows import write_rows

        context = TaskContext.get()
        assert context is not None
        task, micro_batch = context.partitionId(), _micro_batch(context)
        skipped = micro_batch.batch_id <= self.written.get(micro_batch.query_id, -1)
        plan = msgspec.msgpack.decode(self.plan, type=WritePlan)
        written = TaskWritten() if skipped else write_rows(plan, iterator, task=task)
        sent = msgspec.msgpack.encode(written)
        return StreamTaskMessage(
            task, socket.gethostname(), sent, micro_batch, skipped, self.plan if task == 0 else b""
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit everything that the tasks uploaded in one command; nothing if the micro-batch is written already.

        Raises InvalidProducerEpoch if a newer run of the query has written, OutOfOrderSequence if the checkpoint was
        set back, WriteLost, and as `BatchWriter.commit`; with a group also as `logged_offsets` and `ends_of`.
        """
        sent = [message for message in messages if isinstance(message, StreamTaskMessage)]
        plan = next((message.plan for message in sent if message.spark_partition == 0), None)
        if plan is None:
            if messages:
                raise InvalidInput(f"micro-batch {batchId}: wanted a message from each task, found none from task 0")
            return  # no task, no row
        micro_batch = sent[0].micro_batch
        logged = self._logged_offsets(micro_batch.query_id, batchId)
        made_of = "" if logged is None else digest_of(logged)
        transaction = ApplicationVersion(micro_batch.query_id, batchId, micro_batch.run_id, made_of)
        if any(message.skipped for message in sent):
            self._check_still_written(transaction)
        options = msgspec.structs.replace(self.options, transaction=transaction)
        BatchWriter(options, plan, None).commit(messages, self._consumed(transaction, logged))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Leave the objects alone: a commit whose reply was lost may have named them. Vacuum finds orphans."""
        log.warning("micro-batch %d was given up by Spark; the vacuum job removes what its tasks uploaded", batchId)

    def _logged_offsets(self, query_id: str, batch_id: int) -> bytes | None:
        """The micro-batch in the offset log of the query. None if the log can't be read, and no group needs it."""
        if isinstance(self.options.consumed, ConsumedByQuery):
            return logged_offsets(_checkpoint_of(self.options), query_id, batch_id)
        if self.options.checkpoint is None:
            return None
        return logged_if_readable(self.options.checkpoint, query_id, batch_id)

    def _consumed(self, transaction: ApplicationVersion, logged: bytes | None) -> CommitOffsets | None:
        """What the micro-batch was made from, to be committed with it. Raises as `ends_of`."""
        from sparklog.client.groups.offsets import commit_of_stream

        consumed = self.options.consumed
        if not isinstance(consumed, ConsumedByQuery) or logged is None:
            return None
        with shared(self.options.cluster, self.options.storage).follower.current() as state:
            ends = ends_of(logged, transaction.app_id, state.chain_id)
            return commit_of_stream(state, consumed.group, (at for end in ends for at in end.at.values()))

    def _check_still_written(self, transaction: ApplicationVersion) -> None:
        """Raise WriteLost if an unclean election gave up the micro-batch after its tasks had found it written."""
        with shared(self.options.cluster, self.options.storage).follower.current() as state:
            known = state.applications.get(transaction.app_id)
        if known is None or not known.has_written(transaction.version):
            raise WriteLost(
                f"micro-batch {transaction.version} of query {transaction.app_id} was written when it was planned "
                "again, and is lost now: start the query again, and it writes it"
            )


def _checkpoint_of(options: WriteOptions) -> ObjectStore:
    """The checkpoint of the query. Raises InvalidInput for an address that can't be read here."""
    assert options.checkpoint is not None, "options with a group have one"
    return open_checkpoint(options.checkpoint)


def _written(state: ClusterState, topic_ids: set[TopicId] | None) -> dict[str, int]:
    """The last micro-batch of each query that wrote to these topics last; of every query, if None."""
    return {
        app_id: known.version
        for app_id, known in state.applications.items()
        if known.runs
        and known.lost is None
        and (topic_ids is None or any(range_.topic_id in topic_ids for range_ in known.result.ranges))
    }


def _micro_batch(context: TaskContext) -> MicroBatch:
    found = {name: context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    query_id, batch_id, run_id = found.values()
    if query_id is None or batch_id is None or run_id is None:
        missing = ", ".join(name for name, value in found.items() if value is None)
        raise InvalidInput(f"a micro-batch is identified by its query, run and number, and Spark gave no {missing}")
    return MicroBatch(query_id, int(batch_id), run_id)
