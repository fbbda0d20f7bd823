"""What holds for every state that a chain can lead to. Tests check it after each entry.

 1. FLOOR is at most the end of the chain; results belong to existing entries, and to commands begun at or above it.
 2. Topic names and ids match one to one; every id given out is below the counter.
 3. A topic of k partitions has exactly the partitions 0 to k - 1.
 4. Replicas are registered stores; none that is fenced is in sync.
 5. The replicas of each partition are as `replication/invariants.py` says, whose number comes after this one.
 6. No LEO lies inside a slice, and none at a gap: what a replica lacks begins at its LEO.
 7. The slices of a partition ascend, disjoint, from the log start to the next offset; a gap ends where a leader epoch
    begins. None lies wholly below the log start.
 8. A slice holds at least one record and at most one per offset, and belongs to a partition that exists. Every offset
    of a slice of an append object has a record.
 9. A slice names a live object of its topic (and of its partition, if the object is sealed) and lies inside its size.
10. An object that no slice names is retired, and one that a slice names is not. The slices released and the slices
    that still name an object add up to the slices that named it first.
11. `size_bytes` of a partition is the sum of its slices' lengths.
12. Object numbers, producer ids and registrations are below their counters; holders were registered.
13. A producer has at most five batches per partition; they are consecutive and lie below the next offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from sparklog.core.column_blocks import Column
from sparklog.core.numbering import records_between
from sparklog.core.producers import KEPT_BATCHES, SEQUENCES, sequence_after
from sparklog.core.replication.invariants import broken
from sparklog.core.slice_table import partition_key
from sparklog.core.state import ClusterState, Partition
from sparklog.core.types import NewObject, ObjectKind, ObjectNumber, PartitionIndex, TopicPartition


def check(state: ClusterState) -> None:
    """Raise AssertionError that names each broken invariant by its number."""
    broken = list(violations(state))
    if broken:
        shown = "\n".join(broken[:20])
        raise AssertionError(f"entry {state.n} breaks {len(broken)} invariants of the state:\n{shown}")


def violations(state: ClusterState) -> Iterator[str]:
    """Each broken invariant, as "number: what was found". Costs about one pass over the whole state."""
    yield from _chain(state)
    yield from _topics(state)
    for partition in state.partitions.values():
        yield from _partition(state, partition)
    yield from _slices(state)
    yield from _objects(state)
    yield from _producers(state)


def _chain(state: ClusterState) -> Iterator[str]:
    if not 0 <= state.floor <= max(state.n, 0):
        yield f"1: FLOOR is {state.floor}, the last entry {state.n}"
    for applied in state.results:
        if not state.floor <= applied.n0 <= applied.n <= state.n:
            yield f"1: command {applied} is not of FLOOR {state.floor} to entry {state.n}"
    for app_id, written in state.applications.items():
        if not 0 <= written.result.n <= state.n:
            yield f"1: application {app_id} has a result of entry {written.result.n}, the last is {state.n}"
    for store in state.stores.values():
        if not 0 <= store.registration < state.next_registration:
            yield f"12: store {store.store} has registration {store.registration} of {state.next_registration}"


def _topics(state: ClusterState) -> Iterator[str]:
    if {topic.name: topic_id for topic_id, topic in state.topics.items()} != dict(state.topic_ids):
        yield f"2: names lead to {dict(state.topic_ids)}, topics are {dict(state.topics)}"
    wanted = set()
    for topic_id, topic in state.topics.items():
        if topic.topic_id != topic_id or not 0 < topic_id < state.next_topic_id:
            yield f"2: topic {topic} under id {topic_id} of {state.next_topic_id}"
        wanted |= {TopicPartition(topic_id, PartitionIndex(index)) for index in range(topic.partitions)}
    if wanted != set(state.partitions):
        yield f"3: partitions {sorted(wanted ^ set(state.partitions))} are there and not of a topic, or the reverse"


def _partition(state: ClusterState, partition: Partition) -> Iterator[str]:
    place, replicas = f"{partition.topic_id}-{partition.partition}", partition.replication
    if not set(replicas.replicas) <= set(state.stores):
        yield f"4: {place} has replicas {replicas.replicas} of stores {list(state.stores)}"
    fenced = [store for store in replicas.isr if store in state.stores and state.stores[store].fenced]
    if fenced:
        yield f"4: {place} is in sync on {replicas.isr}, of which {fenced} are fenced"
    topic = state.topics.get(partition.topic_id)
    if topic is not None:
        for line in broken(replicas, state.topic_config(topic).min_insync_replicas):
            yield f"5.{line} in {place}"


def _slices(state: ClusterState) -> Iterator[str]:
    columns = state.slices.everything().columns
    keys, starts, ends = columns["partition_key"], columns["start"], columns["end"]
    epoch_starts = {
        partition_key(key): {start for _, start in partition.replication.epochs}
        for key, partition in state.partitions.items()
    }
    wrong = (columns["records"] < 1) | (columns["records"] > ends - starts)
    if wrong.any():
        yield f"8: slices {_shown(columns, wrong)} have too many or too few records"
    same = keys[1:] == keys[:-1]
    begun = np.zeros(len(keys), dtype=np.bool_)  # where an epoch begins
    for row, (key, start) in enumerate(zip(keys.tolist(), starts.tolist(), strict=True)):
        begun[row] = start in epoch_starts.get(key, ())
    torn = np.zeros(len(keys), dtype=np.bool_)
    torn[1:] = same & (starts[1:] != ends[:-1]) & ((starts[1:] < ends[:-1]) | ~begun[1:])
    if torn.any():
        yield f"7: slices {_shown(columns, torn)} do not begin where the one before ends"
    for topic_partition, partition in state.partitions.items():
        of = slice(*np.searchsorted(keys, [partition_key(topic_partition), partition_key(topic_partition) + 1]))
        for store, log_end in zip(partition.replication.replicas, partition.replication.log_ends, strict=True):
            inside = (starts[of] < log_end) & (log_end < ends[of]) & (log_end != partition.log_start)
            if inside.any():
                yield f"6: the LEO {log_end} of {store} in {topic_partition} lies inside a slice"
            if log_end < partition.next_offset and not ((starts[of] <= log_end) & (log_end < ends[of])).any():
                yield f"6: no slice begins at the LEO {log_end} of {store} in {topic_partition}, a gap does"
    firsts = {int(key): row for row, key in reversed(list(enumerate(keys.tolist())))} if len(keys) else {}
    lasts = {int(key): row for row, key in enumerate(keys.tolist())}
    sums = {int(key): 0 for key in firsts}
    for key, length in zip(keys.tolist(), columns["length"].tolist(), strict=True):
        sums[key] += length
    for topic_partition, partition in state.partitions.items():
        key = partition_key(topic_partition)
        first, last = firsts.pop(key, None), lasts.get(key)
        if partition.size_bytes != sums.get(key, 0):
            yield f"11: {topic_partition} says {partition.size_bytes} bytes, its slices have {sums.get(key, 0)}"
        if first is None or last is None:
            if partition.log_start != partition.next_offset and partition.next_offset not in epoch_starts[key]:
                yield (
                    f"7: {topic_partition} has no slice, log start {partition.log_start}, "
                    f"next offset {partition.next_offset}"
                )
        elif not (
            partition.log_start < ends[first]
            and (starts[first] <= partition.log_start or int(starts[first]) in epoch_starts[key])
            and (ends[last] == partition.next_offset or partition.next_offset in epoch_starts[key])
        ):
            yield (
                f"7: {topic_partition} has slices from [{starts[first]}, {ends[first]}) to {ends[last]}, "
                f"log start {partition.log_start}, next offset {partition.next_offset}"
            )
    if firsts:
        yield f"8: slices of partitions {sorted(firsts)} that are not there"


def _objects(state: ClusterState) -> Iterator[str]:
    columns = state.slices.everything().columns
    objects: dict[ObjectNumber, NewObject] = {}
    for named in state.objects:
        objects[named.number] = named.object
        known = all(holder.registration < state.next_registration for holder in named.object.holders)
        if not 0 <= named.number < state.next_object_number or not known:
            yield f"12: object {named} of {state.next_object_number}"
    if len(objects) != len(state.objects):
        yield f"10: {len(state.objects)} objects, {len(objects)} numbers"
    named_by = dict(
        zip(*(column.tolist() for column in np.unique(columns["object_number"], return_counts=True)), strict=True)
    )
    rows = zip(
        *(columns[name].tolist() for name in ("partition_key", "object_number", "position", "length")), strict=True
    )
    for key, number, position, length in rows:
        owner = objects.get(number)
        if owner is None:
            yield f"9: a slice of {key >> 32}-{key & 0xFFFFFFFF} names object {number}, which is not there"
            continue
        sealed_elsewhere = owner.kind is ObjectKind.SEGMENT and owner.partition != key & 0xFFFFFFFF
        if owner.topic_id != key >> 32 or sealed_elsewhere or position < 0 or position + length > owner.size_bytes:
            yield f"9: a slice of {key >> 32}-{key & 0xFFFFFFFF} at {position} + {length} does not lie in {owner}"
    appended = state.objects.kinds(columns["object_number"]) == ObjectKind.APPEND
    thinned = appended & (columns["records"] != columns["end"] - columns["start"])
    if thinned.any():
        yield f"8: slices {_shown(columns, thinned)} of append objects have other numbers of records than of offsets"
    for number in objects:
        retired, released, names = number in state.retired, state.released.get(number, 0), named_by.get(number, 0)
        first = state.objects.slices(number)
        if retired != (names == 0) or (released and retired) or (not retired and released + names != first):
            yield f"10: object {number}: first {first} slices, {released} released, {names} live, retired {retired}"
    for number in {*state.released, *(object_.number for object_ in state.retired)} - set(objects):
        yield f"10: object {number} is released or retired, and not there"


def _producers(state: ClusterState) -> Iterator[str]:
    for producer_id, producer in state.producers.items():
        if producer.producer_id != producer_id or not 0 <= producer_id < state.next_producer_id:
            yield f"12: producer {producer} under id {producer_id} of {state.next_producer_id}"
        for topic_partition, batches in producer.batches.items():
            place = f"producer {producer_id} in {topic_partition}"
            partition = state.partitions.get(topic_partition)
            if partition is None or not 1 <= len(batches) <= KEPT_BATCHES or batches[-1].end > partition.next_offset:
                yield f"13: {place} has batches {batches}, the partition is {partition}"
            for before, after in pairwise(batches):
                if sequence_after(before.last_sequence, 1) != after.first_sequence or before.end > after.start:
                    yield f"13: {place} has {before} and then {after}"
            for batch in batches:
                if (batch.last_sequence - batch.first_sequence) % SEQUENCES + 1 != records_between(
                    batch.start, batch.end
                ):
                    yield f"13: {place} has {batch}: as many offsets as sequence numbers were wanted"


def _shown(columns: Mapping[str, Column], rows: Column) -> list[tuple[int, int, int]]:
    names = ("partition_key", "start", "end")
    return list(zip(*(columns[name][rows][:5].tolist() for name in names), strict=True))
