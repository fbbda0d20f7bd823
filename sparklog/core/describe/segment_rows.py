"""Rows of the segments of a partition, one for each slice of its log, with the same fields wherever they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sparklog.core.describe.topic_rows import PartitionName
from sparklog.core.placement.held_slices import Holding
from sparklog.core.state import ClusterState, Partition
from sparklog.core.tables.slice_table import SliceColumns
from sparklog.core.types import Int32, LeaderEpoch, NewObject, ObjectNumber, Offset, StoreId


class SegmentRow(PartitionName, frozen=True, kw_only=True):
    """Records [start, end) of a partition: `size_bytes` bytes at `position` of the object under the key `object`.

    `records` is end - start, or less after compaction. `kind`: append, or segment for a sealed one. `oldest_us`,
    `newest_us`: the smallest and the largest timestamp. `appended_ms`: when the records were appended, or the newest of
    them. `object_size_bytes`: the size of the whole object. `stores`: the stores that hold it, in the order in which a
    reader tries them.
    """

    start: Offset
    end: Offset
    records: int
    size_bytes: int
    batches: Int32
    kind: str
    oldest_us: int
    newest_us: int
    appended_ms: int
    leader_epoch: LeaderEpoch
    object: str
    object_size_bytes: int
    position: int
    stores: tuple[StoreId, ...]


def segment_rows(
    state: ClusterState, partition: Partition, slices: SliceColumns, key: Callable[[NewObject, str], str]
) -> Iterator[SegmentRow]:
    """A row for each of these slices of the partition. `key` gives the key of an object, as `data_key` does."""
    topic = state.topics[partition.topic_id].name
    objects = {
        number: (named, key(named, topic))
        for number in np.unique(slices.columns["object_number"]).tolist()
        for named in [_object(state, ObjectNumber(number))]
    }
    holding = Holding(state, partition)
    for slice_ in slices:
        named, object_key = objects[slice_.object_number]
        yield SegmentRow(
            topic=topic,
            partition=slice_.partition,
            start=slice_.start,
            end=slice_.end,
            records=slice_.records,
            size_bytes=slice_.length,
            batches=slice_.batches,
            kind=named.kind.name.lower(),
            oldest_us=slice_.min_timestamp_us,
            newest_us=slice_.max_timestamp_us,
            appended_ms=slice_.append_time_ms,
            leader_epoch=slice_.leader_epoch,
            object=object_key,
            object_size_bytes=named.size_bytes,
            position=slice_.position,
            stores=holding.of(slice_.end, named.holders),
        )


def _object(state: ClusterState, number: ObjectNumber) -> NewObject:
    named = state.objects.get(number)
    if named is None:
        raise AssertionError(f"a slice names object {number}, which the state does not have")
    return named
