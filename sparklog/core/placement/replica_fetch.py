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
    """Limits of a fetch plan. A batch from one source is full once it has `objects` objects or `size_bytes` bytes.

    A plan ends early when it has passed over `in_vain` partitions, because their sources are busy or have full batches.
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
    store. `partitions`: partitions with an unfinished batch, or in a pause after an error. `busy`: sources with an
    unfinished batch. `failing`: sources in a pause after an error. `after`: the partition at which the last plan
    stopped; the next plan starts with the one after it, so that every partition gets its turn.
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
    """Return the partitions whose replica on the store is unfinished. A replica that a move removes counts as well."""
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
    """Plan a batch for each source that is not busy. Returns the batches, and the `UnderWay.after` of the next plan.

    `behind`: the partitions whose replica on the store lacks slices, ascending. `under_way`: the fetches in progress. A
    batch has objects of a partition only from one source: the first usable store that holds the partition's next
    missing slice. An object that several partitions need is fetched once.
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
    """Return the reports that the store's agent can send: each raises a replica's LEO or lets it join the ISR.

    `at`: the unfinished replicas. `checked`: objects known to be on the store. The LEO rises past consecutive slices as
    long as their objects are in `checked`. A replica that may join the ISR is reported even if its LEO does not rise.
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
    """The objects that a partition needs next and that one store, `source`, holds.

    `source` holds the first of them. It is None if the partition needs none now, or if no usable store holds the first.
    """

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

        Returns None if there is none, or if no store holds it except sources in a pause after an error.
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
