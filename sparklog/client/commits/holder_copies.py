"""Copies objects of a refused write to stores that need and lack them, so that the next attempt can commit it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

import msgspec

from sparklog.core.commands import Append
from sparklog.core.decide.append import min_isr_of
from sparklog.core.errors import SparklogError
from sparklog.core.replication.replica_append import Acks
from sparklog.core.state import ClusterState
from sparklog.core.types import Holder, NewObject, StoreId, TopicId, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.log.objects.object_copy import copy_object
from sparklog.log.write.store_lanes import StoreLane, StoreLanes, StoreWork
from sparklog.storage.keys import data_key
from sparklog.storage.object_store import ObjectStore


def with_present_holders(state: ClusterState, command: Append) -> Append:
    """Return the command without holders whose store was fenced, removed or registered again since the upload.

    If that would leave an object without any holder, the object keeps all its holders, so that the error of the commit
    can name them.
    """
    registrations = state.registrations()
    objects = []
    for named in command.objects:
        present = tuple(holder for holder in named.holders if _is_present(holder, registrations))
        objects.append(msgspec.structs.replace(named, holders=present or named.holders))
    return msgspec.structs.replace(command, objects=tuple(objects))


def lacking(state: ClusterState, command: Append) -> dict[StoreId, list[int]]:
    """For each store, the objects that it must get before the write can be committed: indexes in `command.objects`.

    The leader's store of a partition needs all of the command's objects with records of that partition. In a push with
    `acks=all`, if too few in-sync stores have all these objects, every store of the ISR needs them.
    """
    by_partition: dict[TopicPartition, set[int]] = {}
    for slice_ in command.slices:
        key = TopicPartition(slice_.topic_id, slice_.partition)
        by_partition.setdefault(key, set()).add(slice_.object_index)
    registrations = state.registrations()
    holders = [
        {holder.store for holder in named.holders if _is_present(holder, registrations)} for named in command.objects
    ]
    wanted: dict[StoreId, set[int]] = {}
    for key, numbers in by_partition.items():
        partition = state.partitions.get(key)
        if partition is None or partition.replication.leader is None:
            continue
        value = partition.replication
        needed = {value.leader}
        if command.acks is Acks.ALL and not command.pull:
            in_sync = [store for store in value.isr if all(store in holders[number] for number in numbers)]
            if len({value.leader, *in_sync}) < value.required_isr(min_isr_of(state, key.topic_id)):
                needed.update(value.isr)
        for store in needed:
            if store is not None and (missing := {number for number in numbers if store not in holders[number]}):
                wanted.setdefault(store, set()).update(missing)
    return {store: sorted(numbers) for store, numbers in sorted(wanted.items())}


class _Copying(StoreWork):
    """The copies of `objects` to one store. `copy_one` copies one of them, and returns its key.

    `ended` becomes true once all objects are copied, and the store still has the registered INCARNATION.
    """

    def __init__(
        self,
        lanes: StoreLanes,
        lane: StoreLane,
        objects: Sequence[NewObject],
        copy_one: Callable[[NewObject, ObjectStore], str],
    ) -> None:
        super().__init__(lanes, lane)
        self.ended = False
        self._objects = objects
        self._copy_one = copy_one

    def perform(self) -> Generator[None]:
        target = self.lanes.opened(self.lane)
        copied = []
        for named in self._objects:
            copied.append(self._copy_one(named, target))
            yield
        check_incarnation(target, self.lane.incarnation, copied)
        with self.lanes.lock:
            self.ended = not self.is_given_up
            self.lanes.note_progress()


class HolderCopies:
    """Copies objects of one command to several stores at the same time, with one thread for each store.

    `failures`: for each store that did not get all copies in the last `bring`, the reason.
    """

    def __init__(self, stores: Stores, state: ClusterState, names: Mapping[TopicId, str]) -> None:
        self.failures: dict[StoreId, str] = {}
        self._stores = stores
        self._state = state
        self._names = names

    def bring(self, command: Append, wanted: Mapping[StoreId, list[int]], timeout_ms: int) -> Append:
        """Copy objects of the command to stores. Returns the command with each store that got all copies as a holder.

        `wanted`: for each store, the objects that it lacks, as indexes in `command.objects` (see the function
        `lacking`). Waits at most `timeout_ms`; a store that still lacks a copy then does not become a holder.
        """
        incarnations = {store.store: store.incarnation for store in self._state.stores.values()}
        with StoreLanes(self._stores, incarnations, timeout_ms) as lanes:
            copies = [
                _Copying(lanes, lane, [command.objects[number] for number in wanted[lane.store]], self._copy_one)
                for lane in lanes.of(wanted)
            ]
            for copying in copies:
                lanes.begin(copying, here=False)
            lanes.wait(copies, lambda copying: copying.ended, lambda copying: True)
            self.failures = lanes.failures()
        registrations = self._state.registrations()
        objects = list(command.objects)
        for copying in copies:
            store = copying.lane.store
            for number in wanted[store] if copying.ended else ():
                others = [other for other in objects[number].holders if other.store != store]
                holder = Holder(store, registrations[store])
                objects[number] = msgspec.structs.replace(objects[number], holders=(*others, holder))
        return msgspec.structs.replace(command, objects=tuple(objects))

    def _copy_one(self, named: NewObject, target: ObjectStore) -> str:
        """Copy an object to `target` from the first holder that can provide it. Returns the object's key.

        Raises the error of the first holder if none can.
        """
        key = data_key(named, self._names[named.topic_id])
        failures = []
        for holder in named.holders:
            try:
                copy_object(self._stores.get(holder.store), target, key, named)
                return key
            except SparklogError as error:
                failures.append(error)
        raise failures[0]


def _is_present(holder: Holder, registrations: Mapping[StoreId, int]) -> bool:
    return registrations.get(holder.store) == holder.registration
