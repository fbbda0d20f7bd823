"""Objects that stores should hold, with the slices in them: the input of `verify`, one window of objects at a time.

A state may have ten million slices. About WINDOW_SLICES of them at a time are turned into Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from sparklog.core.placement.held_slices import Holding, held_by_store
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.tables.column_blocks import Block, Column
from sparklog.core.tables.slice_table import SliceColumns, split_keys
from sparklog.core.types import (
    NamedObject,
    ObjectNumber,
    Offset,
    OffsetRange,
    PartitionIndex,
    Slice,
    StoreId,
    TopicId,
    TopicPartition,
)

WINDOW_OBJECTS: Final = 8_192
WINDOW_SLICES: Final = 65_536
_CACHED_PARTITIONS: Final = 10_000


class Share(msgspec.Struct, frozen=True):
    """A part of all objects: those whose number modulo `of` is `part`. A run of `verify` may read one such part."""

    part: int = 0
    of: int = 1


class ObjectsWanted(msgspec.Struct, frozen=True):
    """The objects to verify: those of these topics (and of these partitions, if any are given), on these stores.

    `share`: only this part of them.
    """

    topics: frozenset[TopicId]
    stores: frozenset[StoreId]
    partitions: frozenset[PartitionIndex] = frozenset()
    share: Share = Share()


class ObjectToVerify(msgspec.Struct, frozen=True, array_like=True):
    """An object to verify, and its slices ordered by partition and offset.

    `all_stores`: every store that should have the object. `stores`: those of `all_stores` on which the object is to be
    verified, because `ObjectsWanted.stores` has them as well.
    """

    named: NamedObject
    topic: str
    slices: tuple[Slice, ...]
    stores: tuple[StoreId, ...]
    all_stores: tuple[StoreId, ...]


def objects_to_verify(state: ClusterState, wanted: ObjectsWanted) -> Iterator[ObjectToVerify]:
    """Yield, in the order of their numbers, the objects of `wanted` that a store of `wanted` should have, each once.

    Retired objects are left out.
    """
    blocks = state.slices.in_blocks().blocks
    holdings = _Holdings(state)
    low, width = 0, WINDOW_OBJECTS
    while low < state.next_object_number:
        rows = [_rows(block, low, low + width, wanted) for block in blocks]
        if sum(map(len, rows)) > WINDOW_SLICES and width > 1:
            width //= 2
            continue
        by_number: dict[ObjectNumber, list[Slice]] = {}
        for block, at in zip(blocks, rows, strict=True):
            for slice_ in SliceColumns({name: column[at] for name, column in block.columns.items()}):
                by_number.setdefault(slice_.object_number, []).append(slice_)
        for number in sorted(by_number):
            object_ = _to_verify(state, holdings, number, by_number[number], wanted)
            if object_ is not None:
                yield object_
        low += width
        width = min(2 * width, WINDOW_OBJECTS)


class ObjectSums(msgspec.Struct, frozen=True):
    """Sums over the objects of a topic that a store should hold: objects, records, and bytes including indexes.

    `reads`: the number of ranged reads needed to read the objects, without their indexes.
    """

    objects: int
    records: int
    size_bytes: int
    reads: int


def sums_to_verify(
    state: ClusterState, wanted: ObjectsWanted, read_bytes: int
) -> Iterator[tuple[StoreId, Topic, ObjectSums]]:
    """Yield, by store and topic, the sums of what `objects_to_verify` yields, without a Python object for each.

    A ranged read is `read_bytes` long. A store and topic without any object is left out.
    """
    for store in sorted(wanted.stores):
        for topic_id in sorted(wanted.topics):
            topic = state.topics[topic_id]
            parts = [_held(state, store, partition, wanted) for partition in state.partitions_of(topic)]
            numbers = np.sort(np.concatenate([part for part, _ in parts]))
            numbers = numbers[np.diff(numbers, prepend=-1) > 0]  # np.unique hashes, which takes ten times as long
            if not len(numbers):
                continue
            size_bytes, index_bytes = state.objects.sizes(numbers)
            yield (
                store,
                topic,
                ObjectSums(
                    len(numbers),
                    sum(records for _, records in parts),
                    int(size_bytes.sum() + index_bytes.sum()),
                    int(np.maximum(1, -(-size_bytes // read_bytes)).sum()),
                ),
            )


def _held(state: ClusterState, store: StoreId, partition: Partition, wanted: ObjectsWanted) -> tuple[Column, int]:
    """Return the object number of each slice of the partition that the store holds, and the sum of their records.

    Slices whose object is not in `wanted.share` are left out. The result is empty and 0 if the store has no replica of
    the partition, or if `wanted.partitions` leaves it out.
    """
    if store not in partition.replication.replicas or (
        wanted.partitions and partition.partition not in wanted.partitions
    ):
        return np.zeros(0, dtype=np.int64), 0
    slices, held = held_by_store(state, store, partition)
    chosen = held & (slices["object_number"] % wanted.share.of == wanted.share.part)
    return slices["object_number"][chosen], int(slices["records"][chosen].sum())


def slices_still_held(state: ClusterState, object_: ObjectToVerify, store: StoreId) -> tuple[Slice, ...]:
    """Return those slices of `object_` that the store should still hold according to `state`.

    `state` is newer than the state from which `object_` was made. Because of retention, a rewrite, an election, a move
    or a reported loss since then, the store may lack the other slices.
    """
    holdings, named = _Holdings(state), object_.named
    return tuple(
        slice_ for slice_ in object_.slices if _is_named(state, slice_) and store in holdings.of(slice_, named)
    )


def _is_named(state: ClusterState, slice_: Slice) -> bool:
    """True if the log still has the first offset of `slice_`, a slice of an older state, and in the same object."""
    key = TopicPartition(slice_.topic_id, slice_.partition)
    if key not in state.partitions:
        return False
    now = state.slices.find(key, OffsetRange(slice_.start, Offset(slice_.start + 1)))
    return slice_.object_number in now.columns["object_number"].tolist()


def _rows(block: Block, low: int, high: int, wanted: ObjectsWanted) -> Column:
    """Return the indexes of the rows that are not removed, match `wanted`, and have object numbers in [low, high)."""
    number, key = block.columns["object_number"], block.columns["partition_key"]
    inside = (number >= low) & (number < high)
    if block.dead is not None:
        inside &= ~block.dead
    rows = np.flatnonzero(inside)
    topic_ids, partitions = split_keys(key[rows])
    chosen = np.isin(topic_ids, list(wanted.topics))
    if wanted.partitions:
        chosen &= np.isin(partitions, list(wanted.partitions))
    if wanted.share.of > 1:
        chosen &= number[rows] % wanted.share.of == wanted.share.part
    return rows[chosen]


class _Holdings:
    """Looks up the stores that hold a slice. Keeps what it has computed for up to _CACHED_PARTITIONS partitions."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._known: dict[TopicPartition, Holding] = {}

    def of(self, slice_: Slice, named: NamedObject) -> tuple[StoreId, ...]:
        key = TopicPartition(slice_.topic_id, slice_.partition)
        holding = self._known.get(key)
        if holding is None:
            if len(self._known) >= _CACHED_PARTITIONS:
                self._known.clear()
            holding = self._known[key] = Holding(self._state, self._state.partitions[key])
        return holding.of(slice_.end, named.object.holders)


def _to_verify(
    state: ClusterState, holdings: _Holdings, number: ObjectNumber, slices: list[Slice], wanted: ObjectsWanted
) -> ObjectToVerify | None:
    object_ = state.objects.get(number)
    if object_ is None:
        raise AssertionError(f"slice {slices[0]} names an object that the state does not have")
    named = NamedObject(number, object_)
    slices.sort(key=lambda slice_: (slice_.partition, slice_.start))
    holders = tuple(dict.fromkeys(store for slice_ in slices for store in holdings.of(slice_, named)))
    stores = tuple(store for store in holders if store in wanted.stores)
    if not stores:
        return None
    return ObjectToVerify(named, state.topics[object_.topic_id].name, tuple(slices), stores, holders)
