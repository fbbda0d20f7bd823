"""Operations: requests of clients that wait for a change in the chain (Kafka's purgatory). No I/O.

They are indexed by the partitions, topics or store that they watch. So an entry leads to checks only of the operations
that watch something it changes, no matter how many others wait. The end of a wait is only a hint: the client then reads
the chain, and decides by the state. The caller handles time-outs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from sparklog.core.decide.append import OFFSETS_END, is_replicated
from sparklog.core.errors import InvalidInput, SparklogError
from sparklog.core.reading.positions import Position, valid_up_to
from sparklog.core.records import AppendedRange
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import CommandStoreId, EntryNumber, OffsetRange, StoreId, TopicId, TopicPartition

K = TypeVar("K")


class Replicated(msgspec.Struct, frozen=True, tag="replicated"):
    """The wait of a write until the high watermark has passed these ranges, or never will (Kafka's DelayedProduce)."""

    ranges: tuple[AppendedRange, ...]


class KnownTopic(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A topic as a reader knows it, with the number of partitions that the reader knows."""

    topic_id: TopicId
    partitions: int


class Records(msgspec.Struct, frozen=True, tag="records"):
    """The wait of a reader until it can read `min_bytes` stored bytes from its positions (Kafka's DelayedFetch).

    `min_bytes` is Kafka's `fetch.min.bytes`. The wait also ends if the reader can't continue from a position, or if one
    of `topics` was deleted or has another number of partitions than the reader knows.
    """

    positions: tuple[Position, ...]
    min_bytes: int = 1
    topics: tuple[KnownTopic, ...] = ()


class ReplicaNews(msgspec.Struct, frozen=True, tag="replica-news"):
    """The wait of a store's agent for news.

    It ends when a partition changes whose replica on the store lacks records or is not in sync, when the store itself
    changes (for example its registration), or when another coordinator is in force.
    """

    store: CommandStoreId


WaitCondition = Replicated | Records | ReplicaNews


def is_done(state: ClusterState, wanted: Replicated | Records) -> bool:
    """True if there is no reason to wait any more: the condition is met, or never will be."""
    try:
        if isinstance(wanted, Replicated):
            return is_replicated(state, wanted.ranges)
        return _is_readable(state, wanted)
    except SparklogError:
        return True


def _is_readable(state: ClusterState, wanted: Records) -> bool:
    """True if `min_bytes` can be read, a topic has changed, or a position is not in the log.

    Raises InconsistentClusterId, UnknownTopicOrPartition or UnknownLeaderEpoch if a position does not fit this state.
    """
    for known in wanted.topics:
        topic = state.topics.get(known.topic_id)
        if topic is None or topic.partitions != known.partitions:
            return True
    missing = wanted.min_bytes
    if missing <= 0:
        return True
    for position in wanted.positions:
        if valid_up_to(state, position) < position.offset:
            return True
        key = TopicPartition(position.topic_id, position.partition)
        partition = state.partitions[key]
        if not partition.log_start <= position.offset <= partition.next_offset:
            return True
        if position.offset >= partition.high_watermark:
            continue
        for slice_ in state.slices.walk(key, OffsetRange(position.offset, partition.high_watermark)):
            missing -= slice_.length
            if missing <= 0:
                return True
    return False


class Operation:
    """An operation that waits. Operations are compared by identity: two with the same fields are distinct."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: WaitCondition) -> None:
        self.wanted = wanted


class Purgatory:
    """The operations that wait. `state`, the newest known state, completes none of them; `advance` takes newer ones."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.watched = 0  # partitions, topics, stores and operations, for a bound on memory
        self._waiting: set[Operation] = set()
        self._by_partition: dict[TopicPartition, set[Operation]] = {}
        self._by_topic: dict[TopicId, set[Operation]] = {}
        self._by_store: dict[StoreId, set[Operation]] = {}
        self._known_from = state.n  # changes in entries before this one are not known
        self._news_at: dict[StoreId, int] = {}  # the newest entry with news of a store
        self._news_of_all_at = state.n

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, wanted: WaitCondition, seen: EntryNumber) -> Operation | None:
        """Add an operation for a client that has read the chain up to entry `seen`, and return it.

        Returns None, and adds nothing, if the wait is already over, for example because the store has had news since
        entry `seen`. Raises InvalidInput for offsets that no log can have.
        """
        _check_offsets(wanted)
        if isinstance(wanted, Replicated | Records):
            done = is_done(self.state, wanted)
        else:
            done = seen < max(self._known_from, self._news_of_all_at, self._news_at.get(wanted.store, -1))
        if done:
            return None
        operation = Operation(wanted)
        self._waiting.add(operation)
        self.watched += weight(wanted)
        partitions, topics = _keys_of(wanted)
        for partition in partitions:
            self._by_partition.setdefault(partition, set()).add(operation)
        for topic in topics:
            self._by_topic.setdefault(topic, set()).add(operation)
        if isinstance(wanted, ReplicaNews):
            self._by_store.setdefault(wanted.store, set()).add(operation)
        return operation

    def remove(self, operation: Operation) -> None:
        """Remove an operation that no client waits for any more. Does nothing if it was completed or removed."""
        if operation not in self._waiting:
            return
        self._waiting.remove(operation)
        wanted = operation.wanted
        self.watched -= weight(wanted)
        partitions, topics = _keys_of(wanted)
        for partition in partitions:
            _discard(self._by_partition, partition, operation)
        for topic in topics:
            _discard(self._by_topic, topic, operation)
        if isinstance(wanted, ReplicaNews):
            _discard(self._by_store, wanted.store, operation)

    def advance(self, state: ClusterState) -> list[Operation]:
        """Take a newer state. Removes and returns the operations that it completes; [] if the state is not newer."""
        before, self.state = self.state, state
        if state.n <= before.n:
            self.state = before
            return []
        changed = list(state.partitions.differing(before.partitions))
        candidates: set[Operation] = set()
        for key in changed:
            candidates |= self._by_partition.get(key, set())
        for topic in state.topics.differing(before.topics):
            candidates |= self._by_topic.get(topic, set())
        done = [operation for operation in candidates if _is_done_now(state, operation)]
        self._note_news(before, state, changed)
        for store, operations in self._by_store.items():
            if max(self._news_of_all_at, self._news_at.get(store, -1)) == state.n:
                done += operations
        for operation in done:
            self.remove(operation)
        return done

    def remove_all(self) -> list[Operation]:
        """Remove all operations, and return them."""
        waiting = list(self._waiting)
        for operation in waiting:
            self.remove(operation)
        return waiting

    def _note_news(self, before: ClusterState, state: ClusterState, changed: Iterable[TopicPartition]) -> None:
        """Note the stores whose agents have news in `state`; see `ReplicaNews`.

        `changed`: the partitions that differ between the two states.
        """
        known, now = before.coordinator, state.coordinator
        if (now.epoch, now.address) != (known.epoch, known.address):
            self._news_of_all_at = state.n
        for store in state.stores.differing(before.stores):
            self._news_at[store] = state.n
        for key in changed:
            partition = state.partitions.get(key)
            if partition is not None:
                for store in _wanting(partition):
                    self._news_at[store] = state.n


def weight(wanted: WaitCondition) -> int:
    """Return a measure of an operation's memory: 1, plus the number of ranges, positions and topics that it watches."""
    match wanted:
        case Replicated():
            return 1 + len(wanted.ranges)
        case Records():
            return 1 + len(wanted.positions) + len(wanted.topics)
        case _:
            return 1


def _check_offsets(wanted: WaitCondition) -> None:
    match wanted:
        case Replicated():
            are_legal = all(0 <= range_.start < range_.end <= OFFSETS_END for range_ in wanted.ranges)
        case Records():
            are_legal = all(0 <= position.offset <= OFFSETS_END for position in wanted.positions)
        case _:
            are_legal = True
    if not are_legal:
        raise InvalidInput(f"an offset is in [0, {OFFSETS_END}], and a range is not empty; found one that is not so")


def _is_done_now(state: ClusterState, operation: Operation) -> bool:
    wanted = operation.wanted
    return isinstance(wanted, Replicated | Records) and is_done(state, wanted)


def _wanting(partition: Partition) -> Iterator[StoreId]:
    """Yield the stores whose replica lacks records or is not in the ISR."""
    value = partition.replication
    for store, end in zip(value.replicas, value.log_ends, strict=True):
        if end < value.next_offset or store not in value.isr:
            yield store


def _keys_of(wanted: WaitCondition) -> tuple[set[TopicPartition], set[TopicId]]:
    """Return the partitions and topics whose changes may complete the operation."""
    match wanted:
        case Replicated():
            partitions = {TopicPartition(range_.topic_id, range_.partition) for range_ in wanted.ranges}
            return partitions, {key.topic_id for key in partitions}  # min.insync.replicas may have changed
        case Records():
            partitions = {TopicPartition(position.topic_id, position.partition) for position in wanted.positions}
            return partitions, {known.topic_id for known in wanted.topics}
        case _:
            return set(), set()


def _discard(index: dict[K, set[Operation]], key: K, operation: Operation) -> None:
    operations = index[key]
    operations.discard(operation)
    if not operations:
        del index[key]
