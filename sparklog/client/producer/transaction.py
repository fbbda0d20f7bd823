"""`producer.transaction()`: records of several topics and the offsets they were made from, in one commit or none.

    consumer = cluster.consumer("orders", group="billing", enable_auto_commit=False)
    while True:
        with producer.transaction() as transaction:
            transaction.send_offsets(consumer)
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    transaction.send("bills", bill_of(record.value), key=record.key)

The records wait in memory. At the end of the block they are uploaded, and one command of the chain names them together
with the offsets (I-05), so no reader sees a part. No coordinator of transactions is needed, and no marker in the log:
uncommitted records are not in the log.

Possible failures, and the contents of the log after them:

- The process dies before the commit: neither records nor offsets. Uploaded objects are orphans, which vacuum removes.
- It dies after the commit, with or without its answer: both. The next member resumes after the processed records.
- The block raises, or the commit is refused: neither. The consumer rewinds to its group's offsets.
- Another member has the partitions by now: the commit names its member and generation and is refused, as in KIP-447
  (IllegalGeneration, UnknownMemberId).
- The commit gets no answer (`landed` is unknown): the same command is sent again before the consumer reads more. Then
  the consumer resumes at its group's offsets. Without a consumer the command is not sent again: the same block, run
  again, may write its records twice.
- A newer instance of the producer is active (InvalidProducerEpoch), or it was closed: neither.

The consumer is in one transaction at a time and makes no other commit in it. Don't send records again that it returned
before it rewound: the next `poll` returns them once more.

Without a member (partitions that were assigned by hand, or a group by name), a second process that commits for the same
group is not fenced: run one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, overload

import msgspec

from sparklog.client.commits.commit_write import commit_append
from sparklog.client.connection import Connection
from sparklog.client.consumer.reading import ORDER
from sparklog.client.groups.offsets import Offsets, commit_with_records
from sparklog.client.plans.upload_rows import upload_rows
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.client.producer.record_future import SentRecords
from sparklog.client.producer.targets import SendableTopics
from sparklog.client.producer.waiting_records import CELLS, Header, WaitingRecords, naming_topic, routed
from sparklog.core.commands import CommitOffsets, ProducerEpoch
from sparklog.core.describe.readable import counted, exact_amount, one_line_repr
from sparklog.core.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InvalidInput,
    InvalidProducerEpoch,
    Landed,
    OutOfOrderSequence,
    RecordTooLarge,
    SparklogError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.reading.positions import Position
from sparklog.core.records import CommandResult
from sparklog.core.types import Place

log = logging.getLogger("sparklog")

# Refusals that show that a commit has not landed: otherwise it would have been recognized by its id.
_NOT_LANDED: Final = (
    IllegalGeneration,
    UnknownMemberId,
    FencedInstanceId,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    UnknownTopicOrPartition,
)


class TransactionalReader(Protocol):
    """The positions of a consumer for a transaction to commit. `read_at`: the point in ORDER of its last read."""

    read_at: int

    def command(self, *, with_records: bool) -> CommitOffsets | None:
        """The commit of the present positions; None if nothing was read. Raises IllegalGeneration."""
        ...

    def committed(self, command: CommitOffsets) -> None:
        """Note that this commit has landed."""
        ...

    def has_landed(self, command: CommitOffsets) -> bool:
        """True if the group is at the offsets of this commit."""
        ...

    def end(self) -> None:
        """Note that the block is over."""
        ...

    def go_back(self, settle: Callable[[], None] | None = None) -> None:
        """Rewind to the committed offsets. With `settle`, the next read calls it first and rewinds afterwards."""
        ...


class ConsumerInTransaction(Protocol):
    """The method of a consumer for transactions."""

    def in_transaction(self) -> TransactionalReader: ...


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings of a transaction. `most_bytes`: the most memory for its records.

    `sticky` chooses the first partition of records without a key.
    """

    compression: str | None
    most_bytes: int
    timeout_ms: int
    sticky: int


