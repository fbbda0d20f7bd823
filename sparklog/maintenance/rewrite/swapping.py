"""Checks that a planned rewrite and its swap are still possible, and chooses the stores for the new segments."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from sparklog.core.decide.append import min_isr_of
from sparklog.core.errors import SparklogError
from sparklog.core.replication.rewrites import check_swap
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import EntryNumber, Holder, OffsetRange, StoreId, TopicPartition
from sparklog.log.write.segments_writer import Rewritten, SegmentTarget


def still_there(state: ClusterState, key: TopicPartition, offsets: OffsetRange, planned: str) -> SliceColumns | None:
    """Return the slices in the range; None if they have changed since the plan, in which their digest was `planned`."""
    if key not in state.partitions:
        return None
    slices = state.slices.find(key, offsets)
    return slices if digest(slices) == planned else None


def obstacle(state: ClusterState, key: TopicPartition) -> SparklogError | None:
    """Return the error that a swap of the partition would get now, even with its segments on all in-sync stores.

    None if such a swap would be accepted, or if the partition is gone.
    """
    partition = state.partitions.get(key)
    if partition is None:
        return None
    try:
        check_swap(partition.replication, partition.replication.isr, min_isr_of(state, key.topic_id))
    except SparklogError as error:
        return error
    return None


def segment_target(state: ClusterState, key: TopicPartition) -> SegmentTarget:
    """Return the target of the partition's rewritten segments: its in-sync stores, and settings of its topic."""
    topic = state.topics[key.topic_id]
    config = state.topic_config(topic)
    return SegmentTarget(
        key.topic_id,
        topic.name,
        key.partition,
        EntryNumber(state.n),
        tuple(Holder(store, state.stores[store].registration) for store in state.partitions[key].replication.isr),
        config.segment_bytes,
        config.compression_type or "zstd",
    )


def without_stores(rewritten: Rewritten, lost: Collection[StoreId]) -> Rewritten | None:
    """Remove the stores `lost` from the holders of the new segments. Return None if a segment then has no holder."""
    objects = [
        msgspec.structs.replace(named, holders=tuple(holder for holder in named.holders if holder.store not in lost))
        for named in rewritten.objects
    ]
    if not all(named.holders for named in objects):
        return None
    return msgspec.structs.replace(rewritten, objects=tuple(objects))
