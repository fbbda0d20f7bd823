"""What is left of an object that no store has whole: its good batches, from whichever store has each of them.

    each batch read from any store -> none is lost: rewritten as a segment, and swapped in as the roll does
                                   -> some are lost: reported by name; with --accept-loss, a gap in the log

Acknowledged records are never dropped silently. Until somebody accepts the loss, the chain names them, and a reader
gets an error (CORRUPT_MESSAGE, DATA_LOSS), never wrong records. Afterwards the log goes on: the rest of the object is
in a whole segment again, which can be copied, rolled and retained. What is left of a torn tail ends with its last good
batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from sparklog.chain.committer import new_command_id
from sparklog.core.commands import RewrittenSlice, Submission, Swap
from sparklog.core.config.cluster import effective_cluster
from sparklog.core.errors import SparklogError, StoreUnavailable
from sparklog.core.numbering import records_between
from sparklog.core.plan import SliceToRead
from sparklog.core.recovery import holders_of
from sparklog.core.slice_table import digest
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
from sparklog.log.index import Index, SliceIndex, cut_to_slice
from sparklog.log.object_check import Part, Problem
from sparklog.log.object_reader import read_index
from sparklog.log.segment_roll import rewrite
from sparklog.log.store_lanes import StoreLanes
from sparklog.log.stores import Stores
from sparklog.maintenance.frame import JobFrame
from sparklog.maintenance.report import Outcome
from sparklog.maintenance.swapping import segment_target

if TYPE_CHECKING:
    from sparklog.maintenance.repair import Damage

Note = Callable[[StoreId, Collection[TopicPartition], Outcome | None, str], None]


def salvage(frame: JobFrame, damages: Sequence[Damage], note: Note, *, accept_loss: bool) -> None:
    """Save what is left of one object. `damages`: what was found on each of its holders."""
    object_ = damages[0].object
    with frame.connection.follower.current() as state:
        stores = frame.connection.stores(state)
    index = _index(stores, damages)
    for slice_ in dict.fromkeys(slice_ for damage in damages for slice_ in damage.object.slices):
        key = TopicPartition(slice_.topic_id, slice_.partition)
        place = f"{object_.topic}-{slice_.partition}"
        found = "; ".join(map(str, damages))
        outcome: Outcome | None
        try:
            left = _left(index, slice_, damages)
            if index is not None and index.base_offset is not None:
                message = (
                    f"{object_.key}: no store has this compacted segment of {place} whole: {found}. This version does "
                    "not put its good batches together again: put the object back from a backup"
                )
                outcome = Outcome.FAILED
            elif left.lost and not accept_loss:
                message = (
                    f"{object_.key}: records {_shown(left.lost)} of {place} are on no store any more: {found}. Put the "
                    "object back from a backup, or give them up with --accept-loss"
                )
                outcome = Outcome.FAILED
            else:
                outcome, message = _swapped(frame, slice_, left, damages, stores)
        except SparklogError as error:
            outcome, message = Outcome.FAILED, f"{object_.key}: what is left of it could not be saved: {error}"
        for damage in damages:
            note(damage.store, [key], outcome, message)


class _Left(msgspec.Struct, frozen=True):
    """The good batches of a slice, each as a slice of its own, in runs without a gap; and what is lost."""

    runs: tuple[tuple[Slice, ...], ...]
    lost: tuple[OffsetRange, ...]


def _index(stores: Stores, damages: Sequence[Damage]) -> Index | None:
    """The index of the object, from any of its holders."""
    for damage in damages:
        try:
            return read_index(stores.get(damage.store), damage.object.key, damage.object.named)
        except SparklogError:
            continue
    return None


def _left(index: Index | None, slice_: Slice, damages: Sequence[Damage]) -> _Left:
    whole = OffsetRange(slice_.start, slice_.end)
    if index is None:
        return _Left((), (whole,))
    part = cut_to_slice(index, slice_, damages[0].object.key)
    good = np.zeros(slice_.batches, dtype=np.bool_)
    for damage in damages:
        good |= _good(part, damage)
    runs: list[list[Slice]] = []
    lost: list[OffsetRange] = []
    at = slice_.start
    for batch in np.flatnonzero(good).tolist():
        piece = _piece(slice_, part, batch)
        if piece.start > at:
            lost.append(OffsetRange(at, piece.start))
        if piece.start > at or not runs:
            runs.append([])
        runs[-1].append(piece)
        at = piece.end
    if at < slice_.end:
        lost.append(OffsetRange(at, slice_.end))
    return _Left(tuple(map(tuple, runs)), tuple(lost))


def _good(part: SliceIndex, damage: Damage) -> np.typing.NDArray[np.bool_]:
    """Which batches of a slice are whole on a store."""
    problems = {finding.problem for finding in damage.check.findings if finding.part is Part.OBJECT}
    if Problem.MISSING in problems:
        return np.zeros(len(part.batches), dtype=np.bool_)
    bad = [finding.position for finding in damage.check.findings if finding.problem is Problem.BATCH]
    return ~np.isin(part.batches.position, np.array(bad, dtype=np.int64))


def _piece(slice_: Slice, part: SliceIndex, batch: int) -> Slice:
    """One batch of a slice, as a slice."""
    of, start, end = part.batches, int(part.offsets.starts[batch]), int(part.offsets.ends[batch])
    appended = slice_.timestamp_source is TimestampSource.APPEND_TIME
    return msgspec.structs.replace(
        slice_,
        start=Offset(start),
        end=Offset(end),
        records=records_between(start, end),
        position=int(of.position[batch]),
        length=int(of.length[batch]),
        first_batch=slice_.first_batch + batch,
        batches=1,
        min_timestamp_us=slice_.min_timestamp_us if appended else int(of.min_timestamp_us[batch]),
        max_timestamp_us=slice_.max_timestamp_us if appended else int(of.max_timestamp_us[batch]),
    )


def _swapped(
    frame: JobFrame, slice_: Slice, left: _Left, damages: Sequence[Damage], stores: Stores
) -> tuple[Outcome | None, str]:
    """Rewrite what is left of a slice, and swap it in. Returns the outcome, and what to say."""
    object_ = damages[0].object
    key = TopicPartition(slice_.topic_id, slice_.partition)
    place = f"{object_.topic}-{slice_.partition} [{slice_.start}, {slice_.end})"
    with frame.connection.follower.current() as state:
        partition = state.partitions.get(key)
        if partition is None:
            return Outcome.OVERTAKEN, f"{object_.key}: its topic was deleted"
        replaced = state.slices.find(key, OffsetRange(slice_.start, slice_.end))
        if list(replaced) != [slice_]:
            return Outcome.OVERTAKEN, f"{object_.key}: {place} was changed meanwhile"
        if left.lost and not set(holders_of(state, slice_)) <= {damage.store for damage in damages}:
            return Outcome.OVERTAKEN, f"{object_.key}: another store holds {place} by now, which was not read"
        target = segment_target(state, key)
        incarnations = {store.store: store.incarnation for store in state.stores.values()}
        lag_ms = effective_cluster(state.config).replica_lag_time_max_ms
    objects: list[NewObject] = []
    slices: list[RewrittenSlice] = []
    lanes = StoreLanes(stores, incarnations, lag_ms)
    holders = tuple(damage.store for damage in damages)
    for run in left.runs:
        parts = [SliceToRead(piece, object_.named, holders) for piece in run]
        rewritten = rewrite(parts, target, stores, lanes, lambda: UploadId(new_id()))
        slices += [_shifted(new, len(objects)) for new in rewritten.slices]
        objects += rewritten.objects
    lanes.close()
    swapped = lanes.in_another_life()
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
        return Outcome.FAILED, f"{object_.key}: what is left of {place} could not be swapped in: {result}"
    if not left.lost:
        return None, f"{object_.key}: no store had it whole, and {place} was put together again"
    given_up = f"records {_shown(left.lost)} of {object_.topic}-{slice_.partition} were given up (--accept-loss)"
    return None, f"{object_.key}: {given_up}"


def _shown(ranges: Sequence[OffsetRange]) -> str:
    return ", ".join(f"[{range_.start}, {range_.end})" for range_ in ranges)


def _shifted(rewritten: RewrittenSlice, objects: int) -> RewrittenSlice:
    """The slice behind so many other objects of its command."""
    new = msgspec.structs.replace(rewritten.new, object_index=rewritten.new.object_index + objects)
    return msgspec.structs.replace(rewritten, new=new)
