"""A data object that is being written: batches are added, then the object and its index are published on its stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from sparklog.core.errors import KeyExists, OutcomeUnknown
from sparklog.core.types import (
    EntryNumber,
    Holder,
    LeaderEpoch,
    NewObject,
    NewSlice,
    ObjectKind,
    Offset,
    OffsetRange,
    PartitionIndex,
    TopicId,
    UploadId,
)
from sparklog.log.batch import EncodedBatch, crc32c
from sparklog.log.index import BatchRow, Index, encode_index, index_of
from sparklog.log.ipc_file import IpcFileWriter
from sparklog.log.stored_schema import RAW, StoredSchema
from sparklog.log.write.replicated_upload import ReplicatedUpload
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.storage.keys import data_key

UPLOAD_ATTEMPTS: Final = 3
_BACKLOG_BYTES: Final = 16 << 20  # how far a store may be behind the fastest before the writer waits for it


class OpenObject:
    """Writes one data object. Call `append` any number of times, then `close` and `published`; or `abort` at any time.

    Append all batches of one partition before those of the next, with the columns of `schema`. `named` gives the
    object's name and its intended stores; sizes and checksums are computed here. `batch_bytes` is the size of the
    batches so far, without the file's header and footer. It has no limit here: the caller keeps it within its own, such
    as `segment.bytes`.

    With `here`, which needs a single store, the calling thread does all work. Otherwise each store has a thread for it.

    With `new_upload_id`, all batches stay in memory until the object is published, so that it can be uploaded again
    under another name. Without, the object is streamed: a batch is dropped once every store has taken it, and `append`
    waits while any store is too far behind the fastest one. `held_bytes` is the size of what is in memory.
    """

    def __init__(
        self,
        lanes: StoreLanes,
        named: NewObject,
        topic: str,
        *,
        here: bool,
        new_upload_id: Callable[[], UploadId] | None = None,
        schema: StoredSchema = RAW,
    ) -> None:
        self.batch_bytes = 0
        self._named = named
        self._topic = topic
        self._new_upload_id = new_upload_id
        self._upload = ReplicatedUpload(
            lanes,
            [holder.store for holder in named.holders],
            data_key(named, topic),
            here=here,
            backlog_bytes=_BACKLOG_BYTES if new_upload_id is None else None,
        )
        self._file = IpcFileWriter(self._upload, schema.arrow)
        self._rows: list[BatchRow] = []
        self._crcs: list[int] = []
        self._offsets: list[tuple[int, int]] | None = None if schema.offset is None else []
        self._index: Index | None = None

    def continue_in_background(self) -> None:
        """Let each store do all further work in a thread, instead of the calling thread."""
        self._upload.continue_in_background()

    def append(self, batch: EncodedBatch) -> None:
        """Add a batch at the end.

        Its message must stay unchanged until the stores have taken it. If the calling thread does the upload, the
        store has taken it when this returns.
        """
        position = self._file.append(batch.message)
        size = batch.message.size
        self._rows.append(
            (
                self._named.topic_id,
                batch.partition,
                batch.records,
                position,
                size,
                batch.min_timestamp_us,
                batch.max_timestamp_us,
            )
        )
        self._crcs.append(batch.crc32c)
        if self._offsets is not None:
            assert batch.offsets is not None
            self._offsets.append(batch.offsets)
        self.batch_bytes += size

    def close(self) -> None:
        """Let the stores publish the object and its index. Don't append batches after this."""
        self._file.finish()
        self._index = index_of(self._rows, self._crcs, self._offsets)
        body = encode_index(self._index)
        self._named = msgspec.structs.replace(
            self._named,
            size_bytes=self._file.position,
            crc32c=self._file.crc32c,
            index_size_bytes=body.size,
            index_crc32c=crc32c(body),
        )
        self._upload.publish(memoryview(body))

    @property
    def held_bytes(self) -> int:
        return self._upload.held_bytes

    @property
    def is_over(self) -> bool:
        """True if `published` has nothing to wait for."""
        return self._upload.is_over

    def published(self) -> tuple[NewObject, Index]:
        """Wait for the stores, and return the object and its index.

        The holders of the returned object are the stores that have both, durably. If a store may have the object and
        none has it for sure, the object is uploaded again under another name, at most UPLOAD_ATTEMPTS times in all;
        vacuum removes the earlier ones. Raises what `ReplicatedUpload.holders` raises. A streamed object has only one
        attempt, because its batches are not in memory any more.
        """
        assert self._index is not None
        for attempts_left in reversed(range(1 if self._new_upload_id is None else UPLOAD_ATTEMPTS)):
            try:
                stores = self._upload.holders()
                break
            except (KeyExists, OutcomeUnknown):
                if not attempts_left or self._new_upload_id is None:
                    raise
                self._named = msgspec.structs.replace(self._named, upload_id=self._new_upload_id())
                self._upload.begin(data_key(self._named, self._topic))
        holders = tuple(holder for holder in self._named.holders if holder.store in stores)
        return msgspec.structs.replace(self._named, holders=holders), self._index

    def abort(self) -> None:
        """Drop what was written. May be called at any time, even twice. Does nothing after the object was published."""
        self._upload.abort()


def not_yet_written(
    kind: ObjectKind,
    n0: EntryNumber,
    upload_id: UploadId,
    topic_id: TopicId,
    holders: Sequence[Holder],
    *,
    partition: PartitionIndex | None = None,
    base_offset: Offset | None = None,
    leader_epoch: LeaderEpoch | None = None,
) -> NewObject:
    """Describe an object for `OpenObject`: its name and its intended stores. Sizes and checksums are 0.

    For a SEGMENT, also give `partition`, `base_offset` and `leader_epoch`; for an APPEND, none of these.
    """
    return NewObject(
        kind=kind,
        n0=n0,
        upload_id=upload_id,
        topic_id=topic_id,
        size_bytes=0,
        crc32c=0,
        index_size_bytes=0,
        index_crc32c=0,
        holders=tuple(holders),
        partition=partition,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def slices_of(object_index: int, named: NewObject, index: Index) -> list[NewSlice]:
    """Return the slices of a whole object, one for each of its partitions, in the order of their bytes.

    `object_index`: the object's position in the list of objects of the command that is to name it. If an append object
    stores offsets, its slices name them, from the first record to the last one.
    """
    named_offsets = named.kind is ObjectKind.APPEND and index.base_offset is not None
    firsts = np.flatnonzero(np.diff(index.partition, prepend=-1))
    ends = np.append(firsts[1:], len(index))
    slices = []
    for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        position = int(index.position[first])
        slices.append(
            NewSlice(
                object_index=object_index,
                topic_id=named.topic_id,
                partition=PartitionIndex(int(index.partition[first])),
                records=int(index.records[first:end].sum()),
                position=position,
                length=int(index.position[end - 1] + index.length[end - 1]) - position,
                first_batch=first,
                batches=end - first,
                min_timestamp_us=int(index.min_timestamp_us[first:end].min()),
                max_timestamp_us=int(index.max_timestamp_us[first:end].max()),
                offsets=_offsets(index, first, end) if named_offsets else None,
            )
        )
    return slices


def _offsets(index: Index, first: int, end: int) -> OffsetRange:
    assert index.base_offset is not None
    assert index.last_offset is not None
    return OffsetRange(Offset(int(index.base_offset[first])), Offset(int(index.last_offset[end - 1]) + 1))
