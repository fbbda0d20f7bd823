"""The recovery point of a store (F-03), and which of the objects that it holds lie above it.

Objects are numbered by the chain in order, and an object is named only once it is durable on its holders: the store has
synced the file and its folder, or has answered the PUT. So a process that dies leaves no half-written object that the
chain names, and every end of a process is a clean one. Only the store itself can lose or damage what it had. Kafka's
recovery point says what was flushed; this one says what was read since, and found whole:

    recovery point = P  <=>  each object that the store holds with a number below P was read and is whole

A store that was fenced, lost something, or came back has a new registration. That was no clean end: what was known of
it counts no more, P = 0. Under the same registration, only objects from P on have to be read: if there are none,
nothing. What a store gets with a small number, because it got a replica of older records, sets P back to that number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from sparklog.core.column_blocks import Column
from sparklog.core.held_slices import Holding
from sparklog.core.partition_change import PartitionChange
from sparklog.core.plan import named_object
from sparklog.core.records import At
from sparklog.core.slice_table import SliceColumns
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import (
    ObjectNumber,
    Offset,
    OffsetRange,
    Slice,
    StoreId,
    TopicPartition,
)

Numbers = npt.NDArray[np.int64]


class ReplicaToCheck(msgspec.Struct, frozen=True):
    """Objects of a replica that are to be read, ascending. An object of several partitions is listed with the first.

    `lacking` are those that the replica does not hold: what is left of them there may be damaged, and would be taken
    for a copy.
    """

    topic_partition: TopicPartition
    topic: str
    numbers: tuple[ObjectNumber, ...]
    lacking: tuple[ObjectNumber, ...]
    records: int
    size_bytes: int


def replicas_to_check(
    state: ClusterState, store: StoreId, topics: Iterable[Topic], *, everything: bool
) -> Iterator[ReplicaToCheck]:
    """What is to be read of each replica on the store: from its recovery point on, or everything; and what it lacks."""
    start = 0 if everything else state.stores[store].recovery_point
    taken: Numbers = np.zeros(0, dtype=np.int64)
    for topic in topics:
        for partition in state.partitions_of(topic):
            if store not in partition.replication.replicas:
                continue
            slices, held = _slices_of(state, store, partition)
            chosen = ~held | (slices["object_number"] >= start)
            numbers = np.setdiff1d(slices["object_number"][chosen & held], taken)
            lacking = np.setdiff1d(slices["object_number"][~held], [*taken, *numbers])
            if not len(numbers) and not len(lacking):
                continue
            taken = np.union1d(taken, [*numbers, *lacking])
            yield ReplicaToCheck(
                TopicPartition(topic.topic_id, partition.partition),
                topic.name,
                tuple(map(ObjectNumber, numbers.tolist())),
                tuple(map(ObjectNumber, lacking.tolist())),
                int(slices["records"][chosen].sum()),
                int(slices["length"][chosen].sum()),
            )


def recovery_point_after(state: ClusterState, store: StoreId, whole: Collection[int]) -> ObjectNumber:
    """How far the recovery point of the store can rise if the objects `whole` were read, and are whole.

    That is up to the first object that is not among them, held or not: what a replica lacks will still be copied.
    """
    point = state.stores[store].recovery_point
    read = np.fromiter(whole, dtype=np.int64, count=len(whole))
    to = int(state.next_object_number)
    for partition in state.partitions.values():
        if store in partition.replication.replicas:
            numbers = _slices_of(state, store, partition)[0]["object_number"]
            unread = np.setdiff1d(numbers[numbers >= point], read)
            to = min(to, int(unread[0])) if len(unread) else to
    return ObjectNumber(max(to, point))


def recovered_end(state: ClusterState, store: StoreId, partition: Partition) -> Offset:
    """The offset up to which a replica is known to be whole, as Kafka counts its recovery point."""
    slices, held = _slices_of(state, store, partition)
    unread = np.flatnonzero(~held | (slices["object_number"] >= state.stores[store].recovery_point))
    if not len(unread):
        return partition.replication.log_end(store)
    return max(partition.log_start, Offset(slices["start"].item(unread[0])))


def slices_by_object(state: ClusterState, numbers: Collection[ObjectNumber]) -> dict[ObjectNumber, list[Slice]]:
    """The slices that lie in each of these objects, in one pass over the partitions of their topics."""
    found: dict[ObjectNumber, list[Slice]] = {number: [] for number in numbers}
    wanted = np.fromiter(found, dtype=np.int64, count=len(found))
    objects = (state.objects.get(number) for number in found)
    for topic_id in sorted({object_.topic_id for object_ in objects if object_ is not None}):
        topic = state.topics.get(topic_id)
        for partition in () if topic is None else state.partitions_of(topic):
            key = TopicPartition(partition.topic_id, partition.partition)
            slices = state.slices.find(key, _whole_log(partition))
            for row in np.flatnonzero(np.isin(slices.columns["object_number"], wanted)).tolist():
                (slice_,) = slices.rows(row, row + 1)
                found[slice_.object_number].append(slice_)
    return found


def holders_of(state: ClusterState, slice_: Slice) -> tuple[StoreId, ...]:
    """The stores that hold a slice of the state, in the order in which a reader tries them."""
    partition = state.partitions[TopicPartition(slice_.topic_id, slice_.partition)]
    return Holding(state, partition).of(slice_.end, named_object(state, slice_).object.holders)


def held_slices(
    state: ClusterState, store: StoreId, numbers: Collection[ObjectNumber]
) -> dict[ObjectNumber, list[Slice]]:
    """The slices in each of these objects of which the chain says that the store holds them, if there are any."""
    found = {
        number: [slice_ for slice_ in slices if store in holders_of(state, slice_)]
        for number, slices in slices_by_object(state, numbers).items()
    }
    return {number: slices for number, slices in found.items() if slices}


def partitions_of(slices: Iterable[Slice]) -> list[TopicPartition]:
    """The partitions of these slices, each once."""
    return sorted({TopicPartition(slice_.topic_id, slice_.partition) for slice_ in slices})


def note_new_replicas(state: ClusterState, changes: Iterable[PartitionChange], at: At) -> None:
    """Set back the recovery points of stores that get a replica with these changes: its objects will be copied there.

    To be called before the changes are applied.
    """
    for change in changes:
        if change.replicas is msgspec.UNSET:
            continue
        partition = state.partitions[change.topic_partition]
        new = [store for store in change.replicas if store not in partition.replication.replicas]
        if not new:
            continue
        slices = state.slices.find(change.topic_partition, _whole_log(partition)).columns
        if not len(slices["object_number"]):
            continue
        first = ObjectNumber(int(slices["object_number"].min()))
        for store in new:
            known = state.stores[store]
            point = min(known.recovery_point, first)
            state.stores[store] = msgspec.structs.replace(known, recovery_point=point, grew_at=at.n)


def _slices_of(
    state: ClusterState, store: StoreId, partition: Partition
) -> tuple[dict[str, Column], npt.NDArray[np.bool_]]:
    """The slices of a partition, and which of them its replica on the store holds."""
    key = TopicPartition(partition.topic_id, partition.partition)
    slices = state.slices.find(key, _whole_log(partition))
    held = slices.columns["end"] <= partition.replication.log_end(store)
    above = np.flatnonzero(~held)
    if len(above):
        held[above] = _held_by_name(state, store, partition, slices.rows(int(above[0]), len(slices)))
    return dict(slices.columns), held


def _held_by_name(state: ClusterState, store: StoreId, partition: Partition, slices: SliceColumns) -> list[bool]:
    holding = Holding(state, partition)
    held = []
    for slice_ in slices:
        object_ = state.objects.get(slice_.object_number)
        held.append(object_ is not None and store in holding.of(slice_.end, object_.holders))
    return held


def _whole_log(partition: Partition) -> OffsetRange:
    return OffsetRange(partition.log_start, partition.next_offset)
