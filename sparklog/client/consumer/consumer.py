"""`Cluster.consumer`: a consumer reads topics, alone or as a member of a group, and commits its positions.

    with cluster.consumer("orders", group="billing", auto_offset_reset="earliest") as consumer:
        for record in consumer: ...              one by one
        consumer.poll(timeout_ms=1000)           or lists of records, by topic and partition
        consumer.poll_table(timeout_ms=1000)     or an Arrow table

With auto-commit, the records that a call returns are committed by a later call. Without it, call `commit`.
`core/reading/consumer_positions.py` decides where to resume and which offsets to read, and `reading.py` reads them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from sparklog.client.connection import Connection
from sparklog.client.consumer.commits import CommitCallback
from sparklog.client.consumer.consumer_record import ConsumerRecord, Deserializers
from sparklog.client.consumer.fetches import COLUMNS
from sparklog.client.consumer.in_transaction import ReadInTransaction
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.client.consumer.log_questions import LogQuestions
from sparklog.client.consumer.options import ConsumerOptions, check_positive
from sparklog.client.consumer.reading import ConsumerReading, End
from sparklog.client.consumer.shares import without_group
from sparklog.client.consumer.subscription import assignment, checked_place, places, subscription
from sparklog.client.groups.offsets import committed
from sparklog.client.kafka_names import AnswersKafkaMethods
from sparklog.core.describe.readable import counted, one_line_repr
from sparklog.core.errors import InvalidInput, InvalidOption, Wakeup
from sparklog.core.groups.group_progress import lag_of
from sparklog.core.reading.positions import Position
from sparklog.core.state import Partition
from sparklog.core.types import Offset, Place, TopicPartition
from sparklog.host.fork import OwnerProcess
from sparklog.log.kafka_columns import read_schema

FOREVER_MS = ALL_RECORDS = 1 << 40


class Consumer(LogQuestions, AnswersKafkaMethods):
    """A consumer, for one thread at a time; only `wakeup` may be called from other threads. See `Cluster.consumer`.

    A forked child can't use its parent's consumer; the parent stays a member of the group.

    A consumer in a group must be called at least once in `session_timeout_ms`; otherwise the other members get its
    partitions.
    """

    def __init__(
        self,
        connection: Connection,
        group: str | None,
        options: ConsumerOptions,
        when_closed: Callable[[Consumer], object] = lambda consumer: None,
    ) -> None:
        """Create a consumer without a subscription. Once it is closed, it calls `when_closed(consumer)`.

        Raises InvalidGroupId, InvalidOption.
        """
        if group is None and options.enable_auto_commit:
            raise InvalidOption("enable_auto_commit: without a group there is nothing to commit to")
        if group is None and options.group_instance_id is not None:
            raise InvalidOption("group_instance_id: without a group there is nothing to be a member of")
        self.group = group
        self._connection = connection
        self.options = options
        self._reading = ConsumerReading(connection, group, options)
        self._deserializers = Deserializers(options.key_deserializer, options.value_deserializer)
        self._in_use = threading.RLock()
        self._owner = OwnerProcess("consumer")
        self._when_closed = when_closed
        self._closed = False

    def __repr__(self) -> str:
        group = "no group" if self.group is None else f"group {self.group}"
        if self._closed:
            return one_line_repr("Consumer", group, "closed")
        has = f"has {counted(len(self.assignment()), 'partition')}"
        return one_line_repr("Consumer", group, has, ", ".join(self.subscription()) or "no subscription")

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Close the consumer. If the block raised an error (other than Wakeup), nothing more is committed.

        After such an error, the records returned last may not have been processed.
        """
        self._close(commits=kind in (None, Wakeup))

    # ---- its partitions -------------------------------------------------------------------------

    def subscribe(
        self, topics: Sequence[str] | str = (), *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Subscribe to `topics`, or to all topics whose whole names match `pattern` (a regular expression).

        In a group, the members divide the partitions; without a group, this consumer reads all of them. It gives up the
        partitions that it has now, and calls methods of `listener` when its partitions change. Raises InvalidInput
        (topics and pattern, or neither), UnknownTopicOrPartition.
        """
        with self._alone():
            state = self._connection.newest_state()
            wanted = subscription(state, topics, pattern)
            self._reading.begin(wanted, listener)

    def assign(self, partitions: Iterable[Place]) -> None:
        """Read exactly these partitions, even if other consumers read them, too. Gives up all present partitions.

        With a group, the consumer begins at the group's committed offsets and commits to the group without joining it;
        commits are refused while the group has members. Raises InvalidInput, UnknownTopicOrPartition.
        """
        with self._alone():
            state = self._connection.newest_state()
            wanted = assignment(state, partitions)
            self._reading.begin(wanted, None)
            self._reading.take_share()

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group. With auto-commit, first commits the returned records."""
        with self._alone():
            self._reading.settle_by_hand()
            self._reading.end()

    def assignment(self) -> tuple[Place, ...]:
        """The partitions that this consumer reads, as of its last `poll`; none from `subscribe` to the next `poll`."""
        return tuple(places(self._reading.positions.share))

    def subscription(self) -> tuple[str, ...]:
        """The topics of the subscription, in ascending order; none after `assign`, or without a subscription."""
        return self._reading.subscription()

    # ---- reading --------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> dict[Place, list[ConsumerRecord]]:
        """Return the next records by (topic, partition), ascending by offset: at most `max_records` in total.

        `max_records` defaults to the option `max_poll_records`. Waits up to `timeout_ms` for the first record; returns
        {} if none has come. An error loses nothing: the next call begins at the same position. Raises Wakeup;
        InvalidInput without a subscription or assignment; OffsetOutOfRange and DataLoss, depending on the options;
        UnknownTopicOrPartition if an assigned partition was deleted; Damaged; InvalidRecord if a deserializer fails;
        the errors of `GroupMember.poll`; and the stores' errors.
        """
        most = self.options.max_poll_records if max_records is None else max_records
        check_positive("max_records", most)
        with self._alone():
            read = self._reading.read(timeout_ms, most)
            polled: dict[Place, list[ConsumerRecord]] = {}
            ends: dict[TopicPartition, End] = {}
            for key, topic, batch in read.pieces:
                place = topic, int(key.partition)
                records, error = self._deserializers.records(*place, batch)
                if records:
                    polled.setdefault(place, []).extend(records)
                    ends[key] = Offset(records[-1].offset + 1), read.ends[key][1]
                if error is not None:
                    if not polled:
                        raise error
                    self._reading.hand_out(ends)  # the records before it; the next call raises
                    return polled
            self._reading.hand_out(read.ends)
            return polled

    def poll_table(
        self, timeout_ms: int = 0, max_records: int | None = None, *, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Like `poll`, but return the records as an Arrow table, partition by partition; without records, it is empty.

        Without `max_records`, only the option `fetch_max_bytes` limits the table. `columns`: the columns of the read
        schema to return, by default all; others are not decoded. No object is read for the columns topic, partition,
        timestampType and (except in compacted objects) offset, because the chain has their values. Raises the errors of
        `poll`, and InvalidInput if `columns` is empty, or has an unknown or repeated column.
        """
        chosen = COLUMNS if columns is None else tuple(columns)
        schema = read_schema(chosen)
        if not chosen:
            raise InvalidInput("columns: wanted at least one, found none")
        most = ALL_RECORDS if max_records is None else max_records
        check_positive("max_records", most)
        with self._alone():
            read = self._reading.read(timeout_ms, most, chosen)
            table = pa.Table.from_batches([batch for _, _, batch in read.pieces], schema=schema)
            self._reading.hand_out(read.ends)
            return table

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records one by one. Ends if no record comes within the option `consumer_timeout_ms` (None: never ends).

        While the caller processes a record, `position` is already the offset after it. Auto-commit includes the record
        only once the caller asks for the next one. Raises the errors of `poll`.
        """
        timeout_ms = self.options.consumer_timeout_ms or FOREVER_MS
        reading, now_ms = self._reading, self._connection.committer.clock.monotonic_ms
        while True:
            with self._alone():
                read = reading.read(timeout_ms, self.options.max_poll_records)
            moves, due_ms, has_read = reading.moves, reading.due_ms, reading.positions.has_read
            if not read.pieces:
                return
            for key, topic, batch in read.pieces:
                _, epoch = read.ends[key]
                records, error = self._deserializers.records(topic, int(key.partition), batch)
                for record in records:
                    has_read(key, Offset(record.offset + 1), epoch)
                    yield record
                    if now_ms() >= due_ms:
                        with self._alone():
                            reading.do_periodic_work()
                            due_ms = reading.due_ms
                    if reading.moves != moves:
                        break  # fetch again from the consumer's new position
                if reading.moves != moves:
                    break
                if error is not None:
                    raise error
            else:
                reading.hand_out(read.ends)

    # ---- where it is ----------------------------------------------------------------------------

    def position(self, place: Place) -> int:
        """The offset of the next record that the consumer returns from this partition.

        Raises InvalidInput if the partition is not one of this consumer's, UnknownTopicOrPartition if its topic was
        deleted or the group has a newer generation, and OffsetOutOfRange if auto_offset_reset is none and no offset is
        committed.
        """
        with self._alone():
            return self._reading.position(self._key(place)).offset

    def lag(self, place: Place | None = None) -> int:
        """Number of offsets from the position to the high watermark, in one partition or in all of this consumer's.

        Raises InvalidInput if the partition is not one of this consumer's.
        """
        with self._alone():
            keys = list(self._reading.positions.share) if place is None else [self._key(place)]
            state = self._connection.newest_state()
            held = [(state.partitions.get(key), self._reading.position(key).offset) for key in keys]
            return sum(
                lag_of(at, partition.log_start, partition.high_watermark)
                for partition, at in held
                if partition is not None
            )

    def seek(self, place: Place, offset: int) -> None:
        """Continue at this offset of a partition. Raises OffsetOutOfRange if it is not in the log.

        (Kafka accepts any offset, and applies `auto_offset_reset` to one that is not in the log.) Raises InvalidInput
        if the partition is not one of this consumer's.
        """
        with self._alone():
            self._reading.seek([self._key(place)], lambda partition: offset)

    def seek_to_beginning(self, *places: Place) -> None:
        """Continue at the log start in these partitions; without arguments, in all partitions of this consumer."""
        self._seek_all(places, lambda partition: partition.log_start)

    def seek_to_end(self, *places: Place) -> None:
        """Continue at the high watermark in these partitions; without arguments, in all partitions of this consumer."""
        self._seek_all(places, lambda partition: partition.high_watermark)

    def pause(self, *places: Place) -> None:
        """Return no records of these partitions until `resume`. They stay assigned to this consumer."""
        with self._alone():
            self._reading.pause([self._key(place) for place in places], paused=True)

    def resume(self, *places: Place) -> None:
        """Read these paused partitions again."""
        with self._alone():
            self._reading.pause([self._key(place) for place in places], paused=False)

    def paused(self) -> tuple[Place, ...]:
        """The partitions of this consumer that are paused, in ascending order."""
        positions = self._reading.positions
        return tuple(places({key: positions.share[key] for key in positions.paused}))

    # ---- commits --------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        """Commit `offsets`, by default the consumer's positions, all or nothing. They are durable after the call.

        Raises IllegalGeneration or UnknownMemberId if the partitions may belong to other members by now; the next
        `poll` learns the consumer's new partitions. Raises InvalidGroupId without a group, InvalidInput if a partition
        is not one of this consumer's or if the consumer is in a transaction, and the errors of
        `Cluster.commit_offsets`.
        """
        with self._alone():
            self._reading.commits.commit(self._reading.positions, self._to_commit(offsets), metadata)

    def commit_async(
        self, offsets: Mapping[Place, int] | None = None, callback: CommitCallback | None = None, *, metadata: str = ""
    ) -> None:
        """Commit as `commit` does, but in the background. Commits keep their order.

        Once the commit has ended, a later call of this consumer calls `callback` with the offsets and the error (None:
        committed); without a callback, an error is logged. Invalid offsets raise their error at once.
        """
        with self._alone():
            self._reading.commits.begin(self._reading.positions, self._to_commit(offsets), callback, metadata)

    def committed(self, place: Place) -> int | None:
        """The group's committed offset in a partition; None if the group has committed none there.

        Raises InvalidGroupId if the consumer has no group.
        """
        with self._alone():
            group = self._group_to_commit_to()
            state = self._connection.newest_state()
            row = committed(state, group).get((place[0], place[1]))
            return None if row is None else row.offset

    def in_transaction(self) -> ReadInTransaction:
        """Return the object by which a transaction commits this consumer's positions: see `Transaction.send_offsets`.

        Raises InvalidGroupId without a group, InvalidInput if the consumer auto-commits, or is already in a
        transaction.
        """
        with self._alone():
            group = self._group_to_commit_to()
            self._not_in_transaction(group)
            if self._reading.auto_commits:
                raise InvalidInput(
                    f"this consumer of group {group} commits by itself, perhaps before the transaction: give it "
                    "enable_auto_commit=False"
                )
            return ReadInTransaction(self._reading)

    def metrics(self) -> dict[str, int]:
        """Return counts since the consumer was created, and its lag, by Kafka's metric names with underscores.

        `records_lag` is the total lag of all its partitions in offsets, `records_lag_max` the lag of the partition with
        the greatest lag, both as of the newest state that this process knows.
        """
        return self._reading.metrics()

    # ---- its end --------------------------------------------------------------------------------

    def wakeup(self) -> None:
        """Make the `poll` that is waiting raise Wakeup at once; if none is waiting, the next `poll` raises it.

        May be called from any thread or signal handler. A `poll` that is reading or committing finishes this first.
        """
        self._reading.wakeup()

    def close(self) -> None:
        """Commit the returned records (with auto-commit), and leave the group. A second call does nothing.

        Call it in the thread that uses the consumer. From another thread, call `wakeup` first, and wait until that
        thread's last call has ended. Raises InvalidInput while another thread is in a call; after any other error the
        consumer is closed nevertheless.
        """
        self._close(commits=True)

    def _close(self, *, commits: bool) -> None:
        if self._closed or not self._owner.is_here:
            return
        with self._alone():
            try:
                self._reading.end(commits=commits)
            finally:
                self._closed = True
                self._when_closed(self)
                self._reading.commits.close()

    # ---- inside ---------------------------------------------------------------------------------

    def _seek_all(self, places: Sequence[Place], target: Callable[[Partition], int]) -> None:
        with self._alone():
            keys = [self._key(place) for place in places] if places else list(self._reading.positions.share)
            self._reading.seek(keys, target)

    def _to_commit(self, offsets: Mapping[Place, int] | None) -> dict[TopicPartition, Position]:
        self._not_in_transaction(self._group_to_commit_to())
        self._reading.settle()
        if offsets is None:
            return self._reading.positions.to_commit()
        rows = {}
        for place, offset in offsets.items():
            at = self._reading.position(self._key(place))
            rows[self._key(place)] = Position(at.chain_id, at.topic_id, at.partition, Offset(offset), at.leader_epoch)
        return rows

    def _not_in_transaction(self, group: str) -> None:
        if self._reading.in_transaction:
            raise InvalidInput(
                f"a transaction commits for this consumer of group {group} at the end of its block: no other commit, "
                "and no other transaction, inside it"
            )

    def _group_to_commit_to(self) -> str:
        if self.group is None:
            raise without_group()
        return self.group

    def _key(self, place: Place) -> TopicPartition:
        key = self._reading.positions.key(checked_place(place))
        if key is not None:
            return key
        has = ", ".join(f"{topic}-{index}" for topic, index in self.assignment()[:10])
        raise InvalidInput(
            f"wanted a partition of this consumer, found {place!r}; it has {has or 'none: the first poll takes them'}"
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Guard a call. Raises InvalidInput in a forked child, after `close`, or if another thread is in a call."""
        self._owner.check()
        if not self._in_use.acquire(blocking=False):
            raise InvalidInput("another thread is in a call of this consumer: except wakeup, it is for one thread")
        try:
            if self._closed:
                raise InvalidInput("this consumer is closed")
            yield
        finally:
            self._in_use.release()