class Transaction:
    """One transaction, for one thread; see above. `result` has the offsets of its records once it is committed."""

    def __init__(
        self,
        connection: Connection,
        topics: SendableTopics,
        settings: TransactionSettings,
        flush: Callable[[], None],
        fence: Callable[[], ProducerEpoch | None],
    ) -> None:
        """Make a transaction. `flush` writes records sent outside of transactions, so that the order of `send` is kept.

        `fence` returns the id and epoch of the producer, and raises the errors of `Producer.send` once that has ended.
        """
        self.result: CommandResult | None = None
        self._connection = connection
        self._topics = topics
        self._settings = settings
        self._flush = flush
        self._fence = fence
        self._waiting: dict[str, WaitingRecords] = {}
        self._size_bytes = 0
        self._consumer: TransactionalReader | None = None
        self._offsets: CommitOffsets | None = None
        self._of: ConsumerInTransaction | str | None = None  # the owner of the offsets
        self._named: dict[Place, int | Position] = {}  # the offsets of a group that is given by its name
        self._is_begun = self._is_open = False
        self._begun_at = 0

    def __repr__(self) -> str:
        count = counted(sum(len(waiting.cells) // CELLS for waiting in self._waiting.values()), "record")
        if self.result is not None:
            return one_line_repr("Transaction", f"committed in entry {self.result.n}", count)
        state = "open" if self._is_open else "ended without a commit" if self._is_begun else "not begun"
        return one_line_repr("Transaction", state, count)

    def __enter__(self) -> Transaction:
        if self._is_begun:
            raise InvalidInput("a transaction is one block: begin the next one with producer.transaction()")
        self._is_begun = self._is_open = True
        self._begun_at = next(ORDER)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Commit; after an error, write nothing.

        Raises InvalidProducerEpoch if a newer instance of the producer is active, InvalidInput if it was closed.
        Raises the errors of `Cluster.append`; IllegalGeneration, UnknownMemberId or FencedInstanceId if the partitions
        of the consumer may belong to others by now.
        """
        self._is_open = False
        try:
            if kind is None:
                self._commit()
            elif self._consumer is not None:
                self._consumer.go_back()
        finally:
            if self._consumer is not None:
                self._consumer.end()

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[Header] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Add a record, as `Producer.send` does. Nothing is written before the end of the block.

        Raises the errors of `Producer.send`, and RecordTooLarge if the records of the transaction take more than
        `buffer_memory`.
        """
        self._check_open()
        _, cells, size = self._topics.record(topic, value, key, headers, timestamp_ms, partition)
        if self._size_bytes + size > self._settings.most_bytes:
            raise RecordTooLarge(
                f"the records of a transaction wait in memory, with at most {exact_amount(self._settings.most_bytes)} "
                "(buffer_memory of the producer): commit fewer at a time"
            )
        waiting = self._waiting.get(topic)
        if waiting is None:
            waiting = self._waiting[topic] = WaitingRecords(SentRecords(topic), 0)
        waiting.cells.extend(cells)
        self._size_bytes += size

    @overload
    def send_offsets(self, group: ConsumerInTransaction) -> None: ...
    @overload
    def send_offsets(self, group: str, offsets: Offsets) -> None: ...
    def send_offsets(self, group: ConsumerInTransaction | str, offsets: Offsets | None = None) -> None:
        """Commit these offsets of a group, or a consumer's positions at the end of the block, with the records.

        A consumer must come first in the block, before its `poll`: if the block fails, it rewinds to its group's
        offsets. A group given by name must have no members, as in `Cluster.commit_offsets`; a second call adds offsets
        of other partitions, and replaces those of the same partitions.

        Raises InvalidInput (the consumer commits by itself, comes after records, or is in another transaction; offsets
        of another group, or none), InvalidGroupId (it has no group), and the errors of `Cluster.commit_offsets`.
        """
        self._check_open()
        if self._of is not None and (group != self._of if isinstance(group, str) else group is not self._of):
            raise InvalidInput("send_offsets: a transaction commits the offsets of one group, given in one way")
        if not isinstance(group, str):
            if self._consumer is not None:
                return
            consumer = group.in_transaction()
            if self._waiting or consumer.read_at > self._begun_at:
                consumer.end()
                raise InvalidInput(
                    "send_offsets comes first in the block, before the consumer's poll and before any send: otherwise "
                    "the consumer would not go back if the block failed before it"
                )
            self._consumer, self._of = consumer, group
            return
        if not offsets:
            raise InvalidInput(f"wanted the offsets of group {group}, found none")
        named = {**self._named, **offsets}
        state = self._connection.follower.newest_state()
        self._offsets = commit_with_records(state, group, named)
        self._of, self._named = group, named

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidInput("a transaction is used inside its block: with producer.transaction() as transaction")

    def _commit(self) -> None:
        consumer, settle = self._consumer, None
        try:
            self._fence()
            self._flush()
            offsets = self._offsets if consumer is None else consumer.command(with_records=bool(self._waiting))
            uploaded = self._uploaded(offsets)
            if uploaded is None:
                return
            commit, left_ms = uploaded
            if consumer is not None:
                settle = partial(_settle, partial(commit, self._settings.timeout_ms), consumer, offsets)
            self.result = commit(left_ms)
        except BaseException as error:
            if consumer is not None:
                is_known = settle is None or (isinstance(error, SparklogError) and error.landed is Landed.NO)
                consumer.go_back(None if is_known else settle)
            raise
        if consumer is not None and offsets is not None:
            consumer.committed(offsets)

    def _uploaded(self, offsets: CommitOffsets | None) -> tuple[Callable[[int], CommandResult], int] | None:
        """Upload the rows. Returns the commit, which takes its time limit in milliseconds, and the milliseconds left.

        None if there is nothing to commit.
        """
        names = list(self._waiting)
        if not names and offsets is None:
            return None
        state, settings = self._connection.follower.state, self._settings
        rows = [
            naming_topic(routed(waiting, state, settings.sticky).rows, name) for name, waiting in self._waiting.items()
        ]
        plan, written, spent_ms = upload_rows(
            self._connection, None, rows, settings.compression, Durability(), settings.timeout_ms, among=names
        )
        command = append_command(plan, [written], consumed=offsets)
        assert command is not None
        command = msgspec.structs.replace(command, fence=self._fence())
        return partial(commit_append, self._connection, plan, [written], command), settings.timeout_ms - spent_ms


def _settle(commit: Callable[[], CommandResult], consumer: TransactionalReader, offsets: CommitOffsets | None) -> None:
    """Send a commit without an answer again, as the same command. Raises if there is no answer yet."""
    try:
        commit()
    except SparklogError as error:
        if error.landed is not Landed.YES:
            if error.retriable or error.landed is Landed.UNKNOWN:
                raise
            # As a member is fenced, the group is at these offsets only if the commit has landed.
            if isinstance(error, _NOT_LANDED) or offsets is None or not consumer.has_landed(offsets):
                log.warning("a transaction without an answer was not committed: %s", error)
                return
    if offsets is not None:
        consumer.committed(offsets)
