"""Assemble the objects of one topic on one set of stores, and upload them.

    rows -> pending per partition -> encoded batches, held per partition -> object closed -> uploaded

Encoded batches are held until their object is closed, because in an object the batches of a partition must follow each
other, so that one ranged read gets them. An uploaded object is not part of the log until a commit names it. An object
that no commit names is an orphan, which vacuum removes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from sparklog.core.errors import KeyExists, OutcomeUnknown
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NewObject,
    NewSlice,
    ObjectKind,
    PartitionIndex,
    TopicId,
    TopicPartition,
    UploadId,
)
from sparklog.log.batch import BatchEncoder, EncodedBatch
from sparklog.log.write.open_object import OpenObject, not_yet_written, slices_of
from sparklog.log.write.raw_rows import cuts, joined
from sparklog.log.write.routing import PartitionRows
from sparklog.log.write.row_sizes import ROW_BYTES, raw_sums
from sparklog.log.write.task_objects import TaskObjects

UPLOAD_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The topic that a task writes to, as of chain entry `n0`."""

    topic_id: TopicId
    topic: str
    partitions: int
    max_message_bytes: int
    n0: EntryNumber


@dataclass(slots=True)
class TopicMemory:
    """The memory of one topic's rows that are not encoded yet.

    `pending_bytes`: the rows themselves. `pinned_bytes`: an upper bound of what they keep alive, because they may be
    Arrow slices of larger batches.
    """

    pending_bytes: int = 0
    pinned_bytes: int = 0


@dataclass(slots=True)
class _Pending:
    """Rows of one partition waiting to be encoded. `size_bytes` is their size before encoding."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class ObjectsWriter:
    """Writes the objects of one topic to the stores of `holders`. Not thread-safe.

    Within a partition, records keep the order in which they were added, even across objects. `written` has the uploaded
    objects in the order of writing, each with its slices, ascending by partition. A slice's `object_index` is a
    position in this list. `new_upload_id` is called once for each attempt to upload an object.
    """

    def __init__(
        self,
        objects: TaskObjects,
        memory: TopicMemory,
        target: WriteTarget,
        holders: Sequence[Holder],
        *,
        new_upload_id: Callable[[], UploadId],
        compression: str,
    ) -> None:
        self.written: list[tuple[NewObject, list[NewSlice]]] = []
        self._objects = objects
        self._memory = memory
        self._target = target
        self._holders = holders
        self._new_upload_id = new_upload_id
        self._encoder = BatchEncoder(compression)
        self._pending: dict[PartitionIndex, _Pending] = {}
        self._pending_bytes = 0
        self._held: dict[PartitionIndex, list[EncodedBatch]] = {}
        self._held_bytes = 0
        self._open: OpenObject | None = None  # the current object, if a part of it was already streamed
        self._closed_objects = 0
        objects.writers.append(self)

    @property
    def size_bytes(self) -> int:
        """The size of the current object so far. Rows that are not encoded yet count with their raw size."""
        return self._pending_bytes + self._held_bytes + self._streamed_bytes

    # ---- pending -> held ----------------------------------------------------------------------------

    def add(self, piece: PartitionRows) -> None:
        """Add rows to the pending rows of their partition.

        If both together would exceed the maximum size of a batch, the rows that were pending are encoded first, unless
        they are smaller than `smallest_full_batch_bytes`.
        """
        limits = self._objects.limits
        size = piece.size_bytes + ROW_BYTES * piece.rows.num_rows
        pending = self._pending.get(piece.partition)
        if pending is None:
            pending = self._pending[piece.partition] = _Pending()
            self._objects.open_partitions += 1
        enough = limits.smallest_full_batch_bytes
        if pending.size_bytes >= enough and pending.size_bytes + size > limits.largest_batch_bytes:
            # Joining them would copy both, only to cut them again.
            self._encode(piece.partition)
            pending = self._pending[piece.partition]
        pending.pieces.append(piece.rows)
        pending.size_bytes += size
        self._count_pending(size)

    def encode_if_full(self, partition: PartitionIndex, full_bytes: int) -> None:
        """Encode the pending rows of the partition if they have reached `full_bytes`."""
        if self._pending[partition].size_bytes >= full_bytes:
            self._encode(partition)

    def unpin(self) -> None:
        """Copy the pending rows, so that the larger batches of which they are slices can be freed."""
        for pending in self._pending.values():
            if pending.pieces:
                # Arrow copies only if there are two pieces, so add an empty one.
                pending.pieces = [joined([*pending.pieces, pending.pieces[0].slice(0, 0)])]

    def _encode(self, partition: PartitionIndex) -> None:
        """Encode all pending rows of the partition, as batches of about equal size."""
        pending = self._pending[partition]
        rows = joined(pending.pieces)
        self._pending[partition] = _Pending()
        self._count_pending(-pending.size_bytes)
        held = self._held.setdefault(partition, [])
        largest = self._objects.limits.largest_batch_bytes
        fits = pending.size_bytes <= largest
        place = TopicPartition(self._target.topic_id, partition)
        for start, end in [(0, rows.num_rows)] if fits else cuts(raw_sums(rows), largest):
            batch = self._encoder.encode(place, rows.slice(start, end - start))
            held.append(batch)
            self._count_held(batch.message.size)

    def _count_pending(self, size_bytes: int) -> None:
        self._pending_bytes += size_bytes
        self._memory.pending_bytes += size_bytes
        self._objects.pending_bytes += size_bytes

    def _count_held(self, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        self._objects.held_bytes += size_bytes

    # ---- held -> closed -> uploaded -----------------------------------------------------------------

    @property
    def _streamed_bytes(self) -> int:
        return 0 if self._open is None else self._open.batch_bytes

    def stream(self) -> None:
        """Write the batches that are held in memory to the current object on its store, and reuse their memory.

        Does nothing if they are smaller than `WriterLimits.streamed_from_bytes`, or if the object has several stores.
        Call this only for a topic with one partition: with several, later batches of another partition might belong
        before these in the object.
        """
        if self._held_bytes < self._objects.limits.streamed_from_bytes or len(self._holders) > 1:
            return
        if self._open is None:
            self._open = self.begin(here=True)
        for batch in self._held.pop(PartitionIndex(0)):
            self._open.append(batch)
            self._objects.streamed_bytes += batch.message.size
        self._count_held(-self._held_bytes)
        self._encoder.rewind()

    def close(self, *, here: bool = False) -> None:
        """End the current object and, unless it is empty, start its upload.

        First waits until the running uploads leave room for it. The stores' own threads upload. With `here`, and only
        if there is a single store, the calling thread does.
        """
        self._objects.make_room_for_upload(self._pending_bytes + self._held_bytes)
        batches = self._take_batches()
        if not batches and self._open is None:
            return
        uploading = Uploading(self, self._open, batches, self._closed_objects, here=here and len(self._holders) == 1)
        self._objects.streamed_bytes -= self._streamed_bytes
        self._closed_objects += 1
        self._open = None
        uploading.start()
        self._objects.uploads(uploading)

    def _take_batches(self) -> list[EncodedBatch]:
        """Encode the pending rows. Return the object's batches that were not streamed, ascending by partition."""
        for partition, pending in self._pending.items():
            if pending.pieces:
                self._encode(partition)
        batches = [batch for partition in sorted(self._held) for batch in self._held[partition]]
        self._objects.open_partitions -= len(self._pending)
        self._pending, self._held = {}, {}
        self._count_held(-self._held_bytes)
        if not self._memory.pending_bytes:
            self._objects.pinned_bytes -= self._memory.pinned_bytes
            self._memory.pinned_bytes = 0
        self._encoder.forget()
        pa.default_memory_pool().release_unused()
        return batches

    def begin(self, *, here: bool) -> OpenObject:
        """Begin an object under a new name. With `here`, the calling thread writes it, else the stores' own threads."""
        target = self._target
        upload_id = self._new_upload_id()
        named = not_yet_written(ObjectKind.APPEND, target.n0, upload_id, target.topic_id, self._holders)
        return OpenObject(self._objects.lanes, named, target.topic, here=here)


