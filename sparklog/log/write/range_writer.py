"""Writes encoded batches of one partition, whose records keep their offsets, as objects with one slice each."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from sparklog.core.errors import InvalidInput
from sparklog.core.row_offsets import offset_after
from sparklog.core.types import (
    Holder,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    TimestampSource,
    UploadId,
)
from sparklog.log.batch import EncodedBatch
from sparklog.log.stored_schema import RAW, RAW_WITH_OFFSETS
from sparklog.log.write.objects_writer import WriteTarget
from sparklog.log.write.open_object import OpenObject, not_yet_written, slices_of
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.log.write.task_memory import LIMITS


class RangeWriter:
    """Writes a range of offsets that begins at `next_offset`. Call `append` any number of times, then `finish`.

    A slice covers the empty offsets before each of its records. Batches without stored offsets are dense: they begin at
    the offset after the batch before. The methods raise what an upload raises.
    """

    def __init__(
        self,
        lanes: StoreLanes,
        target: WriteTarget,
        partition: PartitionIndex,
        holders: tuple[Holder, ...],
        next_offset: Offset,
        new_upload_id: Callable[[], UploadId],
    ) -> None:
        self._lanes = lanes
        self._target = target
        self._partition = partition
        self._holders = holders
        self._start = self._next_offset = next_offset
        self._new_upload_id = new_upload_id
        self._open: OpenObject | None = None
        self._kind: tuple[bool, TimestampSource] | None = None  # of the last object: if it stores offsets, which times
        self._objects: list[NewObject] = []
        self._slices: list[NewSlice] = []

    def append(self, batch: EncodedBatch, first: Offset, source: TimestampSource) -> None:
        """Append a batch, whose first record has offset `first`.

        Raises InvalidInput unless it follows the batch before.
        """
        stores_offsets = batch.offsets is not None
        if first < self._next_offset or (not stores_offsets and first != self._next_offset):
            place = f"{self._target.topic}-{self._partition}"
            raise InvalidInput(f"{place}: wanted records from offset {self._next_offset} on, found {first}")
        full = self._open is not None and self._open.batch_bytes + batch.message.size > LIMITS.object_bytes
        if full or self._kind != (stores_offsets, source):
            self._close()
        if self._open is None:
            self._kind = stores_offsets, source
            self._open = self._begin()
        self._open.append(batch)
        last = batch.offsets[1] if batch.offsets is not None else first + batch.records - 1
        self._next_offset = offset_after(Offset(last), 1)

    def finish(self, end: Offset) -> tuple[tuple[NewObject, ...], tuple[NewSlice, ...]]:
        """Publish the open object. Return all objects and slices, with their offsets up to `end`.

        Empty offsets after the last record are left to the next write if the last object stores no offsets.
        """
        self._close()
        slices = self._slices
        if slices and self._kind is not None and self._kind[0]:
            slices = [*slices[:-1], replace(slices[-1], offsets=OffsetRange(_range(slices[-1]).start, end))]
        return tuple(self._objects), tuple(slices)

    def abort(self) -> None:
        """Drop the open object. Those that were published become orphans."""
        if self._open is not None:
            self._open.abort()

    def _begin(self) -> OpenObject:
        target = self._target
        assert self._kind is not None
        named = not_yet_written(ObjectKind.APPEND, target.n0, self._new_upload_id(), target.topic_id, self._holders)
        schema = RAW_WITH_OFFSETS if self._kind[0] else RAW
        return OpenObject(self._lanes, named, target.topic, here=len(self._holders) == 1, schema=schema)

    def _close(self) -> None:
        if self._open is None:
            return
        assert self._kind is not None
        self._open.close()
        named, index = self._open.published()
        (new,) = slices_of(len(self._objects), named, index)
        offsets = OffsetRange(self._start, self._next_offset)
        self._objects.append(named)
        self._slices.append(replace(new, offsets=offsets, timestamp_source=self._kind[1]))
        self._start = self._next_offset
        self._open = None


def _range(slice_: NewSlice) -> OffsetRange:
    assert slice_.offsets is not None
    return slice_.offsets
