"""Writes one flush of a producer: finds the partitions of its records, uploads the records, and commits the uploads.

    route    the partition of each record
    upload   on each store: the object -> its index -> a check of INCARNATION; only then is the store a holder
    commit   all objects of the flush in one entry of the chain, as one command

`core/producing/flushes.py` says when each step is due. If a commit is refused, `commit_append` submits it again for a
short time, with the same upload and command id. If it is still refused, `Flushes.refused` decides by the kind of error
(`flush_errors.py`): the flush is committed again, uploaded again (perhaps in halves), parked, or fails. Another upload
has another command id; the chain recognises a batch that has landed all the same by its sequences. What is left of a
refused upload is an orphan, which vacuum deletes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import msgspec

from sparklog.client.commits.commit_write import commit_append
from sparklog.client.connection import Connection
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.task_upload import sequenced
from sparklog.client.plans.write_plan import Durability, TaskWritten, WritePlan, append_command
from sparklog.client.producer.record_future import Outcome, WrittenRecords
from sparklog.client.producer.waiting_records import RoutedRecords, WaitingRecords, naming_topic, routed
from sparklog.core.errors import SparklogError, UnknownTopicOrPartition
from sparklog.core.producing.flush import Flush, FlushCommit
from sparklog.core.producing.flushes import SHORT_ATTEMPT_MS
from sparklog.core.records import CommandResult
from sparklog.core.replication.replica_append import Acks
from sparklog.core.types import TopicPartition

log = logging.getLogger("sparklog")


class BufferShare:
    """The bytes that a flush occupies in the producer's buffer. If a flush is divided, its parts share one object.

    `bytes_left`: bytes that are not free yet. `records_left`: records that are not settled yet; 0 until
    `Sending.route` has counted them.
    """

    __slots__ = ("bytes_left", "records_left")

    def __init__(self, size_bytes: int) -> None:
        self.bytes_left = size_bytes
        self.records_left = 0

    def settle(self, records: int) -> int:
        """Note that `records` more records are settled. Returns how many bytes of the buffer become free."""
        freed = self.bytes_left if records >= self.records_left else self.bytes_left * records // self.records_left
        self.bytes_left -= freed
        self.records_left -= records
        return freed


class FlushRows:
    """The records of a flush, by topic, and the bytes that they occupy in the buffer."""

    __slots__ = ("buffer_share", "topics")

    def __init__(self, buffer_share: BufferShare, topics: dict[str, RoutedRecords]) -> None:
        self.buffer_share = buffer_share
        self.topics = topics

    def only(self, parts: Collection[TopicPartition]) -> FlushRows:
        """The records of the partitions `parts`. The result shares `buffer_share` with this object."""
        partitions: dict[int, list[int]] = {}
        for key in parts:
            partitions.setdefault(key.topic_id, []).append(key.partition)
        topics = {
            name: of_topic.only(partitions[of_topic.topic_id])
            for name, of_topic in self.topics.items()
            if of_topic.topic_id in partitions
        }
        return FlushRows(self.buffer_share, topics)


class Sending:
    """Routes, uploads and commits flushes. Thread-safe if no two threads work on the same flush."""

    def __init__(self, connection: Connection, durability: Durability, compression: str | None, sticky: int) -> None:
        """Create the sending part of a producer.

        `sticky`: a random number. It chooses the partition of the first flush's records that have neither key nor
        partition, so that not all producers begin with the same one.
        """
        self._connection = connection
        self._durability = durability
        self._compression = compression
        self._sticky = sticky

    def route(self, flush: Flush, waiting: Mapping[str, WaitingRecords]) -> dict[TopicPartition, int]:
        """Find the partition of each record of the flush. Returns the number of records of each partition.

        `waiting`: the records, by topic; they become the rows of `flush`. Fails the futures of records whose topic was
        deleted. All records of a topic that have neither key nor partition go to one partition; the next flush uses the
        next partition.
        """
        rows = rows_of(flush)
        parts: dict[TopicPartition, int] = {}
        state = self._connection.follower.state  # the state that `send` knew, or a newer one
        for name, records in waiting.items():
            try:
                of_topic = routed(records, state, self._sticky + flush.order)
            except SparklogError as error:
                records.sent.fail(error)
                if self._durability.acks is Acks.NONE:
                    log.warning("records with acks=0 were not written: %s", error)
                continue
            of_topic.sent.partitions = of_topic.partitions
            rows.topics[name] = of_topic
            parts |= of_topic.parts()
        rows.buffer_share.records_left = sum(parts.values())
        return parts

    def upload(self, flush: Flush, timeout_ms: int) -> None:
        """Upload the records of the flush: one object for each topic and set of stores. Sets `flush.upload`.

        Raises UnknownTopicOrPartition if a topic was deleted and created again, and the errors of `plan_and_upload`.
        """
        topics = [(name, of_topic) for piece in flush.pieces for name, of_topic in rows_of(piece).topics.items()]
        names = list(dict(topics))
        several = len(names) > 1
        batches = [naming_topic(of_topic.rows, name) if several else of_topic.rows for name, of_topic in topics]
        plan, written, _ = plan_and_upload(
            self._connection,
            None if several else names[0],
            batches,
            self._compression,
            self._durability,
            timeout_ms,
            among=names,
        )
        for name, of_topic in topics:
            if plan.topics[name].topic_id != of_topic.topic_id:
                raise UnknownTopicOrPartition(
                    f"topic {name} was deleted and created again before its records were sent"
                )
        flush.upload = (plan, written)

    def commit(self, work: FlushCommit) -> CommandResult:
        """Commit the last upload of the flush, with its command id. Raises the errors of `commit_append`."""
        uploaded: tuple[WritePlan, TaskWritten] = work.flush.upload
        plan, written = uploaded
        command = append_command(plan, [written])
        assert command is not None, "a flush has records"
        slices = sequenced(command.slices, work.producer_id, work.producer_epoch, work.first_sequences)
        command = msgspec.structs.replace(command, slices=slices)
        timeout_ms = work.timeout_ms  # for an answer; a partition without a leader delays the others
        return commit_append(
            self._connection, plan, [written], command, timeout_ms, refusals_ms=min(timeout_ms, SHORT_ATTEMPT_MS)
        )


def settle_written(flush: Flush, result: CommandResult) -> None:
    """Set the offsets of the flush's records, from `result`, as the outcomes of their futures."""
    starts = {TopicPartition(range_.topic_id, range_.partition): int(range_.start) for range_ in result.ranges}
    for piece in flush.pieces:
        written: dict[int, dict[int, WrittenRecords]] = {}
        for key, records in piece.parts.items():
            if key in starts:
                written.setdefault(key.topic_id, {})[key.partition] = WrittenRecords(starts[key])
                starts[key] += records
        _settle(piece, written)


def settle_failed(flush: Flush, error: SparklogError) -> None:
    """Set `error` as the outcome of the futures of all records of the flush."""
    for piece in flush.pieces:
        failed: dict[int, dict[int, SparklogError]] = {}
        for key in piece.parts:
            failed.setdefault(key.topic_id, {})[key.partition] = error
        _settle(piece, failed)


def _settle(piece: Flush, outcomes: Mapping[int, Mapping[int, Outcome]]) -> None:
    """Set the outcomes of the records of `piece`, which is not a joined flush.

    `outcomes`: by topic id, then by partition.
    """
    for of_topic in rows_of(piece).topics.values():
        of_partitions = outcomes.get(of_topic.topic_id)
        if of_partitions is not None:
            of_topic.sent.settle(of_partitions)


def rows_of(flush: Flush) -> FlushRows:
    """Return `flush.rows` with the type FlushRows. The flush must not be a joined one, which has no rows."""
    assert isinstance(flush.rows, FlushRows)
    return flush.rows
