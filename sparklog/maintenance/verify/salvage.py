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

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby

import msgspec

from sparklog.chain.commit.committer import new_command_id
from sparklog.core.commands import RewrittenSlice, Submission, Swap
from sparklog.core.config.cluster_config import effective_cluster
from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.maintenance.objects_to_verify import ObjectToVerify
from sparklog.core.placement.held_slices import holders_of
from sparklog.core.reading.plan import SliceToRead
from sparklog.core.state import ClusterState
from sparklog.core.tables.slice_table import SliceColumns, digest
from sparklog.core.types import (
    NewObject,
    Offset,
    OffsetRange,
    Slice,
    StoreId,
    TimestampSource,
    TopicPartition,
    UploadId,
)
from sparklog.host.dice import new_id
from sparklog.log.check.object_check import Problem, StoredPart
from sparklog.log.check.sighting import Sighting, key_of
from sparklog.log.cluster_stores import Stores
from sparklog.log.incarnation import check_incarnation
from sparklog.log.index import Index, SliceIndex, cut_to_slice
from sparklog.log.read.object_reader import keep_index, read_index
from sparklog.log.rewrite.segment_compaction import compact
from sparklog.log.rewrite.segment_roll import rewrite
from sparklog.log.write.segments_writer import Rewritten
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.maintenance.job_frame import JobFrame
from sparklog.maintenance.job_report import WorkOutcome
from sparklog.maintenance.rewrite.swapping import segment_target
from sparklog.storage.object_store import ObjectStore

# Called with a store, partitions, their outcome (None: unchanged), and a message.
Note = Callable[[StoreId, Collection[TopicPartition], WorkOutcome | None, str], None]


def salvage(
    frame: JobFrame,
    object_: ObjectToVerify,
    sightings: Sequence[Sighting],
    others: Sequence[StoreId],
    note: Note,
    *,
    accept_loss: bool,
) -> None:
    """Rewrite the good batches of one object as segments, slice by slice.

    A slice with lost records is only reported, unless `accept_loss`: then its lost records become a gap in the log.
    `sightings`: the object on each store that has something of it. `others`: stores that have nothing of it but may
    have its index. `note` is called with each slice's outcome.
    """
    key, stores = key_of(object_), frame.connection.stores(frame.connection.newest_state())
    index = _index(stores, object_, [*(sighting.store for sighting in sightings), *others])
    for slice_ in object_.slices:
        place = f"{object_.topic}-{slice_.partition}"
        outcome: WorkOutcome | None
        try:
            left = _left(index, slice_, key, sightings)
            if left.lost and not accept_loss:
                message = (
                    f"{key}: records {_shown(left.lost)} of {place} are on no store any more: "
                    f"{'; '.join(map(str, sightings))}. "
                    "Put the object back from a backup, or give them up with --accept-loss"
                )
                outcome = WorkOutcome.FAILED
            else:
                outcome, message = _swapped(frame, slice_, left, object_, sightings, stores)
        except SparklogError as error:
            state = frame.connection.newest_state()
            outcome = WorkOutcome.FAILED if _replaced(state, slice_) is not None else WorkOutcome.OVERTAKEN
            message = f"{key}: what is left of {place} could not be saved: {error}"
        for sighting in sightings:
            note(sighting.store, [TopicPartition(slice_.topic_id, slice_.partition)], outcome, message)


class _Remains(msgspec.Struct, frozen=True):
    """The good batches of a slice, and the offsets whose records are lost.

    Each of `runs` has the good batches between two lost ranges, and each batch as a slice of its own. `with_offsets`:
    the object is a compacted segment, which stores the offset of each record.
    """

    runs: tuple[tuple[Slice, ...], ...]
    lost: tuple[OffsetRange, ...]
    with_offsets: bool = False


def _index(stores: Stores, object_: ObjectToVerify, read: Sequence[StoreId]) -> Index | None:
    """Return the object's index from the first of these stores on which it is whole; None if it is whole on none.

    Caches the index for reads of the object from all of these stores.
    """
    key, opened = key_of(object_), list[ObjectStore]()
    for store in read:
        with suppress(SparklogError, KeyError):  # or it was removed: the batches on the others can still be saved
            opened.append(stores.get(store))
    for source in opened:
        with suppress(SparklogError):  # another store may have it
            index = read_index(source, key, object_.named)
            for target in opened:
                keep_index(target, key, object_.named, index)
            return index
    return None


