"""`producer.transaction()`: commits records of several topics and the offsets they were made from, all or nothing.

    consumer = cluster.consumer("orders", group="billing", enable_auto_commit=False)
    while True:
        with producer.transaction() as transaction:
            transaction.send_offsets(consumer)
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    transaction.send("bills", bill_of(record.value), key=record.key)

The records wait in memory. At the end of the block they are uploaded, and one command of the chain names them together
with the offsets, so no reader sees a part. No transaction coordinator is needed, and no marker in the log, because
uncommitted records are never in the log.

Possible failures, and their effect:

- The process dies before the commit: neither records nor offsets are written. Uploaded objects stay as orphans, which
  vacuum removes.
- The process dies after the commit, whether or not it got the answer: both are written. The next member of the group
  continues after the processed records.
- The block raises an error, or the commit is refused: neither is written. The consumer rewinds to its last commit
  or seek.
- Another member of the group has the partitions by now: the commit names the consumer's member id and its old
  generation, so it is refused, as in KIP-447 (IllegalGeneration, UnknownMemberId).
- The commit gets no answer (the error's `landed` is UNKNOWN): the same command is sent again before the consumer reads
  more. Then the consumer rewinds to its last commit or seek. Without a consumer the command is not sent again: if the
  program runs the block again, it may write its records twice.
- A newer instance of the producer is active (InvalidProducerEpoch), or the producer was closed (InvalidInput): neither
  is written.

A consumer is in one transaction at a time, and makes no other commit inside it. After a rewind, don't send results of
records that the consumer returned before it: the next `poll` returns these records again.

If the consumer is not a member of a group (assigned partitions, or a group given by name), a second process that
commits for the same group is not fenced: run one such process at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, Unpack, overload

import msgspec

from sparklog.client.commits.commit_write import commit_append
from sparklog.client.connection import Connection
from sparklog.client.consumer.reading import ORDER
from sparklog.client.groups.offsets import Offsets, commit_with_records
from sparklog.client.plans.plan_and_upload import plan_and_upload
from sparklog.client.plans.write_plan import Durability, append_command
from sparklog.client.producer.record_future import SentRecords
from sparklog.client.producer.targets import SendableTopics, SendOptions
from sparklog.client.producer.waiting_records import CELLS, WaitingRecords, naming_topic, routed
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
    """A consumer as a transaction uses it.

    `read_at`: the number of the consumer's last read; -1 before its first read. One counter numbers all reads and all
    transactions of the process, to show which came first.
    """

    read_at: int

    def command(self, *, with_records: bool) -> CommitOffsets | None:
        """The command that commits the consumer's positions; None if all are committed.

        `with_records`: true if the transaction writes records. Raises IllegalGeneration if the records that the
        consumer returned in the block may no longer be committed.
        """
        ...

    def committed(self, command: CommitOffsets) -> None:
        """Note that this command has landed: its positions are committed."""
        ...

    def has_landed(self, command: CommitOffsets) -> bool:
        """True if the group's committed offsets are exactly those of this command, by the newest state."""
        ...

    def end(self) -> None:
        """Note that the block of the transaction has ended: the consumer may commit by itself again."""
        ...

    def go_back(self, settle: Callable[[], None] | None = None) -> None:
        """Rewind the consumer to its last commit or seek.

        With `settle`, the consumer's next read or commit first calls `settle`, then rewinds.
        """
        ...


class ConsumerInTransaction(Protocol):
    """A consumer that `Transaction.send_offsets` accepts: it has the method `in_transaction`."""

    def in_transaction(self) -> TransactionalReader: ...


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings of a transaction. `most_bytes`: the most memory for its records. `timeout_ms`: for upload and commit.

    `sticky`: a random number, which chooses the partition of records without a key.
    """

    compression: str | None
    most_bytes: int
    timeout_ms: int
    sticky: int


class Transaction:
    """One transaction, for one thread; see the module.

    `result`: the result of its commit; None before that, and if there was nothing to commit.
    """

    def __init__(
        self,
        connection: Connection,
        topics: SendableTopics,
        settings: TransactionSettings,
        flush: Callable[[], None],
        fence: Callable[[], ProducerEpoch | None],
    ) -> None:
        """Create a transaction. `flush` writes the records that the producer sent before, so that the order is kept.

        `fence` returns the producer's id and epoch (None while it gets new ones); it raises the error of
        `Producer.send` once the producer is closed or fenced.
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
        """Commit the transaction; if the block raised an error, write nothing, and rewind the consumer.

        Raises InvalidProducerEpoch if a newer instance of the producer is active, InvalidInput if the producer was
        closed, and the errors of `Cluster.append`. Raises IllegalGeneration, UnknownMemberId or FencedInstanceId if the
        consumer's partitions may belong to other members by now.
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

    def send(self, topic: str, value: object, **options: Unpack[SendOptions]) -> None:
        """Add a record, with the parameters of `Producer.send`. Nothing is written before the end of the block.

        Raises the errors of `Producer.send`, and RecordTooLarge if the records of the transaction take more memory than
        the producer's setting `buffer_memory` allows.
        """
        self._check_open()
        _, cells, size = self._topics.record(topic, value, **options)
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
        """Commit group offsets with the records: `group` is a consumer, or a group's name with `offsets`.

        For a consumer, its positions at the end of the block are committed. Call this first in the block, before `send`
        and the consumer's `poll`; if the block fails, the consumer rewinds to its last commit or seek. A group given by
        name must have no members, as in `Cluster.commit_offsets`; a second call adds offsets, or replaces those of the
        same partitions.

        Raises InvalidInput (the consumer auto-commits, is in another transaction, or this call comes too late; a second
        group; no offsets), InvalidGroupId (the consumer has no group), and the errors of `Cluster.commit_offsets`.
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
        state = self._connection.newest_state()
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
        """Upload the records. Returns a function that commits them with `offsets`, and the time in ms left for it.

        The argument of the function is its time limit in ms. Returns None if there are neither records nor offsets.
        """
        names = list(self._waiting)
        if not names and offsets is None:
            return None
        state, settings = self._connection.follower.state, self._settings
        rows = [
            naming_topic(routed(waiting, state, settings.sticky).rows, name) for name, waiting in self._waiting.items()
        ]
        plan, written, spent_ms = plan_and_upload(
            self._connection, None, rows, settings.compression, Durability(), settings.timeout_ms, among=names
        )
        command = append_command(plan, [written], consumed=offsets)
        assert command is not None
        command = msgspec.structs.replace(command, fence=self._fence())
        return partial(commit_append, self._connection, plan, [written], command), settings.timeout_ms - spent_ms


def _settle(commit: Callable[[], CommandResult], consumer: TransactionalReader, offsets: CommitOffsets | None) -> None:
    """Learn the outcome of a commit that got no answer: `commit` sends the same command again.

    If it has landed, notes `offsets` as committed. Raises the error of `commit` if the outcome is still unknown.
    """
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
