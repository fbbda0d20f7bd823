"""The implementation of a consumer's calls: auto-commit, follow the group, read, and wait. `consumer.py` is the API."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sparklog.client.connection import Connection
from sparklog.client.consumer.commits import Commits
from sparklog.client.consumer.consumer_counts import ConsumerCounts
from sparklog.client.consumer.fetches import COLUMNS, Fetches
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.client.consumer.options import ConsumerOptions
from sparklog.client.consumer.shares import Shares
from sparklog.client.consumer.subscription import Assignment, Subscription, places
from sparklog.core.commands import CommitOffsets
from sparklog.core.errors import DataLoss, InvalidInput, SparklogError, UnknownTopicOrPartition, Wakeup
from sparklog.core.groups.group_progress import lag_of
from sparklog.core.purgatory import Records
from sparklog.core.reading.consumer_positions import AutoOffsetReset, ConsumerPositions, Unread
from sparklog.core.reading.positions import Position
from sparklog.core.state import Partition
from sparklog.core.types import LeaderEpoch, Offset, TopicPartition
from sparklog.host.bell import Bell

log = logging.getLogger("sparklog")

NEVER_MS = 1 << 60
ORDER = itertools.count()  # numbers reads and begins of transactions in this process, to tell which came first
PARTITIONS_AHEAD = 8  # partitions whose first records are fetched while another is read

Batch = tuple[TopicPartition, str, pa.RecordBatch]  # with the name of the topic
End = tuple[Offset, LeaderEpoch]


@dataclass(frozen=True, slots=True)
class PolledRecords:
    """The records of one read (`pieces`), and the consumer's positions after these records, by partition (`ends`).

    Pass `ends` to `ConsumerReading.hand_out`.
    """

    pieces: list[Batch]
    ends: dict[TopicPartition, End]


class ConsumerReading:
    """The implementation of one consumer, for one thread at a time; `wakeup` may be called from any thread."""

    def __init__(self, connection: Connection, group: str | None, options: ConsumerOptions) -> None:
        """Create a consumer's implementation, without a subscription. Raises InvalidGroupId."""
        self._connection = connection
        self._options = options
        self._shares = Shares(connection, group, options.session_timeout_ms, options.group_instance_id)
        self.auto_commits = group is not None and options.enable_auto_commit is not False
        self._clock = connection.committer.clock
        self._bell = Bell()
        self._woken = False
        self._watch = connection.waiting.watch(bell=self._bell)
        self._fetches = Fetches(connection, fail_on_data_loss=options.fail_on_data_loss)
        self._listener = RebalanceListener()
        self._look_due_ms = 0
        self._commit_due_ms = 0 if self.auto_commits else NEVER_MS
        self.counts = ConsumerCounts()
        self.commits = Commits(self._shares, self.counts)
        self.positions = self._new_positions()
        # Counts reads, seeks, pauses and rebalances: records fetched before one are not returned after it.
        self.moves = 0
        # True if partitions went to others after their records were returned, and before these were committed.
        self.gave_up_unread = False
        self.read_at = -1  # number of the last read, from ORDER; -1: none yet
        self.begins = 0  # subscriptions and assignments that it has given up
        # True if it rewound, or will: records returned before come again, and don't count as read until then.
        self.must_read = False
        self.in_transaction = False
        self._settle: Callable[[], None] | None = None  # a commit without an answer, to be sent again before a read

    def wakeup(self) -> None:
        """Make the `read` that is waiting, or else the next one, raise Wakeup. For any thread or signal handler."""
        self._woken = True
        self._bell.ring()

    # ---- its partitions -------------------------------------------------------------------------

    def begin(self, wanted: Subscription | Assignment, listener: RebalanceListener | None) -> None:
        """Give up the present partitions as `end` does, and read `wanted` from the next call on.

        Raises the errors of `settle`.
        """
        self.settle_by_hand()
        self.end()
        self._shares.wanted = wanted
        self._listener = listener or RebalanceListener()
        self.positions = self._new_positions(wanted)

    def end(self, *, commits: bool = True) -> None:
        """Give up all partitions and leave the group. With `commits` and auto-commit, first commit the positions."""
        try:
            self.settle_by_hand()
            if commits and self.auto_commits:
                self.commits.commit_if_still_its_own(self.positions, self.positions.to_commit())
            self.commits.wait()
            if self.positions.share:
                self._listener.on_partitions_revoked(places(self.positions.share))
        finally:
            self._fetches.close()
            self.moves += 1
            self.begins += 1
            self._look_due_ms = 0
            self.gave_up_unread, self.must_read, self._settle = False, True, None
            self.positions = self._new_positions()
            self._shares.leave()

    def subscription(self) -> tuple[str, ...]:
        """The topics of the subscription, in ascending order; none after `assign`, or without a subscription."""
        wanted = self._shares.wanted
        return wanted.names(self._connection.follower.state) if isinstance(wanted, Subscription) else ()

    def metrics(self) -> dict[str, int]:
        """The metrics that `Consumer.metrics` returns."""
        state = self._connection.follower.state
        held = ((state.partitions.get(key), self.positions.position(key)) for key in self.positions.share)
        lags = [
            lag_of(at.offset, partition.log_start, partition.high_watermark)
            for partition, at in held
            if partition is not None and at is not None
        ]
        return self.counts.shown(len(self.positions.share), lags)

    # ---- one round of reading -------------------------------------------------------------------

    def read(self, timeout_ms: int, most_records: int, columns: Sequence[str] = COLUMNS) -> PolledRecords:
        """Read batches with these columns, at most `most_records` records in total; returns them and the new positions.

        Waits at most `timeout_ms` for the first batch; if none has come, returns no batches. The caller must pass the
        new positions to `hand_out`. Raises the errors of `Consumer.poll`.
        """
        if self._shares.wanted is None:
            raise InvalidInput("this consumer reads nothing yet: subscribe to topics, or assign partitions")
        self.settle()
        self.read_at = next(ORDER)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        has_looked = False
        self.moves += 1
        while True:
            if self._woken:
                self._woken = False
                raise Wakeup("another thread called wakeup of this consumer; poll again to continue")
            self.do_periodic_work(look=has_looked)
            fetched = self._ready(most_records, columns)
            if fetched.pieces:
                self.must_read = False
                self.counts.read(batch for _, _, batch in fetched.pieces)
                return fetched
            if not has_looked:
                self._connection.follower.catch_up()
                has_looked = True
                continue
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                self.must_read = False
                return fetched
            self._wait(left_ms)

    def hand_out(self, ends: Mapping[TopicPartition, End]) -> None:
        """Move the consumer's positions to `ends`. Call it when the records before `ends` are returned to the user."""
        for key, (offset, epoch) in ends.items():
            self.positions.has_read(key, offset, epoch)
        self.positions.had_turn(ends)

    def _ready(self, most_records: int, columns: Sequence[str]) -> PolledRecords:
        """The records that can be read without waiting, within the limits on records and bytes.

        If an error follows these records, the next call raises it.
        """
        state = self._connection.follower.state
        pieces: list[Batch] = []
        ends: dict[TopicPartition, End] = {}
        left, left_bytes = most_records, self._options.fetch_max_bytes
        rest = None
        try:
            for rest, coming in _with_next(self.positions.unread(state), PARTITIONS_AHEAD):
                self._fetches.begin_ahead(state, coming, most_records, columns, self._options.fetch_max_bytes)
                while rest.offsets.start < rest.offsets.end and left > 0 and left_bytes > 0:
                    piece = self._fetches.take(state, rest, left, columns)
                    ends[rest.key] = piece.end, piece.leader_epoch
                    rest = rest.after(piece.end)
                    if piece.batch is not None:
                        pieces.append((rest.key, rest.topic, piece.batch))
                        left -= piece.batch.num_rows
                        left_bytes -= piece.batch.nbytes
                if left <= 0 or left_bytes <= 0:
                    break
        except SparklogError as error:
            was_removed = isinstance(error, DataLoss) and rest is not None and self._was_removed(rest)
            if not pieces and not was_removed:  # if retention was faster, continue by auto_offset_reset
                raise
        for warning in self.positions.warnings:
            log.warning("%s", warning)
        self.positions.warnings.clear()
        if not pieces:
            self.hand_out(ends)  # only gaps: there are no records to return
        return PolledRecords(pieces, ends)

    def _wait(self, left_ms: int) -> None:
        """Wait at most `left_ms` for new records, new partitions of a topic, another generation, or `wakeup`.

        Returns earlier if it is time to check the group.
        """
        wanted = Records(self.positions.awaited(), topics=self._shares.awaited_topics(self._connection.follower.state))
        due_ms = self._look_due_ms - self._clock.monotonic_ms()
        self._watch.wait(wanted, max(1, min(left_ms, due_ms)), stop=self._has_news)

    def _has_news(self) -> bool:
        return self._woken or self._shares.is_stale(self.positions.generation)

    def _was_removed(self, unread: Unread) -> bool:
        """True if, in the newest state, the partition is gone, or its log start is above the consumer's position."""
        state = self._connection.newest_state()
        partition = state.partitions.get(unread.key)
        return partition is None or self.position(unread.key).offset < partition.log_start

    # ---- now and then ---------------------------------------------------------------------------

    @property
    def due_ms(self) -> int:
        """Time, in ms of the monotonic clock, by which to call `do_periodic_work` again, even between two records."""
        return min(self._look_due_ms, self._commit_due_ms)

    def do_periodic_work(self, *, look: bool = False) -> None:
        """Do the periodic work: report finished commits, auto-commit if due, stay a member, and take the present share.

        Reads the chain every `heartbeat_interval_ms`, and at once if the newest state known here has another generation
        of the group. After each such read, checks whether the consumer's share has changed. `look`: true if the caller
        has just read the chain, so that the share is checked in any case.
        """
        now_ms = self._clock.monotonic_ms()
        self.commits.report()
        if now_ms >= self._commit_due_ms:
            self._commit_due_ms = now_ms + self._options.auto_commit_interval_ms
            self.commits.begin_auto_commit(self.positions)
        if now_ms >= self._look_due_ms or self._shares.is_stale(self.positions.generation):
            self._shares.look()
            self._look_due_ms = now_ms + self._options.heartbeat_interval_ms
            look = True
        if look:
            self.take_share()
        if self.positions.is_undecided:
            self._begin()

    def take_share(self) -> None:
        """Give up and add partitions, and call the listener, if the consumer's share has changed.

        Uses the chain as last read. Raises UnknownTopicOrPartition (an assigned partition is gone).
        """
        change = self.positions.change(*self._shares.now())
        if change is None:
            return
        before = self.positions.share
        self.gave_up_unread = self.gave_up_unread or any(map(self.positions.is_ahead, change.revoked))
        self.counts.rebalances += 1
        if change.revoked:
            self.moves += 1
            self._listener.on_partitions_revoked(places({key: before[key] for key in change.revoked}))
        self.positions.take(change)
        for key in change.revoked:
            self._fetches.drop(key)
        if change.assigned:
            self._listener.on_partitions_assigned(places({key: change.share[key] for key in change.assigned}))

    def _begin(self) -> None:
        """Choose the offset at which to begin in each new partition.

        If that is the end of the log (auto_offset_reset=latest), a member of a group commits it at once. Otherwise
        another member that gets the partition later might begin at a later end of the log, and skip the records in
        between.
        """
        state = self._connection.follower.state
        at_end = self.positions.begin(state, self._shares.committed(state))
        is_begun = self.positions.generation is None  # without a group no other member could take over
        try:
            is_begun = is_begun or self.commits.commit_if_still_its_own(self.positions, at_end)
        finally:
            if not is_begun:  # choose these starts again: in the next generation, or after an error
                self.positions.decide_again(at_end)

    # ---- where it is ----------------------------------------------------------------------------

    def position(self, key: TopicPartition) -> Position:
        """The position at which the consumer continues in a partition of its share.

        Raises UnknownTopicOrPartition if the topic was deleted or the group has another generation, and the errors of
        `ConsumerPositions.begin` and of `settle`.
        """
        self.settle()
        if self.positions.position(key) is None:
            self._begin()
        position = self.positions.position(key)
        if position is None:
            name = f"{self.positions.share[key]}-{key.partition}"
            raise UnknownTopicOrPartition(
                f"{name}: the topic was deleted, or the group has a newer generation: poll takes over the new share"
            )
        return position

    def seek(self, keys: Iterable[TopicPartition], target: Callable[[Partition], int]) -> None:
        """Continue in these partitions at the offset that `target` computes from each: in all of them, or in none.

        Raises OffsetOutOfRange, UnknownTopicOrPartition, and the errors of `settle`.
        """
        self.settle()
        state = self._connection.newest_state()
        self.positions.seek(state, dict.fromkeys(keys, target))
        self.moves += 1

    def go_back(self) -> None:
        """Rewind to the last commit or seek in each partition, so that uncommitted records are returned again.

        Does not settle a transaction whose outcome is unknown; see `settle`.
        """
        self.gave_up_unread, self.must_read = False, True
        self.positions.go_back()
        self.moves += 1
        self._look_due_ms = 0  # perhaps the group has another generation

    def settle_first(self, settle: Callable[[], None]) -> None:
        """Remember that the outcome of a transaction is unknown. The function `settle` learns it, or raises an error.

        The next call of the method `settle` calls this function. Once the outcome is known, whatever it is, each
        partition is rewound to its last commit or seek.
        """
        self._settle, self.must_read = settle, True
        self.moves += 1

    def settle(self) -> None:
        """Learn the outcome of a transaction whose commit got no answer, then rewind to the last commit or seek.

        Does nothing if there is no such transaction. If the outcome is still unknown, raises the error of the commit;
        the next call tries again.
        """
        if self._settle is not None:
            self._settle()
            self._settle = None
            self.go_back()

    def settle_by_hand(self) -> None:
        """Call `settle` if the consumer is not a member of a group.

        A member need not learn a transaction's outcome before it gives up its partitions: once another member has them,
        a late commit of the transaction is refused.
        """
        if self.positions.generation is None:
            self.settle()

    def has_landed(self, command: CommitOffsets) -> bool:
        """True if the group's committed offsets are exactly those of this command, by the newest state."""
        state = self._connection.newest_state()
        present = self._shares.committed(state)
        rows = [(present.get(TopicPartition(row.topic_id, row.partition)), row.offset) for row in command.offsets]
        return all(known is not None and known.offset == offset for known, offset in rows)

    def pause(self, keys: Iterable[TopicPartition], *, paused: bool) -> None:
        """Stop reading these partitions (`paused` true), or read them again (false)."""
        for key in keys:
            self.positions.pause(key, paused=paused)
        self.moves += 1

    def _new_positions(self, wanted: Subscription | Assignment | None = None) -> ConsumerPositions:
        state = self._connection.follower.state
        return ConsumerPositions(
            state.chain_id,
            AutoOffsetReset(self._options.auto_offset_reset),
            {} if wanted is None else wanted.sizes(state),
            fail_on_data_loss=self._options.fail_on_data_loss,
        )


def _with_next(unread: Iterator[Unread], most: int) -> Iterator[tuple[Unread, Sequence[Unread]]]:
    """Yield each item of `unread` with up to `most` items that follow it.

    An error of the iterator `unread` is raised only after all items before it were yielded.
    """
    coming: deque[Unread] = deque()
    error: SparklogError | None = None
    while True:
        while error is None and len(coming) <= most:
            try:
                following = next(unread, None)
            except SparklogError as raised:
                error = raised
                break
            if following is None:
                break
            coming.append(following)
        if not coming:
            if error is not None:
                raise error
            return
        yield coming.popleft(), coming
