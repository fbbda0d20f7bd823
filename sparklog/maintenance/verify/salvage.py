"""Salvage an object that no store has whole: use its good batches, each from any store that has it.

    read each batch from any store -> none is lost: rewrite them as a segment, and swap it in as the roll does
                                   -> some are lost: report them; with --accept-loss, they become a gap in the log

Acknowledged records are never dropped silently. Until a person accepts the loss, the chain names them, and a reader
gets an error (CORRUPT_MESSAGE, DATA_LOSS), never wrong records. Afterwards the log continues: the rest of the object is
in a whole segment again, which can be copied, rolled and retained. Of a file that was cut off, the good batches before
the cut remain.

A segment must be on the store of a leader. So a partition without a leader can only lose whole slices. Losing them may
let the partition elect a leader again.

The records of a compacted segment keep their offsets. If a batch is lost, the offsets from its first record to its last
one are lost. Compaction may have removed all records between a lost batch and a good one beside it. The offsets of
those records are not lost: the slice of the good batch covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby

import msgspec
import numpy as np

from sparklog.chain.commit.committer import new_command_id
from sparklog.core.commands import RewrittenSlice, Submission, Swap
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.placement.held_slices import holders_of
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import (
    NewObject,
    Offset,
    OffsetRange,
    Slice,
    TimestampSource,
    TopicPartition,
    UploadId,
)
from sparklog.host.dice import new_id
from sparklog.log.check.object_check import Problem, StoredPart
from sparklog.log.cluster_stores import Stores
from sparklog.log.index import Index, SliceIndex, cut_to_slice
from sparklog.log.read.object_reader import keep_index, read_index
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.rewrite.segment_roll import rewrite
from sparklog.log.write.segments_writer import Rewritten
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.rewrite.swapping import segment_target
from sparklog.maintenance.verify.damaged_object import Damage, Note
from sparklog.storage.object_store import ObjectStore


def salvage(frame: JobFrame, damages: Sequence[Damage], note: Note, *, accept_loss: bool) -> None:
    """Rewrite the good batches of one object as segments, slice by slice.

    A slice with lost records is only reported, unless `accept_loss`: then its lost records become a gap in the log.
    `damages`: the damage to this object on each store that has it. `note` is called with each slice's outcome.
    """
    object_ = damages[0].object
    state = frame.connection.newest_state()
    stores = frame.connection.stores(state)
    index = _index(stores, damages)
    for slice_ in dict.fromkeys(slice_ for damage in damages for slice_ in damage.object.slices):
        key = TopicPartition(slice_.topic_id, slice_.partition)
        place = f"{object_.topic}-{slice_.partition}"
        damage_text = "; ".join(map(str, damages))
        outcome: WorkOutcome | None
        try:
            left = _left(index, slice_, damages)
            if left.lost and not accept_loss:
                message = (
                    f"{object_.key}: records {_shown(left.lost)} of {place} are on no store any more: {damage_text}. "
                    "Put the object back from a backup, or give them up with --accept-loss"
                )
                outcome = WorkOutcome.FAILED
            else:
                outcome, message = _swapped(frame, slice_, left, damages, stores)
        except SparklogError as error:
            state = frame.connection.newest_state()
            outcome = WorkOutcome.FAILED if _replaced(state, slice_) is not None else WorkOutcome.OVERTAKEN
            message = f"{object_.key}: what is left of {place} could not be saved: {error}"
        for damage in damages:
            note(damage.store, [key], outcome, message)


class _Remains(msgspec.Struct, frozen=True):
    """The good batches of a slice, and the offsets whose records are lost.

    Each of `runs` has the good batches between two lost ranges, and each batch as a slice of its own. `with_offsets`:
    the object is a compacted segment, which stores the offset of each record.
    """

    runs: tuple[tuple[Slice, ...], ...]
    lost: tuple[OffsetRange, ...]
    with_offsets: bool = False


def _index(stores: Stores, damages: Sequence[Damage]) -> Index | None:
    """Return the object's index from the first holder on which the index is whole; None if there is no such holder.

    Caches the index for reads of the object from all of its holders.
    """
    object_ = damages[0].object
    holders: list[ObjectStore] = []
    for damage in damages:
        with suppress(SparklogError):  # the batches on the other holders can still be saved
            holders.append(stores.get(damage.store))
    for holder in holders:
        with suppress(SparklogError):  # another holder may have it
            index = read_index(holder, object_.key, object_.named)
            for store in holders:
                keep_index(store, object_.key, object_.named, index)
            return index
    return None


def _left(index: Index | None, slice_: Slice, damages: Sequence[Damage]) -> _Remains:
    if index is None:
        return _Remains((), (OffsetRange(slice_.start, slice_.end),))
    part = cut_to_slice(index, slice_, damages[0].object.key)
    good = np.zeros(slice_.batches, dtype=np.bool_)
    for damage in damages:
        good |= _good(part, damage)
    runs: list[tuple[Slice, ...]] = []
    lost: list[OffsetRange] = []
    at = slice_.start
    for is_good, group in groupby(range(slice_.batches), key=lambda batch: bool(good[batch])):
        batches = list(group)
        next_batch = batches[-1] + 1
        if next_batch == slice_.batches:
            end = slice_.end
        else:  # before the first lost record, or after the last one
            end = Offset(int(part.offsets.starts[next_batch] if is_good else part.offsets.ends[next_batch - 1]))
        if is_good:
            runs.append(_pieces(slice_, part, batches, OffsetRange(at, end)))
        else:
            lost.append(OffsetRange(at, end))
        at = end
    return _Remains(tuple(runs), tuple(lost), index.base_offset is not None)


def _good(part: SliceIndex, damage: Damage) -> np.typing.NDArray[np.bool_]:
    """For each batch of a slice: True if it is whole on the store of `damage`."""
    problems = {finding.problem for finding in damage.check.findings if finding.part is StoredPart.OBJECT}
    if Problem.MISSING in problems:
        return np.zeros(len(part.batches), dtype=np.bool_)
    bad = [finding.position for finding in damage.check.findings if finding.problem is Problem.BATCH]
    return ~np.isin(part.batches.position, np.array(bad, dtype=np.int64))


def _pieces(slice_: Slice, part: SliceIndex, batches: Sequence[int], offsets: OffsetRange) -> tuple[Slice, ...]:
    """Return the given batches of a slice, each as a slice of its own. Together they cover `offsets`."""
    of, appended = part.batches, slice_.timestamp_source is TimestampSource.APPEND_TIME
    pieces = []
    start = offsets.start
    for batch in batches:
        end = offsets.end if batch == batches[-1] else Offset(int(part.offsets.ends[batch]))
        pieces.append(
            msgspec.structs.replace(
                slice_,
                start=start,
                end=end,
                records=int(of.records[batch]),
                position=int(of.position[batch]),
                length=int(of.length[batch]),
                first_batch=slice_.first_batch + batch,
                batches=1,
                min_timestamp_us=slice_.min_timestamp_us if appended else int(of.min_timestamp_us[batch]),
                max_timestamp_us=slice_.max_timestamp_us if appended else int(of.max_timestamp_us[batch]),
            )
        )
        start = end
    return tuple(pieces)


def _swapped(
    frame: JobFrame, slice_: Slice, left: _Remains, damages: Sequence[Damage], stores: Stores
) -> tuple[WorkOutcome | None, str]:
    """Rewrite the good batches of a slice, and swap them in. Returns an outcome and a message.

    The outcome is None if they were swapped in, otherwise FAILED, POSTPONED or OVERTAKEN. Raises StoreUnavailable if a
    store was wiped or swapped meanwhile, and the errors of reading, uploading and committing.
    """
    object_ = damages[0].object
    key = TopicPartition(slice_.topic_id, slice_.partition)
    place = f"{object_.topic}-{slice_.partition} [{slice_.start}, {slice_.end})"
    state = frame.connection.newest_state()
    partition = state.partitions.get(key)
    if partition is None:
        return WorkOutcome.OVERTAKEN, f"{object_.key}: its topic was deleted"
    if slice_.start < partition.log_start:  # a swap replaces whole slices, and nothing below the log start
        advice = f"put the object back from a backup, or delete the records below offset {slice_.end}"
        return WorkOutcome.FAILED, f"{object_.key}: the log start {partition.log_start} cuts {place}: {advice}"
    if partition.replication.leader is None and left.runs:
        return WorkOutcome.FAILED, (
            f"{object_.key}: what is left of {place} can't be rewritten without a leader: put the object back from "
            "a backup; an unclean election (sparklog replica elect --unclean) gives up all of it, and all after it"
        )
    if partition.replication.leader is None and slice_.end > partition.high_watermark:
        return (
            WorkOutcome.POSTPONED,
            f"{object_.key}: {place} was never committed: the next leader decides about it",
        )
    replaced = _replaced(state, slice_)
    if replaced is None:
        return WorkOutcome.OVERTAKEN, f"{object_.key}: {place} was changed meanwhile"
    if left.lost and not set(holders_of(state, slice_)) <= {damage.store for damage in damages}:
        return WorkOutcome.OVERTAKEN, f"{object_.key}: another store holds {place} by now, which was not read"
    target = segment_target(state, key)
    incarnations = {store.store: store.incarnation for store in state.stores.values()}
    lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
    objects: list[NewObject] = []
    slices: list[RewrittenSlice] = []
    holders = tuple(damage.store for damage in damages)
    upload: Callable[..., Rewritten] = partial(compact, kept=None) if left.with_offsets else rewrite
    with StoreLanes(stores, incarnations, lag_ms) as lanes:
        for run in left.runs:
            parts = [SliceToRead(piece, object_.named, holders) for piece in run]
            rewritten = upload(
                parts, target=target, stores=stores, lanes=lanes, new_upload_id=lambda: UploadId(new_id())
            )
            slices += [_shifted(new, len(objects)) for new in rewritten.slices]
            objects += rewritten.objects
    swapped = lanes.of_another_incarnation()
    if swapped:
        raise StoreUnavailable(f"stores {', '.join(sorted(swapped))} were wiped or swapped meanwhile")
    command = Swap(
        key.topic_id,
        key.partition,
        slice_.start,
        slice_.end,
        digest(replaced),
        tuple(objects),
        tuple(slices),
        left.lost,
    )
    (result,) = frame.submit_all([Submission(new_command_id(), target.n0, command)])
    if isinstance(result, SparklogError):
        raise result
    if not left.lost:
        return None, f"{object_.key}: no store had it whole, and {place} was put together again"
    given_up = f"records {_shown(left.lost)} of {object_.topic}-{slice_.partition} were given up (--accept-loss)"
    return None, f"{object_.key}: {given_up}"


def _replaced(state: ClusterState, slice_: Slice) -> SliceColumns | None:
    """Return the slice as columns, for the digest in a swap; None if the log has other slices in its range by now."""
    offsets = OffsetRange(slice_.start, slice_.end)
    existing = state.slices.find(TopicPartition(slice_.topic_id, slice_.partition), offsets)
    return existing if list(existing) == [slice_] else None


def _shown(ranges: Sequence[OffsetRange]) -> str:
    return ", ".join(f"[{range_.start}, {range_.end})" for range_ in ranges)


def _shifted(rewritten: RewrittenSlice, objects: int) -> RewrittenSlice:
    """Return the slice with `object_index` raised by `objects`, the number of objects that earlier runs uploaded."""
    new = msgspec.structs.replace(rewritten.new, object_index=rewritten.new.object_index + objects)
    return msgspec.structs.replace(rewritten, new=new)
