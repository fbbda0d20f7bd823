"""Write the rows of one task to one topic: each row to its partition, each partition to the stores that hold it.

    rows added -> gathered -> split by partition -> the object writer for the partition's set of stores

Rows are hashed, sorted and copied at most once, even if the topic's partitions have many sets of stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.errors import NoReplicaOnline
from sparklog.core.types import Holder, NewObject, NewSlice, PartitionIndex, UploadId
from sparklog.log.stored_schema import RAW, TIMESTAMP, StoredSchema
from sparklog.log.write.objects_writer import ObjectsWriter, TaskObjects, WriteTarget
from sparklog.log.write.raw_rows import cuts
from sparklog.log.write.routing import split
from sparklog.log.write.row_sizes import check_sizes, cumulative_bytes, raw_sums
from sparklog.log.write.task_memory import TopicMemory


class TopicWriter:
    """Writes rows to a topic. Call `add` any number of times, then `split_gathered`, `objects.finish` and `written`.

    Not thread-safe. `stores` returns the stores to write a partition to. `now_us` is called once for each added batch
    with null timestamps. `sticky`, modulo the number of partitions, is the partition for the first keyless records;
    with each call of `split_gathered` it moves to the next partition. Rows have the columns of `schema`.
    """

    def __init__(
        self,
        objects: TaskObjects,
        target: WriteTarget,
        stores: Callable[[PartitionIndex], tuple[Holder, ...]],
        *,
        new_upload_id: Callable[[], UploadId],
        now_us: Callable[[], int],
        sticky: int = 0,
        compression: str = "zstd",
        schema: StoredSchema = RAW,
    ) -> None:
        self._objects = objects
        self._task = objects.memory
        self._limits = objects.memory.limits
        self._target = target
        self._stores = stores
        self._new_upload_id = new_upload_id
        self._now_us = now_us
        self._sticky = sticky
        self._compression = compression
        self._schema = schema
        self._rows_to_gather = self._limits.rows_to_gather(target.partitions)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._memory = TopicMemory()  # a part of the task's
        self._writers: dict[tuple[Holder, ...], ObjectsWriter] = {}
        self._writer_of: dict[PartitionIndex, ObjectsWriter] = {}

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows with the columns of the schema, and maybe `PARTITION`. Timestamps may be null.

        Raises RecordTooLarge, UnknownTopicOrPartition, NoReplicaOnline, and what an upload raises.
        """
        if not rows.num_rows:
            return
        check_sizes(rows, self._schema, self._target.topic, self._target.max_message_bytes)
        ends = np.array([0, rows.num_rows])
        first, end = cumulative_bytes(rows, self._schema, ends, self._schema.element_bytes).tolist()
        size = end - first + self._schema.row_bytes * rows.num_rows
        rows = self._with_timestamps(rows)
        if rows.num_rows <= self._limits.most_gathered_rows and size <= self._limits.gather_bytes:
            self._gather(rows, size)
            return
        sums = raw_sums(rows, self._schema)
        for start, end in cuts(sums, self._limits.gather_bytes, self._limits.most_gathered_rows):
            self._gather(rows.slice(start, end - start), int(sums[end] - sums[start]))

    def split_gathered(self) -> None:
        """Split the gathered rows by partition, and hand them to the object writers."""
        if not self._gathered_rows:
            return
        self._task.make_room(3 * self._gathered_bytes)  # the rows as added, joined, and taken
        rows = pa.concat_batches(self._gathered) if len(self._gathered) > 1 else self._gathered[0]
        self._gathered = []
        sticky = PartitionIndex(self._sticky % self._target.partitions)
        self._sticky += 1
        pieces = split(rows, self._schema, self._target.topic, self._target.partitions, sticky)
        del rows
        self._pin(self._gathered_bytes)
        self._gathered_rows = self._gathered_bytes = 0
        writers = [self._writer(piece.partition) for piece in pieces]
        for writer, piece in zip(writers, pieces, strict=True):
            writer.add(piece)
        full_bytes = self._limits.bytes_to_encode(self._task.open_partitions)
        for writer, piece in zip(writers, pieces, strict=True):
            writer.encode_if_full(piece.partition, full_bytes)
        del pieces
        if self._task.is_full:
            self._objects.close_largest()
        elif self._target.partitions == 1:
            writers[0].stream()
        if self._memory.pinned_bytes - self._memory.pending_bytes > self._limits.pinned_in_vain_bytes:
            self._unpin()

    def written(self) -> list[tuple[NewObject, list[NewSlice]]]:
        """Return the uploaded objects, each with its slices.

        The objects with records of a partition are in the order of writing. A slice's `object_index` is a position in
        this list. Every added record is in exactly one slice.
        """
        written: list[tuple[NewObject, list[NewSlice]]] = []
        for writer in self._writers.values():
            first = len(written)
            written += [
                (named, _renumbered(slices, first + index)) for index, (named, slices) in enumerate(writer.written)
            ]
        return written

    def _with_timestamps(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        at = rows.schema.get_field_index(self._schema.timestamp)
        column = rows.column(at)
        if not column.null_count:
            return rows
        now_us = self._now_us()
        if column.null_count == len(column):
            filled = pa.array(np.full(len(column), now_us)).view(TIMESTAMP)
        else:
            filled = pc.fill_null(column, pa.scalar(now_us, TIMESTAMP))
        return rows.set_column(at, rows.schema.field(at), filled)

    def _gather(self, rows: pa.RecordBatch, size_bytes: int) -> None:
        if self._gathered and self._gathered[0].schema != rows.schema:
            self.split_gathered()  # rows with and without a partition column cannot be joined
        self._gathered.append(rows)
        self._gathered_rows += rows.num_rows
        self._gathered_bytes += size_bytes
        if self._gathered_rows >= self._rows_to_gather or self._gathered_bytes >= self._limits.gather_bytes:
            self.split_gathered()

    def _writer(self, partition: PartitionIndex) -> ObjectsWriter:
        """Return the object writer for the partition's set of stores."""
        writer = self._writer_of.get(partition)
        if writer is None:
            writer = self._writer_of[partition] = self._begun(partition)
        return writer

    def _begun(self, partition: PartitionIndex) -> ObjectsWriter:
        holders = self._stores(partition)
        if not holders:
            raise NoReplicaOnline(
                f"{self._target.topic}-{partition}: no store of its replicas could be reached when this write began"
            )
        writer = self._writers.get(holders)
        if writer is None:
            writer = self._writers[holders] = ObjectsWriter(
                self._objects.lanes,
                self._task,
                self._memory,
                self._target,
                holders,
                new_upload_id=self._new_upload_id,
                compression=self._compression,
                schema=self._schema,
            )
            self._objects.writers.append(writer)
        return writer

    def _pin(self, size_bytes: int) -> None:
        self._memory.pinned_bytes += size_bytes
        self._task.pinned_bytes += size_bytes

    def _unpin(self) -> None:
        """Copy the pending rows, so that the larger batches of which they are slices can be freed."""
        self._task.make_room(self._memory.pending_bytes)
        for writer in self._writers.values():
            writer.unpin()
        self._pin(self._memory.pending_bytes - self._memory.pinned_bytes)
        pa.default_memory_pool().release_unused()  # the pool keeps freed memory for a second, which counts as ours


def _renumbered(slices: Sequence[NewSlice], object_index: int) -> list[NewSlice]:
    if all(slice_.object_index == object_index for slice_ in slices):
        return list(slices)
    return [msgspec.structs.replace(slice_, object_index=object_index) for slice_ in slices]