def _left(index: Index | None, slice_: Slice, key: str, sightings: Sequence[Sighting]) -> _Remains:
    """Take each batch of a slice that some store has whole. What lies between good batches is not lost."""
    if index is None:
        return _Remains((), (OffsetRange(slice_.start, slice_.end),))
    part = cut_to_slice(index, slice_, key)
    good = [any(_has(sighting, position) for sighting in sightings) for position in part.batches.position.tolist()]
    starts, ends = part.offsets.starts.tolist(), part.offsets.ends.tolist()
    cuts = [starts[at + 1] if good[at] else ends[at] for at in range(slice_.batches - 1)]
    cuts = [slice_.start, *cuts, slice_.end]  # batch n, or the gap that it leaves, reaches from cut n to cut n + 1
    runs: list[tuple[Slice, ...]] = []
    lost: list[OffsetRange] = []
    for is_good, group in groupby(range(slice_.batches), key=good.__getitem__):
        batches = list(group)
        if is_good:
            runs.append(tuple(_piece(slice_, part, at, cuts[at], cuts[at + 1]) for at in batches))
        else:
            lost.append(OffsetRange(cuts[batches[0]], cuts[batches[-1] + 1]))
    return _Remains(tuple(runs), tuple(lost), index.base_offset is not None)


def _has(sighting: Sighting, position: int) -> bool:
    """True if the batch at this position in the object is whole on the store."""
    of_object = [finding for finding in sighting.findings if finding.part is StoredPart.OBJECT]
    return not any(
        finding.problem is Problem.MISSING or (finding.problem is Problem.BATCH and finding.position == position)
        for finding in of_object
    )


def _piece(slice_: Slice, part: SliceIndex, batch: int, start: Offset, end: Offset) -> Slice:
    """Return one batch of a slice as a slice of its own, from `start` to `end`."""
    of, appended = part.batches, slice_.timestamp_source is TimestampSource.APPEND_TIME
    return msgspec.structs.replace(
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


def _swapped(
    frame: JobFrame,
    slice_: Slice,
    left: _Remains,
    object_: ObjectToVerify,
    sightings: Sequence[Sighting],
    stores: Stores,
) -> tuple[WorkOutcome | None, str]:
    """Rewrite the good batches of a slice, and swap them in. Returns an outcome and a message.

    The outcome is None if they were swapped in, otherwise FAILED, POSTPONED or OVERTAKEN. Raises StoreUnavailable if a
    store was wiped, swapped or unmounted meanwhile, and the errors of reading, uploading and committing.
    """
    key, name = TopicPartition(slice_.topic_id, slice_.partition), key_of(object_)
    place = f"{object_.topic}-{slice_.partition} [{slice_.start}, {slice_.end})"
    state = frame.connection.newest_state()
    partition = state.partitions.get(key)
    if partition is None:
        return WorkOutcome.OVERTAKEN, f"{name}: its topic was deleted"
    if slice_.start < partition.log_start:  # a swap replaces whole slices, and nothing below the log start
        advice = f"put the object back from a backup, or delete the records below offset {slice_.end}"
        return WorkOutcome.FAILED, f"{name}: the log start {partition.log_start} cuts {place}: {advice}"
    if partition.replication.leader is None and left.runs:
        return WorkOutcome.FAILED, (
            f"{name}: what is left of {place} can't be rewritten without a leader: put the object back from "
            "a backup; an unclean election (sparklog replica elect --unclean) gives up all of it, and all after it"
        )
    if partition.replication.leader is None and slice_.end > partition.high_watermark:
        return (
            WorkOutcome.POSTPONED,
            f"{name}: {place} was never committed: the next leader decides about it",
        )
    replaced = _replaced(state, slice_)
    if replaced is None:
        return WorkOutcome.OVERTAKEN, f"{name}: {place} was changed meanwhile"
    if any(sighting.store not in state.stores for sighting in sightings):
        return WorkOutcome.OVERTAKEN, f"{name}: a store that may have {place} was removed meanwhile"
    if left.lost and not set(holders_of(state, slice_)) <= {sighting.store for sighting in sightings}:
        return WorkOutcome.OVERTAKEN, f"{name}: another store holds {place} by now, which was not read"
    target = segment_target(state, key)
    incarnations = {store.store: store.incarnation for store in state.stores.values()}
    lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
    objects: list[NewObject] = []
    slices: list[RewrittenSlice] = []
    holders = tuple(sighting.store for sighting in sightings)
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
    for sighting in sightings if left.lost else ():
        check_incarnation(stores.get(sighting.store), incarnations[sighting.store])
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
        return None, f"{name}: no store had it whole, and {place} was put together again"
    given_up = f"records {_shown(left.lost)} of {object_.topic}-{slice_.partition} were given up (--accept-loss)"
    return None, f"{name}: {given_up}"


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
