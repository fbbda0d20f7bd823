"""What one task writes to one topic: rows in, objects and indexes in the store, slices for the commit out.

    add -> gathered -> routed, split -> pending per partition -> encoded -> held per partition -> closed -> uploaded

Encoded batches are held until their object is closed, because a partition's batches stand side by side in it: a
reader gets them with one ranged read. What is alive at once has a limit. Nothing that was uploaded is part of the
log before the commit names it; what no commit names is an orphan that vacuum removes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparklog.core.errors import KeyExists, OutcomeUnknown
from sparklog.core.types import (
    EntryNumber,
    Holder,
    NewObject,
    NewSlice,
    ObjectKind,
    PartitionIndex,
    TopicId,
    UploadId,
)
from sparklog.log.batch import BatchEncoder, EncodedBatch, with_headers
from sparklog.log.open_object import OpenObject, slices_of
from sparklog.log.records_schema import TIMESTAMP
from sparklog.log.routing import Piece, Sizes, check_sizes, cumulative_bytes, split
from sparklog.storage.object_store import ObjectStore

MIB: Final = 1 << 20
_ROW_BYTES: Final = 16  # raw bytes of timestamp and offsets, beside key, value and headers
_UPLOAD_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """How much a writer holds where. All bytes but `object_bytes` and `live_bytes` are raw.

    Rows are gathered until `gather_rows` (enough for vectors to pay; many more leave the processor's caches), or
    `gather_rows_per_partition` for each partition if that is more (a slice costs as much as some tens of rows), but
    never more than `most_gathered_rows` or `gather_bytes`. A partition's rows are encoded when they are
    `full_batch_bytes`, or, with many partitions, their share of `object_bytes`, but not less than
    `smallest_full_batch_bytes`; a batch is a third larger at most, unless it is one record. An object is closed when
    what it holds, encoded and pending, passes `object_bytes`; with one partition, what is encoded is written to the
    store each time it is `streamed_from_bytes`. All that is alive at once stays under `live_bytes`.
    """

    gather_rows: int = 8_192
    gather_rows_per_partition: int = 256
    most_gathered_rows: int = 100_000
    gather_bytes: int = 16 * MIB
    full_batch_bytes: int = MIB
    smallest_full_batch_bytes: int = 256 << 10
    object_bytes: int = 48 * MIB
    streamed_from_bytes: int = 2 * MIB
    pinned_in_vain_bytes: int = 32 * MIB
    live_bytes: int = 192 * MIB

    @property
    def largest_batch_bytes(self) -> int:
        return self.full_batch_bytes * 4 // 3

    def enough_rows(self, partitions: int) -> int:
        """How many rows to gather. With one partition there is nothing to split, so nothing to gather for."""
        wanted = max(self.gather_rows, self.gather_rows_per_partition * partitions)
        return 1 if partitions == 1 else min(wanted, self.most_gathered_rows)

    def enough_bytes(self, pending_partitions: int) -> int:
        """How many raw bytes of a partition to gather before they are encoded."""
        return min(self.full_batch_bytes, max(self.smallest_full_batch_bytes, self.object_bytes // pending_partitions))


_LIMITS: Final = WriterLimits()


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The topic a task writes to, as the chain knew it at entry `n0`, and the stores that will hold the objects."""

    topic_id: TopicId
    topic: str
    partitions: int
    max_message_bytes: int
    n0: EntryNumber
    holders: tuple[Holder, ...]


_Written = tuple[NewObject, list[NewSlice]]


@dataclass(slots=True)
class _Pending:
    """Rows of one partition that wait to be encoded. `size_bytes` is raw."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0


class ObjectWriter:
    """Writes the rows of one task to one topic. Order of calls: `add` any number of times, then `finish` or `abort`.

    Used as a context manager it aborts unless `finish` was reached. Not safe for threads. Objects but the last are
    uploaded by a thread of its own while `add` goes on. Within a partition, records keep the order in which they
    were added, also across objects.

    `new_upload_id` is called once per object, `now_us` once per batch that has null timestamps; `sticky` is the
    partition of the first keyless records (the next one follows at each gather), taken modulo the partitions.
    """

    def __init__(
        self,
        stores: Sequence[ObjectStore],
        target: WriteTarget,
        *,
        new_upload_id: Callable[[], UploadId],
        now_us: Callable[[], int],
        sticky: int = 0,
        compression: str = "zstd",
        limits: WriterLimits = _LIMITS,
    ) -> None:
        self._stores = stores
        self._target = target
        self._new_upload_id = new_upload_id
        self._now_us = now_us
        self._sticky = sticky
        self._encoder = BatchEncoder(compression)
        self._limits = limits
        self._enough_rows = limits.enough_rows(target.partitions)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._pending: dict[PartitionIndex, _Pending] = {}
        self._pending_bytes = 0
        self._pinned_bytes = 0  # at most so much raw memory is kept alive by pending slices
        self._held: dict[PartitionIndex, list[EncodedBatch]] = {}
        self._held_bytes = 0
        self._open: OpenObject | None = None  # what of the object at hand was streamed already
        self._written: list[_Written] = []
        self._uploading: Future[_Written] | None = None
        self._uploading_bytes = 0
        self._uploader: ThreadPoolExecutor | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Take over canonical rows (`records_schema.canonical`, without a topic column).

        Raises RecordTooLarge and UnknownTopicOrPartition, and what an upload raises; then only `abort` is legal.
        """
        if not rows.num_rows:
            return
        size = check_sizes(rows, self._target.topic, self._target.max_message_bytes) + _ROW_BYTES * rows.num_rows
        rows = self._with_timestamps(rows)
        if rows.num_rows <= self._limits.most_gathered_rows and size <= self._limits.gather_bytes:
            self._gather(rows, size)
            return
        sums = raw_sums(rows)
        for start, end in cuts(sums, self._limits.gather_bytes, self._limits.most_gathered_rows):
            self._gather(rows.slice(start, end - start), int(sums[end] - sums[start]))

    def finish(self) -> list[tuple[NewObject, list[NewSlice]]]:
        """Upload what is left. Returns the objects in the order of writing, each with its slices, partitions ascending.

        `object_index` of a slice points into this list. Every record that was added is in exactly one slice.
        """
        self._split_gathered()
        closed = self._close()
        self._await_upload()
        if closed or self._open is not None:
            self._written.append(self._upload(self._open, closed))
            self._open = None
        self._stop_uploader()
        return self._written

    def abort(self) -> None:
        """Forget everything; what was uploaded already stays behind as orphans. Legal at any time, also twice."""
        self._gathered, self._pending, self._held = [], {}, {}
        if self._open is not None:
            self._open.abort()
            self._open = None
        self._stop_uploader()

    def __enter__(self) -> ObjectWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    # ---- gathered -> pending -> held ----------------------------------------------------------------

    def _with_timestamps(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        at = rows.schema.get_field_index("timestamp")
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
            self._split_gathered()  # with and without a partition column: they don't join
        self._gathered.append(rows)
        self._gathered_rows += rows.num_rows
        self._gathered_bytes += size_bytes
        if self._gathered_rows >= self._enough_rows or self._gathered_bytes >= self._limits.gather_bytes:
            self._split_gathered()

    def _split_gathered(self) -> None:
        if not self._gathered_rows:
            return
        self._make_room(3 * self._gathered_bytes)  # as given, joined, and taken
        rows = pa.concat_batches(self._gathered) if len(self._gathered) > 1 else self._gathered[0]
        self._gathered = []
        sticky = PartitionIndex(self._sticky % self._target.partitions)
        self._sticky += 1
        pieces = split(rows, self._target.topic, self._target.partitions, sticky)
        del rows
        self._pinned_bytes += self._gathered_bytes
        self._gathered_rows = self._gathered_bytes = 0
        for piece in pieces:
            self._add_piece(piece)
        full_bytes = self._limits.enough_bytes(len(self._pending))
        for piece in pieces:
            if self._pending[piece.partition].size_bytes >= full_bytes:
                self._encode(piece.partition)
        del pieces
        if self._held_bytes + self._pending_bytes + self._streamed_bytes >= self._limits.object_bytes:
            self._close_and_go_on()
        elif self._target.partitions == 1 and self._held_bytes >= self._limits.streamed_from_bytes:
            self._stream()
        elif self._pinned_bytes - self._pending_bytes > self._limits.pinned_in_vain_bytes:
            self._unpin()

    def _add_piece(self, piece: Piece) -> None:
        size = piece.size_bytes + _ROW_BYTES * piece.rows.num_rows
        pending = self._pending.setdefault(piece.partition, _Pending())
        enough = self._limits.smallest_full_batch_bytes
        if pending.size_bytes >= enough and pending.size_bytes + size > self._limits.largest_batch_bytes:
            # Joined, the two would be copied only to be cut again.
            self._encode(piece.partition)
            pending = self._pending[piece.partition]
        pending.pieces.append(piece.rows)
        pending.size_bytes += size
        self._pending_bytes += size

    def _unpin(self) -> None:
        """Copy what is pending, so that the gathers of which only some rows still wait can be freed."""
        self._make_room(self._pending_bytes)
        for pending in self._pending.values():
            if pending.pieces:
                # One piece alone would be handed back as it is: with an empty second one Arrow copies.
                pending.pieces = [joined([*pending.pieces, pending.pieces[0].slice(0, 0)])]
        self._pinned_bytes = self._pending_bytes
        pa.default_memory_pool().release_unused()  # it keeps what was freed for a second, and counts as ours

    def _encode(self, partition: PartitionIndex) -> None:
        """Encode all that is pending for the partition, as batches of about equal size."""
        pending = self._pending[partition]
        rows = joined(pending.pieces)
        self._pending_bytes -= pending.size_bytes
        self._pending[partition] = _Pending()
        held = self._held.setdefault(partition, [])
        largest = self._limits.largest_batch_bytes
        fits = pending.size_bytes <= largest
        for start, end in [(0, rows.num_rows)] if fits else cuts(raw_sums(rows), largest):
            batch = self._encoder.encode(partition, rows.slice(start, end - start))
            held.append(batch)
            self._held_bytes += batch.message.size

    # ---- held -> closed -> uploaded -----------------------------------------------------------------

    @property
    def _streamed_bytes(self) -> int:
        return 0 if self._open is None else self._open.batch_bytes

    def _stream(self) -> None:
        """Write what is held into the object at hand: with one partition nothing has to wait for its neighbours."""
        if self._open is None:
            self._open = self._begin()
        for batch in self._held.pop(PartitionIndex(0)):
            self._open.append(batch)
        self._held_bytes = 0
        self._encoder.rewind()

    def _close(self) -> list[EncodedBatch]:
        """The batches of the object at hand, partitions ascending; the next object begins."""
        for partition, pending in self._pending.items():
            if pending.pieces:
                self._encode(partition)
        closed = [batch for partition in sorted(self._held) for batch in self._held[partition]]
        self._pending, self._held = {}, {}
        self._pending_bytes = self._pinned_bytes = self._held_bytes = 0
        self._encoder.forget()
        pa.default_memory_pool().release_unused()
        return closed

    def _close_and_go_on(self) -> None:
        self._await_upload()
        closed = self._close()
        self._uploading_bytes = sum(batch.message.size for batch in closed)
        if self._uploader is None:
            self._uploader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sparklog-upload")
        self._uploading = self._uploader.submit(self._upload, self._open, closed)
        self._open = None

    def _make_room(self, wanted_bytes: int) -> None:
        """Wait for the upload at work, if with `wanted_bytes` more the limit would be passed."""
        if self._pinned_bytes + self._held_bytes + self._uploading_bytes + wanted_bytes > self._limits.live_bytes:
            self._await_upload()

    def _await_upload(self) -> None:
        if self._uploading is not None:
            self._written.append(self._uploading.result())
            self._uploading = None
            self._uploading_bytes = 0

    def _stop_uploader(self) -> None:
        if self._uploader is not None:
            self._uploader.shutdown(wait=True, cancel_futures=True)
            self._uploader = None
            self._uploading = None

    def _upload(self, open_object: OpenObject | None, batches: Sequence[EncodedBatch]) -> _Written:
        """Write what is held behind what was streamed, and the index.

        An object that was not streamed is still whole in memory: if its outcome is unknown it is left to vacuum, and
        written again by another name.
        """
        object_index = len(self._written)
        if open_object is not None:
            return self._publish(open_object, batches, object_index)
        for _ in range(_UPLOAD_ATTEMPTS - 1):
            try:
                return self._publish(self._begin(), batches, object_index)
            except (KeyExists, OutcomeUnknown):
                continue
        return self._publish(self._begin(), batches, object_index)

    def _publish(self, open_object: OpenObject, batches: Sequence[EncodedBatch], object_index: int) -> _Written:
        try:
            for batch in batches:
                open_object.append(batch)
            named, index = open_object.publish()
        finally:
            open_object.abort()
        return named, slices_of(object_index, named, index)

    def _begin(self) -> OpenObject:
        target = self._target
        upload_id = self._new_upload_id()
        named = NewObject(
            kind=ObjectKind.APPEND,
            n0=target.n0,
            upload_id=upload_id,
            topic_id=target.topic_id,
            size_bytes=0,
            crc32c=0,
            index_size_bytes=0,
            index_crc32c=0,
            holders=target.holders,
        )
        return OpenObject(self._stores, named, target.topic)


def raw_sums(rows: pa.RecordBatch) -> Sizes:
    """int64[rows + 1]: raw bytes up to row i, from any start."""
    sums = cumulative_bytes(rows)
    sums += _ROW_BYTES * np.arange(len(sums))
    return sums


def cuts(sums: Sizes, limit_bytes: int, limit_rows: int | None = None) -> list[tuple[int, int]]:
    """Ranges [start, end) of rows that cover all rows in order, of about equal size and at most the limits.

    A row larger than `limit_bytes` is a range of its own. `sums` are as `raw_sums` gives them.
    """
    rows = len(sums) - 1
    ranges = []
    start = 0
    while start < rows:
        rest = int(sums[rows] - sums[start])
        aim = -(-rest // max(1, -(-rest // limit_bytes)))
        end = int(np.searchsorted(sums, sums[start] + aim, side="left"))
        end = min(max(end, start + 1), rows)
        if sums[end] - sums[start] > limit_bytes and end - start > 1:
            end -= 1
        if limit_rows is not None:
            end = min(end, start + limit_rows)
        ranges.append((start, end))
        start = end
    return ranges


def joined(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all pieces (at least one) in one batch: with headers if some have them."""
    if len(pieces) == 1:
        return pieces[0]
    if len({piece.num_columns for piece in pieces}) > 1:
        pieces = [with_headers(piece) for piece in pieces]
    return pa.concat_batches(pieces)
