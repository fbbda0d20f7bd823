"""The open reads of a consumer: at most one for each partition, which continues where the last call stopped.

An open read is a scan of the records that existed when it began. A new read replaces it if the consumer continues at
another offset (after a seek, or a batch that was not returned), if the consumer wants other columns, or if the
partition has another leader epoch, because records of the old epoch may have been given up. The first read at a new
offset is limited to the records that the call wants, because the consumer may seek again or want no more.

An open read holds fetched bytes that are not decoded yet, however few records each call takes. Once the open reads may
together hold MOST_OPEN_BYTES, new reads are limited to the records that the call wants. If the open reads may still
exceed this limit, those that were used longest ago are closed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from sparklog.client.connection import Connection
from sparklog.core.reading.consumer_positions import Unread
from sparklog.core.reading.plan import RangeToRead, plan_range
from sparklog.core.row_offsets import end_of_records
from sparklog.core.state import ClusterState
from sparklog.core.types import LeaderEpoch, Offset, OffsetRange, TopicPartition
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.read.scan import scan
from sparklog.log.read.slices_ahead import BYTES_AHEAD, SlicesAhead

log = logging.getLogger("sparklog")

SLICES_PER_PLAN: Final = 256  # a read of a long log is planned in parts of this many slices
MOST_OPEN_BYTES: Final = 512 << 20
COLUMNS: Final = tuple(READ_SCHEMA.names)
_OFFSET: Final = "offset"


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Records of a partition, read under `leader_epoch`. Once they are returned, the consumer's position is `end`.

    `batch` is None if there are no records before `end`, as in a gap.
    """

    batch: pa.RecordBatch | None
    end: Offset
    leader_epoch: LeaderEpoch


@dataclass(slots=True)
class _OpenRead:
    """An open read of a partition. `at`: the offset at which it continues, after the last record taken from it.

    `rest`: the records of its last decoded batch that were not taken yet.
    """

    columns: Sequence[str]
    plan: RangeToRead
    ahead: SlicesAhead
    ahead_bytes: int  # bytes that its first read may have, while none of its records were taken
    open_bytes: int  # bytes that it may have fetched and not decoded
    batches: Iterator[pa.RecordBatch]
    at: Offset
    rest: pa.RecordBatch | None = None


class Fetches:
    """Reads the partitions of one consumer, with at most one open read for each."""

    def __init__(self, connection: Connection, *, fail_on_data_loss: bool) -> None:
        self._connection = connection
        self._fail_on_data_loss = fail_on_data_loss
        self._open: dict[TopicPartition, _OpenRead] = {}  # the one used longest ago comes first
        self._ends: dict[TopicPartition, Offset] = {}  # the ends of the records taken

    def take(
        self, state: ClusterState, unread: Unread, most_records: int, columns: Sequence[str] = COLUMNS
    ) -> FetchedRecords:
        """Return the next records of a partition, from the first offset of `unread` on, at most `most_records`.

        `columns`: the columns of the read schema to return, at least one; others are not decoded. Raises DataLoss,
        Damaged, and the stores' errors; after an error the next call may ask for the same records again.
        """
        fetch = self._continued(state, unread, columns) or self._begin(state, unread, most_records, columns)
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
        """Begin to fetch from the partitions `coming`, which will be read next. Fetches nothing from fast stores.

        The reads that were begun here and have returned no records yet hold at most `most_bytes` together. No read is
        begun that might bring all open reads together above MOST_OPEN_BYTES.
        """
        left = most_bytes - sum(fetch.ahead_bytes for fetch in self._open.values())
        for unread in coming:
            if left <= 0 or not self._has_room():
                return
            if not self._continued(state, unread, columns):
                fetch = self._begin(state, unread, most_records, columns)
                fetch.ahead_bytes = fetch.ahead.begin(left)
                left -= fetch.ahead_bytes

    def drop(self, key: TopicPartition) -> None:
        """Close the open read of a partition, if there is one."""
        fetch = self._open.pop(key, None)
        if fetch is not None:
            fetch.batches.close()  # type: ignore[attr-defined]
            fetch.ahead.close()

    def close(self) -> None:
        """Close all open reads."""
        for key in list(self._open):
            self.drop(key)

    def _continued(self, state: ClusterState, unread: Unread, columns: Sequence[str]) -> _OpenRead | None:
        """Return the open read of this partition that continues with the first offset of `unread` and the same columns.

        None if there is no such read, or if the partition has had an election since the read began.
        """
        fetch = self._open.get(unread.key)
        if (
            fetch is None
            or fetch.at != unread.offsets.start
            or fetch.plan.leader_epoch != state.partitions[unread.key].replication.leader_epoch
            or fetch.columns != columns
        ):
            return None
        return fetch

    def _next(self, fetch: _OpenRead, most_records: int) -> FetchedRecords:
        epoch = fetch.plan.leader_epoch
        while fetch.rest is None or not fetch.rest.num_rows:
            fetch.rest = next(fetch.batches, None)
            if fetch.rest is None:
                return FetchedRecords(None, fetch.plan.end, epoch)  # the end of a plan may be a gap
        batch = fetch.rest.slice(0, most_records)
        fetch.rest = fetch.rest.slice(most_records)
        fetch.at = Offset(batch.column(_OFFSET)[-1].as_py() + 1)
        return FetchedRecords(batch.select(fetch.columns), fetch.at, epoch)

    def _begin(self, state: ClusterState, unread: Unread, most_records: int, columns: Sequence[str]) -> _OpenRead:
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
                "%s-%d: records %s were lost: the consumer continues after them", unread.topic, key.partition, shown
            )
        stores, replan = self._connection.stores(state), self._connection.replan
        scanned = columns if _OFFSET in columns else [*columns, _OFFSET]
        ahead = SlicesAhead(plan, stores, scanned)
        batches = scan(plan, stores, scanned, replan, fail_on_data_loss=self._fail_on_data_loss, ahead=ahead)
        fetch = self._open[key] = _OpenRead(columns, plan, ahead, 0, _open_bytes(plan), batches, offsets.start)
        return fetch

    def _has_room(self) -> bool:
        """True if one more unlimited read would keep all open reads within MOST_OPEN_BYTES."""
        return sum(fetch.open_bytes for fetch in self._open.values()) + BYTES_AHEAD <= MOST_OPEN_BYTES

    def _make_room(self) -> None:
        """Close reads, the one used longest ago first, until the open reads may hold at most MOST_OPEN_BYTES together.

        The read used last is never closed, and its bytes don't count.
        """
        others = list(self._open.items())[:-1]
        too_much = sum(fetch.open_bytes for _, fetch in others) - MOST_OPEN_BYTES
        for key, fetch in others:
            if too_much <= 0:
                return
            too_much -= fetch.open_bytes
            self.drop(key)


def _open_bytes(plan: RangeToRead) -> int:
    """Estimate the maximum number of bytes that a read of this plan has fetched but not decoded."""
    size_bytes = 0
    for part in plan.slices:
        low, high = max(part.slice.start, plan.start), min(part.slice.end, plan.end)
        size_bytes += part.slice.length * max(0, high - low) // (part.slice.end - part.slice.start)
    return min(size_bytes, BYTES_AHEAD)
