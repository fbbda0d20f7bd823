"""The positions of a consumer in a transaction of a producer, which commits them with its records."""

from __future__ import annotations

from collections.abc import Callable

from sparklog.client.consumer.reading import ConsumerReading
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import IllegalGeneration
from sparklog.core.types import TopicPartition


class ReadInTransaction:
    """The part of a consumer that `Transaction.send_offsets` uses; see `transaction.TransactionalReader`."""

    def __init__(self, reading: ConsumerReading) -> None:
        self._reading = reading
        self.read_at = reading.read_at
        self._begins = reading.begins
        reading.in_transaction = True

    def end(self) -> None:
        """Note that the block is over."""
        self._reading.in_transaction = False

    def command(self, *, with_records: bool) -> CommitOffsets | None:
        """The commit of the present positions, fenced by the generation in which they were read; None if none is new.

        Raises IllegalGeneration if partitions went to others after records of them were returned, if it was closed or
        subscribed again in the block, or if it rewound and has not read since, so that records to write are of an
        earlier read; and the errors of `ConsumerReading.settle`.
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
        """Note that this commit has landed."""
        rows = {TopicPartition(row.topic_id, row.partition): row.offset for row in command.offsets}
        self._reading.positions.committed(rows)
        self._reading.counts.commits += 1

    def has_landed(self, command: CommitOffsets) -> bool:
        """True if the group is at the offsets of this commit."""
        return self._reading.has_landed(command)

    def go_back(self, settle: Callable[[], None] | None = None) -> None:
        """Rewind to the committed offsets. With `settle`, the next read calls it first and rewinds afterwards."""
        if settle is None:
            self._reading.go_back()
        else:
            self._reading.settle_first(settle)
