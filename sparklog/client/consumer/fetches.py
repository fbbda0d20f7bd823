"""The open reads of a consumer: one for each partition, which resumes where the last call stopped.

A read is a scan of what was there when it began. It is begun again if the consumer goes on elsewhere (a seek, a batch
that was dropped) or with other columns, or if the partition has another leader epoch: what the old one had may be given
up. Where a consumer begins, the first read is only of what the call wants: it may seek again, or want no more.

An open read holds bytes that are fetched and not decoded yet, however few records each call takes. So once the open
reads may hold MOST_OPEN_BYTES, others are only of what the call wants; if that is too much as well, those that were
taken from longest ago end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from sparklog.client.connection import Connection
from sparklog.core.numbering import end_of_records
from sparklog.core.reading.consumer_positions import Unread
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.state import ClusterState
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, TopicPartition
from sparklog.log.read.scan import BYTES_AHEAD, SlicesAhead, scan
from sparklog.log.records_schema import READ_SCHEMA

log = logging.getLogger("sparklog")

SLICES_PER_PLAN: Final = 256  # a read of a long log is planned piece by piece
MOST_OPEN_BYTES: Final = 512 << 20
COLUMNS: Final = tuple(READ_SCHEMA.names)
_OFFSET: Final = "offset"


@dataclass(frozen=True, slots=True)
class Piece:
    """Records of a partition, and the position behind them. `batch` is None if there was none up to there."""

    batch: pa.RecordBatch | None
    end: Offset
    leader_epoch: LeaderEpoch


@dataclass(slots=True)
class _Fetch:
    """A read that is under way. `rest` is what is left of its present batch, `at` the end of what was taken."""

    columns: Sequence[str]
    plan: RangeToRead
    ahead: SlicesAhead
    ahead_bytes: int  # that its first read may take, while none of it was taken yet
    open_bytes: int  # that it may have fetched and not decoded
    batches: Iterator[pa.RecordBatch]
    at: Offset
    rest: pa.RecordBatch | None = None


class Fetches:
    """Reads of the partitions of one consumer."""

    def __init__(self, connection: Connection, *, fail_on_data_loss: bool) -> None:
        self._connection = connection
        self._fail_on_data_loss = fail_on_data_loss
        self._open: dict[TopicPartition, _Fetch] = {}  # what was taken from longest ago first
        self._ends: dict[TopicPartition, Offset] = {}  # of what was taken

    def take(self, state: ClusterState, unread: Unread, most_records: int, columns: Sequence[str] = COLUMNS) -> Piece:
        """The next records of a partition, from the start of `unread` on, at most so many.

        They have these columns of the read schema, at least one; others are not decoded.

        Raises DataLoss, Damaged, and what stores raise; the next call begins at its `unread` in any case.
        """
        fetch = self._goes_on(state, unread, columns) or self._begin(state, unread, most_records, columns)
        fetch.ahead_bytes = 0
        self._open[unread.key] = self._open.pop(unread.key)
        self._make_room()
        try:
            piece = self._next(fetch, most_records)
        except BaseException:
            self.drop(unread.key)
            raise
        if piece.end == fetch.plan.end:
            self.drop(unread.key)
        self._ends[unread.key] = piece.end
        return piece

    def begin_ahead(
        self, state: ClusterState, coming: Iterable[Unread], most_records: int, columns: Sequence[str], most_bytes: int
    ) -> None:
        """Begin to read these partitions, whose turn comes next, as far as stores are slow and memory allows.

        All that was begun like this and not taken yet has at most `most_bytes`.
        """
        left = most_bytes - sum(fetch.ahead_bytes for fetch in self._open.values())
        for unread in coming:
            if left <= 0 or not self._has_room():
                return
            if not self._goes_on(state, unread, columns):
                fetch = self._begin(state, unread, most_records, columns)
                fetch.ahead_bytes = fetch.ahead.begin(left)
                left -= fetch.ahead_bytes

    def drop(self, key: TopicPartition) -> None:
        """End the read of a partition, if there is one."""
        fetch = self._open.pop(key, None)
        if fetch is not None:
            fetch.batches.close()  # type: ignore[attr-defined]
            fetch.ahead.close()

    def close(self) -> None:
        """End all reads."""
        for key in list(self._open):
            self.drop(key)

    def _goes_on(self, state: ClusterState, unread: Unread, columns: Sequence[str]) -> _Fetch | None:
        """The open read that continues here; None if there is none."""
        fetch = self._open.get(unread.key)
        if (
            fetch is None
            or fetch.at != unread.offsets.start
            or fetch.plan.leader_epoch != state.partitions[unread.key].replication.leader_epoch
            or fetch.columns != columns
        ):
            return None
        return fetch

    def _next(self, fetch: _Fetch, most_records: int) -> Piece:
        epoch = fetch.plan.leader_epoch
        while fetch.rest is None or not fetch.rest.num_rows:
            fetch.rest = next(fetch.batches, None)
            if fetch.rest is None:
                return Piece(None, fetch.plan.end, epoch)  # the end of a plan may be a gap
        batch = fetch.rest.slice(0, most_records)
        fetch.rest = fetch.rest.slice(most_records)
        fetch.at = Offset(batch.column(_OFFSET)[-1].as_py() + 1)
        return Piece(batch.select(fetch.columns), fetch.at, epoch)

    def _begin(self, state: ClusterState, unread: Unread, most_records: int, columns: Sequence[str]) -> _Fetch:
        self.drop(unread.key)
        key, offsets = unread.key, unread.offsets
        if self._fail_on_data_loss:
            lost = (lost.start for lost in state.partitions[key].replication.lost if lost.start > offsets.start)
            offsets = OffsetRange(offsets.start, min([offsets.end, *lost]))  # the records before a loss come first
        if self._ends.get(key) != offsets.start or not self._has_room():
            first = islice(state.slices.walk(key, offsets), SLICES_PER_PLAN)
            offsets = OffsetRange(offsets.start, end_of_records(first, offsets, most_records))
        plan = plan_range(state, state.topics[key.topic_id], key.partition, offsets, SLICES_PER_PLAN)
        if plan.lost and not self._fail_on_data_loss:
            shown = ", ".join(f"[{lost.start}, {lost.end})" for lost in plan.lost)
            log.warning(
                "%s-%d: records %s were lost: the consumer goes on after them", unread.topic, key.partition, shown
            )
        stores, replan = self._connection.stores(state), self._connection.replan
        scanned = columns if _OFFSET in columns else [*columns, _OFFSET]
        ahead = SlicesAhead(plan, stores, scanned)
        batches = scan(plan, stores, scanned, replan, fail_on_data_loss=self._fail_on_data_loss, ahead=ahead)
        fetch = self._open[key] = _Fetch(columns, plan, ahead, 0, _open_bytes(plan), batches, offsets.start)
        return fetch

    def _has_room(self) -> bool:
        """Whether one more open read may fetch as much as it likes."""
        return sum(fetch.open_bytes for fetch in self._open.values()) + BYTES_AHEAD <= MOST_OPEN_BYTES

    def _make_room(self) -> None:
        """End the reads that were taken from longest ago, while all but the last one may hold too much."""
        others = list(self._open.items())[:-1]
        too_much = sum(fetch.open_bytes for _, fetch in others) - MOST_OPEN_BYTES
        for key, fetch in others:
            if too_much <= 0:
                return
            too_much -= fetch.open_bytes
            self.drop(key)


def _open_bytes(plan: RangeToRead) -> int:
    """About how many bytes a read of this plan fetches at most before it decodes them."""
    size_bytes = 0
    for part in plan.slices:
        low, high = max(part.slice.start, plan.start), min(part.slice.end, plan.end)
        size_bytes += part.slice.length * max(0, high - low) // (part.slice.end - part.slice.start)
    return min(size_bytes, BYTES_AHEAD)
