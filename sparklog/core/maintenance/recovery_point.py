"""The recovery point of a store (F-03), and the objects on the store that lie above it.

Objects are numbered by the chain in order, and an object is named only once it is durable on its holders: the store has
synced the file and its folder, or has answered the PUT. So a process that dies leaves no half-written object that the
chain names: every shutdown is a clean one. Only the store itself can lose or damage an object. In Kafka, everything
below the recovery point was flushed. Here, every object below it was read back from the store and found undamaged:

    recovery point = P  <=>  each object that the store holds with a number below P was read and is whole

A store that was fenced, lost something, or came back has a new registration. Earlier reads don't count for it, so P
begins again at 0. Under the same registration, only objects from P on have to be read. If the store gets a replica of
existing records, it also gets objects with smaller numbers, so P falls to the smallest of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from sparklog.core.placement.held_slices import held_by_store, whole_log
from sparklog.core.records import At
from sparklog.core.replication.partition_change import PartitionChange
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import (
    ObjectNumber,
    Offset,
    StoreId,
    TopicPartition,
)

Numbers = npt.NDArray[np.int64]


class ReplicaToCheck(msgspec.Struct, frozen=True):
    """The objects of a replica that a check reads, `numbers`, and those that it fetches, `lacking`; both ascending.

    According to the chain, the replica lacks the objects in `lacking`. They are fetched because a damaged file on the
    store could be taken for a copy of such an object. Both are columns, because there may be millions of objects.
    `records` and `size_bytes` are sums over the replica's slices in these objects, without indexes.
    """

    topic_partition: TopicPartition
    topic: str
    numbers: Numbers
    lacking: Numbers
    records: int
    size_bytes: int


def replicas_to_check(
    state: ClusterState, store: StoreId, topics: Iterable[Topic], *, everything: bool
) -> Iterator[ReplicaToCheck]:
    """Yield, for each replica of these topics on the store, the objects to read and those that the replica lacks.

    The objects to read have numbers from the recovery point on; with `everything`, all objects are read. An object of
    several replicas is listed only once. Replicas with nothing to list are left out.
    """
    start = 0 if everything else state.stores[store].recovery_point
    for topic in topics:
        replicas = [
            _to_check(state, store, topic, partition, start)
            for partition in state.partitions_of(topic)
            if store in partition.replication.replicas
        ]
        yield from _each_object_once(replicas)


def _to_check(state: ClusterState, store: StoreId, topic: Topic, partition: Partition, start: int) -> ReplicaToCheck:
    slices, held = held_by_store(state, store, partition)
    chosen = ~held | (slices["object_number"] >= start)
    return ReplicaToCheck(
        TopicPartition(topic.topic_id, partition.partition),
        topic.name,
        np.unique(slices["object_number"][chosen & held]),
        np.unique(slices["object_number"][~held]),
        int(slices["records"][chosen].sum()),
        int(slices["length"][chosen].sum()),
    )


def _each_object_once(replicas: Sequence[ReplicaToCheck]) -> Iterator[ReplicaToCheck]:
    """Yield the replicas of a topic on one store, with each object listed only once, because a check reads it once.

    If one replica holds an object that another one lacks, the object is listed only as held. Replicas that are left
    without objects are dropped.
    """
    columns = [replica.numbers for replica in replicas] + [replica.lacking for replica in replicas]
    if not columns:
        return
    is_first = np.zeros(sum(map(len, columns)), dtype=np.bool_)
    is_first[np.unique(np.concatenate(columns), return_index=True)[1]] = True
    parts = np.split(is_first, np.cumsum([len(column) for column in columns])[:-1])
    lists = [column[first] for column, first in zip(columns, parts, strict=True)]
    for replica, numbers, lacking in zip(replicas, lists[: len(replicas)], lists[len(replicas) :], strict=True):
        if len(numbers) or len(lacking):
            yield msgspec.structs.replace(replica, numbers=numbers, lacking=lacking)


def recovery_point_after(state: ClusterState, store: StoreId, whole: Collection[int]) -> ObjectNumber:
    """Return the recovery point to which the store's present one may rise once the objects `whole` were found whole.

    Considers the objects from the present recovery point on that belong to the store's replicas, even those that a
    replica still lacks, because they will be copied. Returns the smallest of their numbers that is not in `whole`. If
    all are in `whole`, returns the number that the chain gives to its next object.
    """
    point = state.stores[store].recovery_point
    read = np.append(np.sort(np.fromiter(whole, dtype=np.int64, count=len(whole))), -1)  # -1: unlike any number
    to = int(state.next_object_number)
    for key, partition in state.partitions.items():
        if store in partition.replication.replicas:
            numbers = state.slices.find(key, whole_log(partition)).columns["object_number"]
            numbers = np.sort(numbers[numbers >= point])
            unread = numbers[read[np.searchsorted(read[:-1], numbers)] != numbers]
            to = min(to, int(unread[0])) if len(unread) else to
    return ObjectNumber(max(to, point))


def recovered_end(state: ClusterState, store: StoreId, partition: Partition) -> Offset:
    """Return the offset up to which the replica on the store was read and is whole: Kafka's recovery point."""
    slices, held = held_by_store(state, store, partition)
    unread = np.flatnonzero(~held | (slices["object_number"] >= state.stores[store].recovery_point))
    if not len(unread):
        return partition.replication.log_end(store)
    return max(partition.log_start, Offset(slices["start"].item(unread[0])))


def note_new_replicas(state: ClusterState, changes: Iterable[PartitionChange], at: At) -> None:
    """Lower the recovery points of stores that get a replica by these changes, because older objects will be copied.

    Changes these stores in `state`, including their `grew_at`. Call this before the changes are applied.
    """
    for change in changes:
        if change.replicas is msgspec.UNSET:
            continue
        partition = state.partitions[change.topic_partition]
        new = [store for store in change.replicas if store not in partition.replication.replicas]
        if not new:
            continue
        slices = state.slices.find(change.topic_partition, whole_log(partition)).columns
        if not len(slices["object_number"]):
            continue
        first = ObjectNumber(int(slices["object_number"].min()))
        for store in new:
            known = state.stores[store]
            point = min(known.recovery_point, first)
            state.stores[store] = msgspec.structs.replace(known, recovery_point=point, grew_at=at.n)
