"""A consumer inside a producer's transaction, which commits the consumer's positions with the producer's records."""

from __future__ import annotations

from collections.abc import Callable

from sparklog.client.consumer.reading import ConsumerReading
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import IllegalGeneration
from sparklog.core.types import TopicPartition


class ReadInTransaction:
    """Implements `transaction.TransactionalReader`: a transaction commits a consumer's positions through it."""

    def __init__(self, reading: ConsumerReading) -> None:
        self._reading = reading
        self.read_at = reading.read_at
        self._begins = reading.begins
        reading.in_transaction = True

    def end(self) -> None:
        """Note that the transaction's `with` block has ended. From then on, other calls may commit for the consumer."""
        self._reading.in_transaction = False

    def command(self, *, with_records: bool) -> CommitOffsets | None:
        """The command that commits the consumer's positions, fenced by its generation; None if all are committed.

        `with_records`: true if the transaction also writes records. Raises the errors of `ConsumerReading.settle`.
        Raises IllegalGeneration in three cases:

        - Partitions were taken away after their records were returned, but before these were committed.
        - The consumer was closed, subscribed or assigned again inside the transaction's `with` block.
        - The transaction writes records, but the consumer was rewound and has not read since. So these records were
          made from an earlier read, whose records will be returned again.
        """
        self._reading.settle()
        self._reading.commits.wait()
        if self._reading.begins != self._begins:
            raise IllegalGeneration(
                "the consumer was closed, subscribed or assigned again inside the block: nothing was written; poll, "
                "and process again the records that come"
            )
        if with_records and self._reading.must_read:
            raise IllegalGeneration(
                "the consumer has gone back to the uncommitted records, and has not read since: nothing was written; "
                "poll, and process the records that come: they are the same ones again"
            )
        if self._reading.gave_up_unread:
            raise IllegalGeneration(
                "partitions were taken away whose records were returned and not committed: nothing was written; "
                "poll, and process again the records that come"
            )
        return self._reading.commits.command(self._reading.positions)

    def committed(self, command: CommitOffsets) -> None:
        """Note that `command`, which the method `command` returned, has landed: its positions are committed."""
        rows = {TopicPartition(row.topic_id, row.partition): row.offset for row in command.offsets}
        self._reading.positions.committed(rows)
        self._reading.counts.commits += 1

    def has_landed(self, command: CommitOffsets) -> bool:
        """True if the group's committed offsets are exactly those of this command, by the newest state."""
        return self._reading.has_landed(command)

    def go_back(self, settle: Callable[[], None] | None = None) -> None:
        """Rewind the consumer to its last commit or seek in each partition, so that later records are returned again.

        With `settle`, a function that learns the outcome of the transaction, the rewind is deferred: the consumer's
        next read or commit first calls `settle`, then rewinds.
        """
        if settle is None:
            self._reading.go_back()
        else:
            self._reading.settle_first(settle)
