"""Invariants of every state that a chain can lead to. Tests check them after each entry.

 1. FLOOR is at most the end of the chain; results belong to existing entries, and to commands begun at or above FLOOR.
 2. Topic names and ids match one to one; every id given out is below the counter.
 3. A topic of k partitions has exactly the partitions 0 to k - 1.
 4. Replicas are registered stores; no fenced store is in sync.
 5. The replicas of each partition are as `replication/replica_invariants.py` says. Number 3 there is 5.3 here.
 6. No LEO lies at the start of a gap, and none inside a slice, except at the log start: the first record that a replica
    lacks is at its LEO.
 7. The slices of a partition ascend without overlap, from the log start to the next offset. No slice lies wholly below
    the log start. A gap between slices ends where a leader epoch begins, or where lost records end.
 8. A slice holds at least one record and at most one per offset, and belongs to a partition that exists. Every offset
    of a slice of an append object has a record, unless a mirror wrote it: then its topic is mirrored, or a leader epoch
    has begun since.
 9. A slice names a live object of its topic (and of its partition, if the object is sealed). The bytes of
    the slice lie inside the object.
10. An object is retired if no slice names it, and only then. Until then, the number of its slices that were forgotten
    (released) and the number that still name it add up to the number that named it first.
11. `size_bytes` of a partition is the sum of its slices' lengths.
12. Object numbers, producer ids and registrations are below their counters; holders were registered.
13. A producer has at most five batches per partition; they are consecutive and lie below the next offset.
14. Numbers of groups are below their counter and differ; members are ordered by id, and differ.
15. The members of a group share all partitions of the topics that they want: each partition is assigned to one member.
16. A committed offset belongs to a group and a partition that exist, and is at most the high watermark there.
17. No two objects, retired ones included, have the same n0 and upload id: each has bytes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from sparklog.core.idempotence.producers import KEPT_BATCHES, SEQUENCES, sequence_after
from sparklog.core.replication.replica_invariants import broken
from sparklog.core.row_offsets import records_between
from sparklog.core.state import ClusterState, Partition
from sparklog.core.tables.column_blocks import Column
from sparklog.core.tables.slice_table import partition_key, split_keys, topic_partition_of
from sparklog.core.types import NewObject, ObjectKind, ObjectNumber, PartitionIndex, TopicPartition

OBJECTS_AT_ONCE: Final = 16_384


def check(state: ClusterState) -> None:
    """Raise an AssertionError that lists the broken invariants by number, if there are any."""
    broken = list(violations(state))
    if broken:
        shown = "\n".join(broken[:20])
        raise AssertionError(f"entry {state.n} breaks {len(broken)} invariants of the state:\n{shown}")


def violations(state: ClusterState) -> Iterator[str]:
    """Yield each broken invariant of `state` as "number: text", where the text says what was found.

    Makes about one pass over the state.
    """
    yield from _chain(state)
    yield from _topics(state)
    for partition in state.partitions.values():
        yield from _partition(state, partition)
    slices = state.slices.everything().columns
    yield from _slices(state, slices)
    yield from _objects(state, slices)
    for numbers in state.objects.duplicate_uploads():
        yield f"17: objects {numbers} are the same upload"
    yield from _producers(state)
    yield from _groups(state)


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


def _slices(state: ClusterState, columns: Mapping[str, Column]) -> Iterator[str]:
    keys, starts, ends = columns["partition_key"], columns["start"], columns["end"]
    gap_ends = {
        partition_key(key): {
            *(start for _, start in partition.replication.epochs),
            *(range_.end for range_ in partition.replication.lost),
        }
        for key, partition in state.partitions.items()
    }
    wrong = (columns["records"] < 1) | (columns["records"] > ends - starts)
    if wrong.any():
        yield f"8: slices {_shown(columns, wrong)} have too many or too few records"
    same = keys[1:] == keys[:-1]
    torn = np.zeros(len(keys), dtype=np.bool_)
    torn[1:] = same & (starts[1:] != ends[:-1])
    for row in np.flatnonzero(torn[1:] & (starts[1:] > ends[:-1])) + 1:
        torn[row] = starts.item(row) not in gap_ends.get(keys.item(row), ())
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
    present, begins = np.unique(keys, return_index=True)
    lengths = np.add.reduceat(columns["length"], begins) if len(keys) else columns["length"]
    firsts = dict(zip(present.tolist(), begins.tolist(), strict=True))
    lasts = dict(zip(present.tolist(), [*(begins[1:] - 1).tolist(), len(keys) - 1], strict=False))
    sums = dict(zip(present.tolist(), lengths.tolist(), strict=True))
    for topic_partition, partition in state.partitions.items():
        key = partition_key(topic_partition)
        first, last = firsts.pop(key, None), lasts.get(key)
        if partition.size_bytes != sums.get(key, 0):
            yield f"11: {topic_partition} says {partition.size_bytes} bytes, its slices have {sums.get(key, 0)}"
        if first is None or last is None:
            if partition.log_start != partition.next_offset and partition.next_offset not in gap_ends[key]:
                yield (
                    f"7: {topic_partition} has no slice, log start {partition.log_start}, "
                    f"next offset {partition.next_offset}"
                )
        elif not (
            partition.log_start < ends[first]
            and (starts[first] <= partition.log_start or int(starts[first]) in gap_ends[key])
            and (ends[last] == partition.next_offset or partition.next_offset in gap_ends[key])
        ):
            yield (
                f"7: {topic_partition} has slices from [{starts[first]}, {ends[first]}) to {ends[last]}, "
                f"log start {partition.log_start}, next offset {partition.next_offset}"
            )
    if firsts:
        yield f"8: slices of partitions {sorted(firsts)} that are not there"


def _objects(state: ClusterState, columns: Mapping[str, Column]) -> Iterator[str]:
    """Yield the broken invariants of the state's objects. `columns`: the columns of all slices of the state.

    To save memory, OBJECTS_AT_ONCE objects are checked at a time.
    """
    seen = 0
    present: list[Column] = []
    numbers = columns["object_number"]
    objects = iter(state.objects)
    while part := {named.number: named.object for named in islice(objects, OBJECTS_AT_ONCE)}:
        of = np.fromiter(part, dtype=np.int64, count=len(part))
        present.append(of)
        seen += len(part)
        rows = np.flatnonzero((numbers >= of.min()) & (numbers <= of.max()))
        rows = rows[np.isin(numbers[rows], of)]
        yield from _objects_alone(state, part)
        yield from _named_objects(part, columns, rows)
        yield from _slices_of_objects(state, part, numbers[rows])
    known = np.concatenate([np.zeros(0, dtype=np.int64), *present])
    if seen != len(state.objects) or seen != len(np.unique(known)):
        yield f"10: {len(state.objects)} objects, {len(np.unique(known))} numbers"
    unnamed = ~np.isin(numbers, known)
    for key, number in zip(columns["partition_key"][unnamed].tolist(), numbers[unnamed].tolist(), strict=True):
        yield f"9: a slice of {_place(key)} names object {number}, which is not there"
    appended = state.objects.kinds(numbers) == ObjectKind.APPEND
    thinned = appended & (columns["records"] != columns["end"] - columns["start"])
    thinned[thinned] = ~_may_be_mirrored(state, columns, np.flatnonzero(thinned))
    if thinned.any():
        yield f"8: slices {_shown(columns, thinned)} of append objects have different numbers of records and offsets"
    released = np.fromiter(state.released, dtype=np.int64, count=len(state.released))
    gone = np.concatenate([state.retired.columns("number")["number"], released])
    for number in np.setdiff1d(gone, known).tolist():
        yield f"10: object {number} is released or retired, and not there"


def _may_be_mirrored(state: ClusterState, columns: Mapping[str, Column], rows: Column) -> npt.NDArray[np.bool_]:
    """Return for each of these rows of the slices whether a mirror may have written it."""
    may = []
    for key, epoch in zip(columns["partition_key"][rows].tolist(), columns["leader_epoch"][rows].tolist(), strict=True):
        of = topic_partition_of(key)
        topic, partition = state.topics.get(of.topic_id), state.partitions.get(of)
        is_mirrored = topic is not None and topic.mirror_of is not None
        may.append(is_mirrored or (partition is not None and epoch < partition.replication.leader_epoch))
    return np.array(may, dtype=np.bool_)


def _objects_alone(state: ClusterState, objects: Mapping[ObjectNumber, NewObject]) -> Iterator[str]:
    for number, object_ in objects.items():
        known = all(holder.registration < state.next_registration for holder in object_.holders)
        if not 0 <= number < state.next_object_number or not known:
            yield f"12: object {number}, {object_}, of {state.next_object_number}"


def _named_objects(
    objects: Mapping[ObjectNumber, NewObject], columns: Mapping[str, Column], rows: Column
) -> Iterator[str]:
    fields = (columns[name][rows].tolist() for name in ("partition_key", "object_number", "position", "length"))
    for key, number, position, length in zip(*fields, strict=True):
        owner, of = objects[number], topic_partition_of(key)
        sealed_elsewhere = owner.kind is ObjectKind.SEGMENT and owner.partition != of.partition
        if owner.topic_id != of.topic_id or sealed_elsewhere or position < 0 or position + length > owner.size_bytes:
            yield f"9: a slice of {_place(key)} at {position} + {length} does not lie in {owner}"


def _slices_of_objects(
    state: ClusterState, objects: Mapping[ObjectNumber, NewObject], named_by: Column
) -> Iterator[str]:
    """Yield a text for each of `objects` that breaks invariant 10, because its numbers of slices don't add up.

    `named_by`: the object number of each slice of the state that lies in one of `objects`.
    """
    names = dict(zip(*(column.tolist() for column in np.unique(named_by, return_counts=True)), strict=True))
    firsts = state.objects.slice_counts(np.fromiter(objects, dtype=np.int64, count=len(objects))).tolist()
    for number, first in zip(objects, firsts, strict=True):
        retired, released, live = number in state.retired, state.released.get(number, 0), names.get(number, 0)
        if retired != (live == 0) or (released and retired) or (not retired and released + live != first):
            yield f"10: object {number}: first {first} slices, {released} released, {live} live, retired {retired}"


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


def _groups(state: ClusterState) -> Iterator[str]:
    by_number = {group.number: group for group in state.groups.values()}
    if len(by_number) < len(state.groups) or not all(0 <= number < state.next_group_number for number in by_number):
        yield f"14: groups {sorted(by_number)} of {state.next_group_number} for {len(state.groups)} names"
    for name, group in state.groups.items():
        ids = [member.member_id for member in group.members]
        if group.name != name or ids != sorted(set(ids)) or (group.members and group.emptied_ms):
            yield f"14: group {group} under the name {name}"
        shared = [key for member in group.members for key in member.assigned]
        wanted = {
            TopicPartition(topic.topic_id, PartitionIndex(index))
            for topic in state.topics.values()
            if group.reads(topic.name)
            for index in range(topic.partitions)
        }
        if sorted(shared) != sorted(wanted):
            yield f"15: the members of group {name} read {sorted(shared)}, its topics have {sorted(wanted)}"
    rows = state.offsets.all_columns()
    keys = set()
    for number, key, offset in zip(
        *(rows[name].tolist() for name in ("group", "partition_key", "offset")), strict=True
    ):
        partition = state.partitions.get(topic_partition_of(key))
        keys.add((number, key))
        if number not in by_number or partition is None or not 0 <= offset <= partition.high_watermark:
            yield f"16: group {number} continues at {offset} in {_place(key)}, which is {partition}"
    if len(keys) < len(rows["group"]) or not set(state.offsets.metadata) <= keys:
        yield "16: a partition is there twice for a group, or a text without an offset"


def _place(partition_key: int) -> str:
    topic_id, partition = split_keys(partition_key)
    return f"{topic_id}-{partition}"


def _shown(columns: Mapping[str, Column], rows: Column) -> list[tuple[int, int, int]]:
    names = ("partition_key", "start", "end")
    return list(zip(*(columns[name][rows][:5].tolist() for name in names), strict=True))
