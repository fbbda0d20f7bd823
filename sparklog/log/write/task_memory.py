"""The memory that one task takes while it writes: its limits, and its running uploads, for which it waits near them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from sparklog.core.types import NewObject, NewSlice
from sparklog.log.write.open_object import OpenObject, slices_of

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class WriterLimits:
    """The amounts that a writer may hold at each stage.

    Bytes are raw (before encoding), except `streamed_from_bytes`, which is of encoded batches, and `object_bytes` and
    `live_bytes`, which are of raw rows and encoded batches together.

    Gathering: the rows of all partitions of a topic are collected together up to a limit, and then split by partition.
    The limit is `gather_rows` in total: enough for vector operations to pay off, and few enough to fit the processor's
    caches. With many partitions, it is their number times `gather_rows_per_partition` if that is more, because
    splitting off a partition's rows costs as much as some tens of rows. The limit is at most `most_gathered_rows`. The
    rows are also split once they reach `gather_bytes` in total. Records without a key go to the next partition after
    each split. Java gathers no rows, but uses the same number of rows for this.

    Encoding: a partition's rows are encoded once they reach `full_batch_bytes` or, with many partitions, their share of
    `object_bytes`, but at least `smallest_full_batch_bytes`. A batch is at most a third larger than `full_batch_bytes`,
    unless it is a single record.

    Closing: once all open objects of the task together reach `object_bytes`, the largest are closed until the sum is
    smaller. With one partition, encoded batches are handed to its stores each time they reach `streamed_from_bytes`.

    Memory: pending rows may be Arrow slices of larger batches, and keep these in memory. If the batches exceed the
    pending rows by more than `pinned_in_vain_bytes`, the rows are copied, and the batches freed. The writer waits for
    running uploads while `live_bytes` would be exceeded.
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
    live_bytes: int = 96 * MIB

    @property
    def largest_batch_bytes(self) -> int:
        return self.full_batch_bytes * 4 // 3

    def rows_to_gather(self, partitions: int) -> int:
        """Return the number of rows to gather: 1 for a single partition, since there is nothing to split."""
        wanted = max(self.gather_rows, self.gather_rows_per_partition * partitions)
        return 1 if partitions == 1 else min(wanted, self.most_gathered_rows)

    def bytes_to_encode(self, open_partitions: int) -> int:
        """Return the raw size in bytes at which a partition's pending rows are encoded."""
        return min(self.full_batch_bytes, max(self.smallest_full_batch_bytes, self.object_bytes // open_partitions))


LIMITS: Final = WriterLimits()


@dataclass(slots=True)
class TopicMemory:
    """The memory of one topic's rows that are not encoded yet.

    `pending_bytes`: the rows themselves. `pinned_bytes`: an upper bound of what they keep alive, because they may be
    Arrow slices of larger batches.
    """

    pending_bytes: int = 0
    pinned_bytes: int = 0


class _Uploading(NamedTuple):
    """A closed object that is being uploaded. `kept_bytes`: its size in memory until then; 0 if it is streamed.

    Once it is uploaded, it is added to `written`.
    """

    closed: OpenObject
    kept_bytes: int
    written: list[tuple[NewObject, list[NewSlice]]]


class TaskMemory:
    """Counts the memory of one task, and waits for uploads to bound it. Not thread-safe.

    The writers of the task change the counts. They call `make_room` before they take or copy rows,
    `make_room_for_upload` before they close an object, and then `uploads`; at the end, `TaskObjects` calls `await_all`.
    A call that waits for an upload raises what the upload raises.

    `open_partitions`: partitions that have records in open objects. `pending_bytes`: raw rows that wait to be encoded.
    `held_bytes`: encoded batches of open objects. `streamed_bytes`: those already handed to the stores, of the objects
    `streaming`; a slow store may keep some of them in memory. `pinned_bytes`: an upper bound of the raw memory that
    pending rows keep alive.
    """

    def __init__(self, limits: WriterLimits = LIMITS) -> None:
        self.limits = limits
        self.pending_bytes = self.open_partitions = 0
        self.held_bytes = self.streamed_bytes = self.pinned_bytes = 0
        self.streaming: list[OpenObject] = []
        self._closed_streams: list[OpenObject] = []
        self._uploading: deque[_Uploading] = deque()
        self._kept_bytes = 0  # of running uploads, but those that stream

    @property
    def is_full(self) -> bool:
        """True if the open objects together are as large as one object may be."""
        return self.pending_bytes + self.held_bytes + self.streamed_bytes >= self.limits.object_bytes

    def make_room(self, wanted_bytes: int) -> None:
        """Wait for uploads until there is room for `wanted_bytes` more in memory.

        First frees the memory of finished uploads. Then waits for running ones as long as `WriterLimits.live_bytes`
        would be exceeded.
        """
        while self._uploading and self._uploading[0].closed.is_over:
            self._await_oldest()
        while self._uploading and self._live_bytes + wanted_bytes > self.limits.live_bytes:
            self._await_oldest()

    def make_room_for_upload(self, size_bytes: int) -> None:
        """Wait until the running uploads and one of `size_bytes` together are at most as large as one object may be."""
        while self._uploading and self._uploading_bytes + size_bytes > self.limits.object_bytes:
            self._await_oldest()

    def uploads(self, closed: OpenObject, written: list[tuple[NewObject, list[NewSlice]]]) -> None:
        """Keep track of an object that is closed. Once it is uploaded, it is added to `written` with its slices."""
        kept_bytes = closed.held_bytes
        if closed in self.streaming:
            self.streaming.remove(closed)
            self._closed_streams.append(closed)
            kept_bytes = 0
        self._kept_bytes += kept_bytes
        self._uploading.append(_Uploading(closed, kept_bytes, written))

    def await_all(self) -> None:
        """Wait for all running uploads."""
        while self._uploading:
            self._await_oldest()

    @property
    def _live_bytes(self) -> int:
        streaming_bytes = sum(streamed.held_bytes for streamed in self.streaming)
        return self.pinned_bytes + self.held_bytes + streaming_bytes + self._uploading_bytes

    @property
    def _uploading_bytes(self) -> int:
        return self._kept_bytes + sum(closed.held_bytes for closed in self._closed_streams)

    def _await_oldest(self) -> None:
        closed, kept_bytes, written = self._uploading[0]
        named, index = closed.published()
        written.append((named, slices_of(len(written), named, index)))
        self._uploading.popleft()
        self._kept_bytes -= kept_bytes
        if closed in self._closed_streams:
            self._closed_streams.remove(closed)
