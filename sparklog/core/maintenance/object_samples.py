"""Samples of data objects, for checks that can't look for all objects: newest and oldest of each partition first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from sparklog.core.placement.held_slices import Holding, named_object
from sparklog.core.state import ClusterState, Topic
from sparklog.core.types import NamedObject, ObjectNumber, OffsetRange, Slice, StoreId, TopicPartition


class ObjectSample(msgspec.Struct, frozen=True):
    """An object, one of the slices in it, and the stores that hold the slice."""

    topic: str
    slice: Slice
    object: NamedObject
    stores: tuple[StoreId, ...]


def sampled_objects(state: ClusterState, most: int) -> list[ObjectSample]:
    """Return at most `most` objects that slices name, each once, from all topics in turn: newest and oldest first."""
    topics = [_of_topic(state, topic) for topic in state.topics.values()]
    chosen: dict[int, ObjectSample] = {}
    while topics and len(chosen) < most:
        left = []
        for samples in topics:
            sample = next((sample for sample in samples if sample.object.number not in chosen), None)
            if sample is not None and len(chosen) < most:
                chosen[sample.object.number] = sample
                left.append(samples)
        topics = left
    return list(chosen.values())


def live_slices(state: ClusterState, number: ObjectNumber) -> int:
    """The number of slices that still name the object: 0 if it is retired or gone."""
    if number in state.retired or state.objects.get(number) is None:
        return 0
    return state.objects.slices(number) - state.released.get(number, 0)


def _of_topic(state: ClusterState, topic: Topic) -> Iterator[ObjectSample]:
    """Yield samples: the newest slice of each partition, then the oldest of each, then the second newest, and so on."""
    partitions = []
    for partition in state.partitions_of(topic):
        key = TopicPartition(topic.topic_id, partition.partition)
        slices = state.slices.find(key, OffsetRange(partition.log_start, partition.next_offset))
        if len(slices):
            partitions.append((slices, Holding(state, partition)))
    for depth in count():
        open_ = [(slices, holding) for slices, holding in partitions if 2 * depth < len(slices)]
        if not open_:
            return
        for at_newest in (True, False):
            for slices, holding in open_:
                at = len(slices) - 1 - depth if at_newest else depth
                if at_newest or at < len(slices) - 1 - depth:
                    (slice_,) = slices.rows(at, at + 1)
                    named = named_object(state, slice_)
                    yield ObjectSample(topic.name, slice_, named, holding.of(slice_.end, named.object.holders))