class Uploading:
    """A closed object that is being uploaded. `batches`: those that were not streamed to the store before."""

    def __init__(
        self,
        writer: ObjectsWriter,
        streamed: OpenObject | None,
        batches: Sequence[EncodedBatch],
        object_index: int,
        *,
        here: bool,
    ) -> None:
        self.size_bytes = sum(batch.message.size for batch in batches)
        self._writer = writer
        self._open = streamed
        self._attempts = 1 if streamed is not None else UPLOAD_ATTEMPTS
        self._batches = batches
        self._object_index = object_index
        self._here = here

    @property
    def is_over(self) -> bool:
        """True if `wait` has nothing to wait for."""
        return self._open is not None and self._open.is_over

    def start(self) -> None:
        """Make one attempt to upload: hand all batches to the stores, and let them publish the object."""
        self._attempts -= 1
        if self._open is None:
            self._open = self._writer.begin(here=self._here)
        elif not self._here:
            self._open.continue_in_background()
        for batch in self._batches:
            self._open.append(batch)
        self._open.close()

    def wait(self) -> None:
        """Wait for the stores, and add the object to the writer's `written`.

        If a store may have the object and none has it for sure, the object is uploaded again under another name, at
        most UPLOAD_ATTEMPTS times in all; vacuum removes the earlier ones. After the last attempt, the error is
        raised. A streamed object has only one attempt, because its batches are not in memory any more.
        """
        while True:
            assert self._open is not None
            try:
                named, index = self._open.published()
            except (KeyExists, OutcomeUnknown):
                if not self._attempts:
                    raise
                self._open = None
                self.start()
                continue
            self._writer.written.append((named, slices_of(self._object_index, named, index)))
            self._batches = ()
            return
