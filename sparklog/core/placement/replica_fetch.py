"""Plans fetches for the replicas on a store: the missing objects, the stores to copy them from, and the LEOs to report.

A replica is filled from its log end on, in the order of offsets. A plan is limited in objects and bytes per source, and
looks up slices one window at a time. So it costs the same however much is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from sparklog.core.commands import ReplicaReport
from sparklog.core.placement.held_slices import Holding, named_object
from sparklog.core.replication.isr import may_join
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import NewObject, ObjectNumber, Offset, OffsetRange, StoreId, TopicPartition


class FetchLimits(msgspec.Struct, frozen=True):
    """Limits of a fetch plan: the number of objects and their bytes from each source.

    The plan ends early after `in_vain` partitions whose sources are busy or already have a full batch.
    """

    objects: int = 128
    size_bytes: int = 64 << 20
    in_vain: int = 64


class ObjectToFetch(msgspec.Struct, frozen=True, array_like=True):
    """An object that a replica of `topic_partition` needs, and the stores to get it from, `sources`, in this order.

    Without `sources`, only the replica's own store can have the object: look for it there.
    """

    number: ObjectNumber
    topic_partition: TopicPartition
    topic: str
    object: NewObject
    sources: tuple[StoreId, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the object and its index."""
        return self.object.total_bytes


class FetchBatch(msgspec.Struct, frozen=True):
    """Objects to fetch from one source for these partitions, in the order of offsets within each partition."""

    source: StoreId
    partitions: tuple[TopicPartition, ...]
    objects: tuple[ObjectToFetch, ...]


@dataclass(slots=True)
class UnderWay:
    """Fetches in progress, which a new plan leaves out.

    `checked`: objects that are on the store but not reported yet. `copying`: objects that are being copied to the
    store. `partitions`: partitions of unfinished batches, or that wait after an error. `busy`: sources with an
    unfinished batch. `failing`: sources that wait after an error. A plan starts after the partition `after`, so that
    every partition gets its turn.
    """

    checked: Collection[ObjectNumber] = ()
    copying: Collection[ObjectNumber] = ()
    partitions: Collection[TopicPartition] = ()
    busy: Collection[StoreId] = ()
    failing: Collection[StoreId] = ()
    after: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedReplicas:
    """Partitions whose replicas on a store lack slices (`behind`) or may join the ISR (`joinable`), ascending."""

    behind: Sequence[TopicPartition]
    joinable: Sequence[TopicPartition]


def unfinished_replicas(state: ClusterState, store: StoreId) -> UnfinishedReplicas:
    """The unfinished replicas on the store. A replica that is being removed counts until it is gone."""
    behind: list[TopicPartition] = []
    joinable: list[TopicPartition] = []
    for partition in state.partitions.values():
        value = partition.replication
        if store not in value.replicas:
            continue
        if value.log_end(store) < value.next_offset:
            behind.append(_key(partition))
        if may_join(value, store):
            joinable.append(_key(partition))
    return UnfinishedReplicas(sorted(behind), sorted(joinable))


def lag_bytes(state: ClusterState, store: StoreId, partitions: Collection[TopicPartition]) -> int:
    """The stored bytes that the replicas of these partitions on the store lack."""
    lag = 0
    for key in partitions:
        value = state.partitions[key].replication
        missing = OffsetRange(value.log_end(store), value.next_offset)
        lag += int(state.slices.find(key, missing).columns["length"].sum())
    return lag


def plan_fetch(
    state: ClusterState,
    store: StoreId,
    behind: Sequence[TopicPartition],
    under_way: UnderWay,
    limits: FetchLimits | None = None,
) -> tuple[list[FetchBatch], TopicPartition | None]:
    """Plan a batch for each source that is not busy. Returns the batches, and `UnderWay.after` for the next plan.

    `behind`: the partitions whose replica on the store lacks slices, ascending. `under_way`: the fetches in progress. A
    partition is fetched from one source at a time: the first store that holds its first missing slice. An object that
    several partitions need is fetched once.
    """
    limits = limits or FetchLimits()
    copying = set(under_way.copying)
    batches: dict[StoreId, _GrowingBatch] = {}
    last, in_vain = under_way.after, 0
    for key in _rotated(behind, under_way.after):
        if key in under_way.partitions:
            continue
        run = _SourceRun(state, state.partitions[key], store, under_way, copying)
        if run.source is None:
            continue
        if run.source not in under_way.busy:
            batch = batches.setdefault(run.source, _GrowingBatch(limits))
            if batch.room:
                batch.take(key, run, copying)
                last = key
                continue
        in_vain += 1
        if in_vain == limits.in_vain:
            last = key
            break
    return [
        FetchBatch(source, tuple(batch.partitions), tuple(batch.objects))
        for source, batch in batches.items()
        if batch.objects
    ], last


