"""Reads the records of `sparklog consume` with a consumer, table by table: alone, or as a member of a group."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sparklog.cli.output import print_warning
from sparklog.cli.records.consume_offsets import offsets_to_print
from sparklog.client.consumer.listener import RebalanceListener
from sparklog.client.consumer.subscription import subscription
from sparklog.core.errors import (
    DataLoss,
    IllegalGeneration,
    InvalidOption,
    OffsetOutOfRange,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from sparklog.core.lookup import chosen_partitions, topic_of
from sparklog.core.types import PartitionIndex, Place, TopicId, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklog.client.cluster import Cluster
    from sparklog.client.consumer.consumer import Consumer
    from sparklog.core.state import ClusterState, Partition

SKIP_OPTION = "fail_on_data_loss=False"  # as the errors of a consumer name it
FOLLOW_WAIT_MS = 5_000  # after this, a follower shows that it is alive and notices an interrupt that was lost
RECORDS_PER_TABLE = 10_000  # a group member commits after this many, which also shows that it is alive


@dataclass(frozen=True, slots=True)
class ConsumeSelection:
    """The options of `sparklog consume` that choose the records: those of `topics`, or of topics that match `pattern`.

    If `partitions` is empty, all partitions are read. `num` is the maximum number of records; None: no limit.
    `columns`: the columns to read; None: all.
    """

    topics: Sequence[str]
    pattern: str | None
    offset: str
    partitions: Sequence[int]
    num: int | None
    follow: bool
    skip_lost: bool
    columns: Sequence[str] | None


class Reader(Protocol):
    """A source of records for the function `tables`. The caller closes `consumer`."""

    consumer: Consumer

    def next(self, most_records: int) -> pa.Table | None:
        """Return the next records, at most `most_records`: an empty table if there are none yet, None at the end."""
        ...

    def printed(self) -> None:
        """Confirm that the last table has been printed. A group member then commits its offsets."""
        ...


def tables(cluster: Cluster, wanted: ConsumeSelection, group: str | None) -> Generator[pa.Table, None, None]:
    """Yield the records to print. Asking for the next table confirms that the previous one was printed.

    Raises the errors of `offsets_to_print`, `Consumer.subscribe` and `Consumer.poll`, and InvalidOption if --offset is
    @A:B and `group` is given.
    """
    reader: Reader = AloneReader(cluster, wanted) if group is None else MemberReader(cluster, wanted, group)
    left = wanted.num
    with reader.consumer:
        while left != 0:
            try:
                table = reader.next(RECORDS_PER_TABLE if left is None else min(left, RECORDS_PER_TABLE))
            except DataLoss as error:
                raise DataLoss(error.message.replace(SKIP_OPTION, "--skip-lost")) from error
            if table is None:
                return
            yield table
            reader.printed()
            left = None if left is None else left - table.num_rows


class AloneReader(RebalanceListener):
    """Reads without a group, one partition after the other. With --offset @A:B, it ends at B, even with --follow.

    Otherwise, it reads each partition until it reaches the high watermark, which may rise meanwhile. With --follow, it
    then reads new records of all these partitions. Unless --partition chose them, it also follows partitions that are
    added later and, with a pattern, new topics. Records that retention removes before they are read are skipped with a
    warning.
    """

    def __init__(self, cluster: Cluster, wanted: ConsumeSelection) -> None:
        """Assign the partitions to read, each at its first offset. Raises the errors of `tables`."""
        self._cluster, self._wanted = cluster, wanted
        state = cluster.connection.newest_state()
        topics = [topic_of(state, name) for name in subscription(state, wanted.topics, wanted.pattern).names(state)]
        chosen = tuple(dict.fromkeys(wanted.partitions))
        partitions = [(topic, partition) for topic in topics for partition in chosen_partitions(state, topic, chosen)]
        self._topic_ids: dict[str, TopicId] = {topic.name: topic.topic_id for topic in topics}
        ranges = {
            (topic.name, int(partition.partition)): offsets_to_print(cluster, topic.name, partition, wanted.offset)
            for topic, partition in partitions
        }
        self._ends = {place: end for place, (_, end) in ranges.items() if end is not None}
        self._columns = None if wanted.columns is None else tuple(dict.fromkeys((*wanted.columns, "offset")))
        self._turns = deque(ranges)  # partitions not read to their end yet; the first one is being read
        self._is_following = self._has_read = False
        self._followed_from: dict[Place, int] = {}
        self.consumer = cluster.consumer(auto_offset_reset="none", fail_on_data_loss=not wanted.skip_lost)
        if not topics:
            print_warning(f"no topic's whole name matches the regular expression {wanted.pattern!r}")
        if ranges:
            self.consumer.assign(ranges)
            self.consumer.pause(*ranges)
        for place, (start, _) in ranges.items():
            self._go(place, start)

    def next(self, most_records: int) -> pa.Table | None:
        while self._turns:
            place = self._turns[0]
            end = self._end(place)
            left = end - self.consumer.position(place)
            if left > 0:
                self.consumer.resume(place)
                table = self._poll(0, min(most_records, left))
                if table.num_rows:
                    return self._up_to(end, table)
            self.consumer.pause(place)
            self._turns.popleft()
        if not self._wanted.follow or self._ends:
            return None
        if not self._is_following:
            self._is_following = True
            self._follow()
        return self._poll(FOLLOW_WAIT_MS, most_records)

    def printed(self) -> None:
        """Do nothing: this reader commits no offsets."""

    def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        """Continue each of these partitions at the offset already reached in it; begin a new one at its log start."""
        for place in partitions:
            if self._wanted.pattern is not None and place[0] not in self._topic_ids:  # created since the start
                self._topic_ids[place[0]] = self._cluster.connection.follower.state.topic_ids[place[0]]
            start = self._followed_from.pop(place, None)
            self._go(place, self._partition(place).log_start if start is None else start)

    def on_partitions_revoked(self, partitions: Sequence[Place]) -> None:
        """Warn if a topic of the pattern was deleted; raise UnknownTopicOrPartition if a named topic was deleted.

        Without a group, a consumer loses a partition only if its topic is deleted.
        """
        state = self._cluster.connection.follower.state
        for topic in dict.fromkeys(topic for topic, _ in partitions):
            if self._wanted.pattern is None:
                self._check_topic(state, topic)
            elif self._topic_ids.get(topic) not in state.topics:
                self._topic_ids.pop(topic, None)
                print_warning(f"topic {topic} was deleted while it was read")

    def _end(self, place: Place) -> int:
        """Return the offset at which to stop in a partition: the end given by --offset, else the high watermark.

        Raises UnknownTopicOrPartition if the topic was deleted.
        """
        end = self._ends.get(place)
        if end is not None:
            return end
        follower = self._cluster.connection.follower
        if not self._has_read:
            return self._in(follower.state, place).high_watermark
        self._has_read = False  # reading may have taken a long time
        return self._partition(place).high_watermark

    def _follow(self) -> None:
        if self._wanted.partitions:
            self.consumer.resume(*self.consumer.assignment())
            return
        self._followed_from = {place: self.consumer.position(place) for place in self.consumer.assignment()}
        self.consumer.subscribe(self._wanted.topics, pattern=self._wanted.pattern, listener=self)

    def _poll(self, timeout_ms: int, most_records: int) -> pa.Table:
        while True:
            try:
                table = self.consumer.poll_table(timeout_ms, most_records, columns=self._columns)
            except OffsetOutOfRange:
                for place in set(self.consumer.assignment()).difference(self.consumer.paused()):
                    self._go(place, self.consumer.position(place))
                continue
            self._has_read = True
            return table

    def _up_to(self, end: int, table: pa.Table) -> pa.Table:
        """Return the records of `table` below offset `end` if --offset gives an end, otherwise the whole table.

        A compacted log has fewer records than offsets. So a poll for as many records as there are offsets below `end`
        may read beyond `end`.
        """
        import pyarrow.compute as pc

        return table.filter(pc.less(table["offset"], end)) if self._ends else table

    def _go(self, place: Place, offset: int) -> None:
        """Continue partition `place` at `offset`. If the log starts above it, warn and continue at the log start.

        Raises OffsetOutOfRange if `offset` is above the high watermark.
        """
        while True:
            try:
                self.consumer.seek(place, offset)
                return
            except OffsetOutOfRange:
                start = self._partition(place).log_start
                if start <= offset:
                    raise
                removed = f"[{offset}, {start})"
                print_warning(f"{place[0]}-{place[1]}: records {removed} were removed before they were read")
                offset = start

    def _partition(self, place: Place) -> Partition:
        """Return the newest state of partition `place`. Raises UnknownTopicOrPartition if its topic was deleted."""
        state = self._cluster.connection.newest_state()
        return self._in(state, place)

    def _in(self, state: ClusterState, place: Place) -> Partition:
        self._check_topic(state, place[0])
        return state.partitions[TopicPartition(self._topic_ids[place[0]], PartitionIndex(place[1]))]

    def _check_topic(self, state: ClusterState, topic: str) -> None:
        if self._topic_ids[topic] not in state.topics:
            again = " and created again" if topic in state.topic_ids else ""
            raise UnknownTopicOrPartition(f"topic {topic} was deleted{again} while it was read")


class MemberReader(RebalanceListener):
    """Reads as a member of a group, from the group's committed offsets, and commits the records that were printed.

    In a partition without a committed offset, the start given by --offset is committed first, so --offset applies only
    once per group. A partition that is created after the start is read from its log start.
    """

    def __init__(self, cluster: Cluster, wanted: ConsumeSelection, group: str) -> None:
        """Join the group. Raises the errors of `tables`."""
        self._wanted = wanted
        state = cluster.connection.newest_state()
        topics = subscription(state, wanted.topics, wanted.pattern).names(state)
        self._ranges = {
            (topic, int(partition.partition)): offsets_to_print(cluster, topic, partition, wanted.offset)
            for topic in topics
            for partition in state.partitions_of(topic_of(state, topic))
        }
        if any(end is not None for _, end in self._ranges.values()):
            raise InvalidOption(
                "--offset @A:B can't be combined with --group: a group continues at its committed offsets"
            )
        self._is_at_end = False
        self.consumer = cluster.consumer(
            *wanted.topics,
            group=group,
            pattern=wanted.pattern,
            listener=self,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fail_on_data_loss=not wanted.skip_lost,
        )

    def next(self, most_records: int) -> pa.Table | None:
        if self._is_at_end:
            return None
        follow = self._wanted.follow
        table = self.consumer.poll_table(FOLLOW_WAIT_MS if follow else 0, most_records, columns=self._wanted.columns)
        self._is_at_end = not table.num_rows and not follow
        return table

    def printed(self) -> None:
        self._commit()

    def on_partitions_assigned(self, partitions: Sequence[Place]) -> None:
        starts = {
            place: self._ranges[place][0]
            for place in partitions
            if place in self._ranges and self.consumer.committed(place) is None
        }
        for place, start in starts.items():
            self.consumer.seek(place, start)
        if starts:
            self._commit(starts)

    def _commit(self, offsets: dict[Place, int] | None = None) -> None:
        try:
            self.consumer.commit(offsets)
        except (IllegalGeneration, UnknownMemberId) as error:  # others may print these records again
            print_warning(error.message)
