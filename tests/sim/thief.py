"""Somebody who names uploads of others in appends and rewrites of his own. None of them may have an effect."""

from __future__ import annotations

from msgspec.structs import replace

from sparklog.core.commands import Append, Command, PartitionEpoch, RewrittenSlice, Swap
from sparklog.core.errors import DuplicateResource, SparklogError
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import digest
from sparklog.core.types import (
    Holder,
    NamedObject,
    NewSlice,
    ObjectKind,
    OffsetRange,
    Slice,
    TimestampSource,
    TopicPartition,
)
from tests.sim.process import Process, Steps


def thief(process: Process) -> Steps:
    """Check 20: what the chain names, or has retired, is not named again."""
    while not process.world.is_ending:
        yield process.dice.randint(40, 300)
        try:
            state = yield from process.catch_up()
            above = [named for named in state.objects if named.object.n0 >= state.floor]  # else FLOOR refuses them
            objects = sorted(above, key=lambda named: named.number)
            if not objects or not state.partitions:
                continue
            named = process.dice.choice((objects[-1], process.dice.choice(objects)))
            key = process.dice.choice(sorted(state.partitions))
            yield from process.submit(_claim(process, state, named, key))
        except DuplicateResource:
            process.world.stolen += 1
        except SparklogError as error:
            process.refused(error)
        else:
            raise AssertionError(f"20: {process.name} named upload {named.object.upload_id}, which was named before")


def _claim(process: Process, state: ClusterState, named: NamedObject, key: TopicPartition) -> Command:
    """An append that says the object has records of a partition, or a rewrite of its first slice that says so."""
    log = state.partitions[key].replication
    stores = dict.fromkeys((*log.isr, *(holder.store for holder in named.object.holders)))
    holders = tuple(Holder(store, state.stores[store].registration) for store in stores if store in state.stores)
    of = replace(named.object, topic_id=key.topic_id, holders=holders)
    slices = [each for each in state.slices.everything() if each.object_number == named.number]
    new = _new_slice(of.size_bytes, key, slices)
    first = next(iter(state.slices.find(key, OffsetRange(log.log_start, log.high_watermark))), None)
    if first is None or process.dice.random() < 0.5:
        append = replace(of, kind=ObjectKind.APPEND, partition=None, base_offset=None, leader_epoch=None)
        return Append((append,), (new,), (PartitionEpoch(key.topic_id, key.partition, log.leader_epoch),))
    sealed = replace(
        of,
        kind=ObjectKind.SEGMENT,
        partition=key.partition,
        base_offset=first.start,
        leader_epoch=first.leader_epoch,
    )
    rewritten = RewrittenSlice(
        new=replace(new, records=first.records),
        start=first.start,
        end=first.end,
        append_time_ms=first.append_time_ms,
        timestamp_source=TimestampSource.CREATE_TIME,
        leader_epoch=first.leader_epoch,
    )
    replaced = digest(state.slices.find(key, OffsetRange(first.start, first.end)))
    return Swap(key.topic_id, key.partition, first.start, first.end, replaced, (sealed,), (rewritten,))


def _new_slice(size_bytes: int, key: TopicPartition, slices: list[Slice]) -> NewSlice:
    """A slice of the object as the chain knows one; of a retired object, one of its right size."""
    known = slices[0] if slices else None
    return NewSlice(
        object_index=0,
        topic_id=key.topic_id,
        partition=key.partition,
        records=1 if known is None else known.records,
        position=0 if known is None else known.position,
        length=size_bytes if known is None else known.length,
        first_batch=0 if known is None else known.first_batch,
        batches=1 if known is None else known.batches,
        min_timestamp_us=0,
        max_timestamp_us=0,
    )
