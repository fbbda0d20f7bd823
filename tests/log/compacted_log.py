"""A compacted log for tests: some records of a written log, in segments that store their offsets."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from sparklog.core.reading.plan import SliceToRead
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NamedObject,
    ObjectNumber,
    PartitionIndex,
    Slice,
    StoreId,
    TopicId,
    UploadId,
)
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.write.segments_writer import Rewritten, SegmentTarget
from tests.log.written_log import WrittenLog, lanes_of, parts_of, stores_of, upload_ids

HOLDERS = (Holder(StoreId("a"), 1),)


def target(segment_bytes: int = 1 << 30, compression: str = "zstd") -> SegmentTarget:
    return SegmentTarget(TopicId(5), "orders", PartitionIndex(0), EntryNumber(9), HOLDERS, segment_bytes, compression)


def rewritten(
    log: WrittenLog,
    kept: Sequence[int],
    segment_bytes: int = 1 << 30,
    parts: Sequence[SliceToRead] | None = None,
    compression: str = "zstd",
) -> Rewritten:
    """The upload of the records at these offsets of partition 0."""
    ids = upload_ids(1_000 + len(log.objects))
    return compact(
        parts_of(log) if parts is None else parts,
        np.array(kept, dtype=np.int64),
        target(segment_bytes, compression),
        stores_of(log),
        lanes_of(a=log.store),
        lambda: UploadId(next(ids)),
    )


def compacted(
    log: WrittenLog,
    kept: Sequence[int],
    segment_bytes: int = 1 << 30,
    parts: Sequence[SliceToRead] | None = None,
    compression: str = "zstd",
) -> WrittenLog:
    """The same log as it is after the chain has swapped the slices `parts` (by default all) for rewritten ones."""
    return named(log, rewritten(log, kept, segment_bytes, parts, compression), parts)


def named(log: WrittenLog, made: Rewritten, parts: Sequence[SliceToRead] | None = None) -> WrittenLog:
    """The log with the rewritten slices in place of `parts`, by default of all of partition 0."""
    replaced = [part.slice for part in (parts_of(log) if parts is None else parts)]
    after = WrittenLog(log.store, list(log.objects))
    new = []
    for slice_ in made.slices:
        number = ObjectNumber(len(after.objects))
        after.objects.append(NamedObject(number, made.objects[slice_.new.object_index]))
        new.append(
            Slice(
                topic_id=slice_.new.topic_id,
                partition=slice_.new.partition,
                start=slice_.start,
                end=slice_.end,
                records=slice_.new.records,
                object_number=number,
                position=slice_.new.position,
                length=slice_.new.length,
                first_batch=slice_.new.first_batch,
                batches=slice_.new.batches,
                min_timestamp_us=slice_.new.min_timestamp_us,
                max_timestamp_us=slice_.new.max_timestamp_us,
                append_time_ms=slice_.append_time_ms,
                timestamp_source=slice_.timestamp_source,
                leader_epoch=slice_.leader_epoch,
            )
        )
    others = [each for each in log.slices if each not in replaced]
    after.slices = sorted([*others, *new], key=lambda each: (each.partition, each.start))
    return after


def held_by(log: WrittenLog, holders: str) -> tuple[SliceToRead, ...]:
    """The slices of partition 0, to be read from these stores (one letter each)."""
    held = tuple(Holder(StoreId(each), 1) for each in holders)
    return tuple(
        SliceToRead(
            part.slice,
            NamedObject(part.object.number, msgspec.structs.replace(part.object.object, holders=held)),
            tuple(each.store for each in held),
        )
        for part in parts_of(log)
    )