def replica_reports(
    state: ClusterState, store: StoreId, at: UnfinishedReplicas, checked: Collection[ObjectNumber]
) -> tuple[ReplicaReport, ...]:
    """Return the reports that the store's agent may make on this state.

    `at`: the unfinished replicas. `checked`: objects known to be on the store. A log end rises past consecutive slices
    as long as their objects are `checked`. A replica that may join the ISR is reported even if its log end does not
    rise.
    """
    joinable = set(at.joinable)
    reports = []
    for key in sorted({*at.behind, *at.joinable} if checked else joinable):
        value = state.partitions[key].replication
        log_end = value.log_end(store)
        end = _checked_end(state, key, log_end, checked)
        if end > log_end or key in joinable:
            reports.append(ReplicaReport(key.topic_id, key.partition, value.leader_epoch, value.version, end))
    return tuple(reports)


def _checked_end(
    state: ClusterState, key: TopicPartition, log_end: Offset, checked: Collection[ObjectNumber]
) -> Offset:
    for slice_ in state.slices.walk(key, OffsetRange(log_end, state.partitions[key].next_offset)):
        if slice_.object_number not in checked:
            break
        log_end = slice_.end
    return log_end


def _rotated(keys: Sequence[TopicPartition], after: TopicPartition | None) -> Sequence[TopicPartition]:
    if after is None:
        return keys
    at = bisect_right(keys, after)
    return [*keys[at:], *keys[:at]]


class _SourceRun:
    """The objects that a partition needs next, from the one `source` that holds the first of them."""

    def __init__(
        self,
        state: ClusterState,
        partition: Partition,
        store: StoreId,
        under_way: UnderWay,
        copying: Collection[ObjectNumber],
    ) -> None:
        self._state = state
        self._partition = partition
        self._store = store
        self._under_way = under_way
        self._holding = Holding(state, partition)
        self._topic = state.topics[partition.topic_id].name
        missing = OffsetRange(partition.replication.log_end(store), partition.next_offset)
        self._slices = state.slices.walk(_key(partition), missing)
        self._next = self._following(copying)
        self.source = None if self._next is None else self._source_of(self._next)

    def objects(self, copying: Collection[ObjectNumber]) -> Iterator[ObjectToFetch]:
        """Yield the objects in order, up to the first one that the source does not hold."""
        next_ = self._next
        while next_ is not None and (self.source in next_.sources or self._source_of(next_) == self.source):
            others = tuple(store for store in next_.sources if store != self.source)
            first = () if self.source == self._store else (self.source,)
            yield msgspec.structs.replace(next_, sources=(*first, *others))
            next_ = self._following(copying)

    def _following(self, copying: Collection[ObjectNumber]) -> ObjectToFetch | None:
        """Return the next object that is neither checked nor being copied.

        Returns None if none is left, or if now no store can provide that object, not even the replica's own.
        """
        for slice_ in self._slices:
            number = slice_.object_number
            if number in self._under_way.checked or number in copying:
                continue
            named = named_object(self._state, slice_).object
            holders = self._holding.of(slice_.end, named.holders)
            sources = tuple(
                holder for holder in holders if holder != self._store and holder not in self._under_way.failing
            )
            if not sources and self._store not in holders:
                return None
            return ObjectToFetch(number, _key(self._partition), self._topic, named, sources)
        return None

    def _source_of(self, wanted: ObjectToFetch) -> StoreId:
        return wanted.sources[0] if wanted.sources else self._store


@dataclass(slots=True)
class _GrowingBatch:
    """A batch to which a plan still adds objects."""

    limits: FetchLimits
    partitions: list[TopicPartition] = field(default_factory=list)
    objects: list[ObjectToFetch] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def room(self) -> bool:
        return len(self.objects) < self.limits.objects and self.size_bytes < self.limits.size_bytes

    def take(self, key: TopicPartition, run: _SourceRun, copying: set[ObjectNumber]) -> None:
        """Add objects of the partition `key` while there is room, and add their numbers to `copying`."""
        self.partitions.append(key)
        for wanted in run.objects(copying):
            self.objects.append(wanted)
            copying.add(wanted.number)
            self.size_bytes += wanted.size_bytes
            if not self.room:
                return


def _key(partition: Partition) -> TopicPartition:
    return TopicPartition(partition.topic_id, partition.partition)
