"""Assemble the objects of one topic on one set of stores, and upload them.

    rows -> pending per partition -> encoded batches, held per partition -> object closed -> uploaded

Encoded batches are held until their object is closed, because in an object the batches of a partition must follow each
other, so that one ranged read gets them. An uploaded object is not part of the log until a commit names it. An object
that no commit names is an orphan, which vacuum removes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

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
from sparklog.log.stored_schema import RAW, StoredSchema
from sparklog.log.write.open_object import OpenObject, not_yet_written
from sparklog.log.write.raw_rows import cuts, joined
from sparklog.log.write.routing import PartitionRows
from sparklog.log.write.row_sizes import raw_sums
from sparklog.log.write.store_lanes import StoreLanes
from sparklog.log.write.task_memory import LIMITS, TaskMemory, TopicMemory, WriterLimits


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The topic that a task writes to, as of chain entry `n0`."""

    topic_id: TopicId
    topic: str
    partitions: int
    max_message_bytes: int
    n0: EntryNumber


@dataclass(slots=True)
class _Pending:
    """Rows of one partition waiting to be encoded. `size_bytes` is their size before encoding."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class ObjectsWriter:
    """Writes the objects of one topic to the stores of `holders`. Not thread-safe.

    Call `add`, then `encode_if_full`, `unpin` and `stream`, any number of times; at the end `close`. `close` may also
    be called in between: the next record begins another object. `stream` and `close` raise what an upload raises.

    Within a partition, records keep the order in which they were added, even across objects. `written` has the uploaded
    objects in the order of writing, each with its slices, ascending by partition. An object is added to it when `task`
    has waited for its upload. A slice's `object_index` is a position in this list. `new_upload_id` is called once for
    each attempt to upload an object. Rows and objects have the columns of `schema`.
    """

    def __init__(
        self,
        lanes: StoreLanes,
        task: TaskMemory,
        topic: TopicMemory,
        target: WriteTarget,
        holders: Sequence[Holder],
        *,
        new_upload_id: Callable[[], UploadId],
        compression: str,
        schema: StoredSchema = RAW,
    ) -> None:
        self.written: list[tuple[NewObject, list[NewSlice]]] = []
        self._lanes = lanes
        self._task = task
        self._topic = topic
        self._target = target
        self._holders = holders
        self._has_one_store = len(holders) == 1
        self._new_upload_id = new_upload_id
        self._schema = schema
        self._encoder = BatchEncoder(compression, schema)
        self._pending: dict[PartitionIndex, _Pending] = {}
        self._pending_bytes = 0
        self._held: dict[PartitionIndex, list[EncodedBatch]] = {}
        self._held_bytes = 0
        self._open: OpenObject | None = None  # the current object, if the stores already have a part of it

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
        limits = self._task.limits
        size = piece.size_bytes + self._schema.row_bytes * piece.rows.num_rows
        pending = self._pending.get(piece.partition)
        if pending is None:
            pending = self._pending[piece.partition] = _Pending()
            self._task.open_partitions += 1
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
                pending.pieces = [joined([*pending.pieces, pending.pieces[0].slice(0, 0)], self._schema)]

    def _encode(self, partition: PartitionIndex) -> None:
        """Encode all pending rows of the partition, as batches of about equal size."""
        pending = self._pending[partition]
        rows = joined(pending.pieces, self._schema)
        self._pending[partition] = _Pending()
        self._count_pending(-pending.size_bytes)
        held = self._held.setdefault(partition, [])
        largest = self._task.limits.largest_batch_bytes
        fits = pending.size_bytes <= largest
        place = TopicPartition(self._target.topic_id, partition)
        for start, end in [(0, rows.num_rows)] if fits else cuts(raw_sums(rows, self._schema), largest):
            batch = self._encoder.encode(place, rows.slice(start, end - start))
            held.append(batch)
            self._count_held(batch.message.size)

    def _count_pending(self, size_bytes: int) -> None:
        self._pending_bytes += size_bytes
        self._topic.pending_bytes += size_bytes
        self._task.pending_bytes += size_bytes

    def _count_held(self, size_bytes: int) -> None:
        self._held_bytes += size_bytes
        self._task.held_bytes += size_bytes

    # ---- held -> closed -> uploaded -----------------------------------------------------------------

    @property
    def _streamed_bytes(self) -> int:
        return 0 if self._open is None else self._open.batch_bytes

    def stream(self) -> None:
        """Hand the batches that are held in memory to the stores, as a part of the current object.

        Does nothing if they are smaller than `WriterLimits.streamed_from_bytes`. Call this only for a topic with one
        partition: with several, later batches of another partition might belong before these in the object.
        """
        if self._held_bytes < self._task.limits.streamed_from_bytes:
            return
        if self._open is None:
            self._open = self._begin(here=self._has_one_store, streamed=True)
            self._task.streaming.append(self._open)
        for batch in self._held.pop(PartitionIndex(0)):
            self._open.append(batch)
            self._task.streamed_bytes += batch.message.size
        self._count_held(-self._held_bytes)
        if self._has_one_store:
            self._encoder.rewind()

    def close(self, *, here: bool = False) -> None:
        """End the current object and, unless it is empty, start its upload.

        First waits until the running uploads leave room for it. The stores' own threads upload. With `here`, and only
        if there is a single store, the calling thread does.
        """
        waiting_bytes = 0 if self._open is None else self._open.held_bytes
        self._task.make_room_for_upload(self._pending_bytes + self._held_bytes + waiting_bytes)
        batches = self._take_batches()
        here = here and self._has_one_store
        if self._open is not None:
            closed = self._open
            self._task.streamed_bytes -= closed.batch_bytes
            if not here:
                closed.continue_in_background()
        elif batches:
            closed = self._open = self._begin(here=here, streamed=False)
        else:
            return
        for batch in batches:
            closed.append(batch)
        closed.close()
        self._task.uploads(closed, self.written)
        self._open = None

    def _take_batches(self) -> list[EncodedBatch]:
        """Encode the pending rows. Return the object's batches that were not streamed, ascending by partition."""
        for partition, pending in self._pending.items():
            if pending.pieces:
                self._encode(partition)
        batches = [batch for partition in sorted(self._held) for batch in self._held[partition]]
        self._task.open_partitions -= len(self._pending)
        self._pending, self._held = {}, {}
        self._count_held(-self._held_bytes)
        if not self._topic.pending_bytes:
            self._task.pinned_bytes -= self._topic.pinned_bytes
            self._topic.pinned_bytes = 0
        self._encoder.forget()
        pa.default_memory_pool().release_unused()
        return batches

    def _begin(self, *, here: bool, streamed: bool) -> OpenObject:
        target = self._target
        upload_id = self._new_upload_id()
        named = not_yet_written(ObjectKind.APPEND, target.n0, upload_id, target.topic_id, self._holders)
        again = None if streamed else self._new_upload_id
        return OpenObject(self._lanes, named, target.topic, here=here, new_upload_id=again, schema=self._schema)


class TaskObjects:
    """All objects of one task. `memory` counts the bytes they occupy. Not thread-safe.

    Add each new ObjectsWriter to `writers`. Both methods raise what an upload raises.
    """

    def __init__(self, lanes: StoreLanes, limits: WriterLimits = LIMITS) -> None:
        self.lanes = lanes
        self.memory = TaskMemory(limits)
        self.writers: list[ObjectsWriter] = []

    def close_largest(self) -> None:
        """Close the largest objects until all open objects together are smaller than one object may be."""
        while self.memory.is_full:
            max(self.writers, key=lambda writer: writer.size_bytes).close()

    def finish(self) -> None:
        """Close all objects, and wait until they are uploaded.

        If there is only one object writer, and it has a single store, the calling thread uploads the last object.
        """
        alone = len(self.writers) == 1
        if alone:
            self.memory.await_all()
        for writer in self.writers:
            writer.close(here=alone)
        self.memory.await_all()
