"""Reads the records of one page: piece by piece in one direction, until there are enough records or a limit is reached.

A piece is a range of offsets of one partition. Partitions take turns, so that each has its share of a page. Memory is
bounded: of each piece, only the records to show are kept, copied out of the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from sparklog.client.describe.record_rows import HEADER_COST, before_many_headers
from sparklog.coordinator.page.records.masks import UNMASKED, Mask
from sparklog.coordinator.page.records.record_batches import matching, sizes, trimmed
from sparklog.coordinator.page.records.record_query import MOST_PARTITIONS, RecordQuery
from sparklog.core.decide.append import OFFSETS_END
from sparklog.core.describe.readable import counted
from sparklog.core.errors import RecordTooLarge, SparklogError, TryAgain
from sparklog.core.lookup import chosen_partitions, topic_of
from sparklog.core.reading.pieces import next_piece
from sparklog.core.reading.plan import plan_range
from sparklog.core.state import ClusterState, Partition, Topic
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from sparklog.log.cluster_stores import Stores
from sparklog.log.kafka_columns import READ_SCHEMA
from sparklog.log.read.scan import Replan, scan
from sparklog.log.read.time_lookup import ChainNow, first_at_or_after

_PIECE_BYTES: Final = 8 << 20  # stored
_PIECE_RECORDS: Final = 10_000  # of a search
_PIECES: Final = 4  # of a page at least, if each record is large
_LONGEST_PIECE: Final = OFFSETS_END  # if nearly no offset has a record
_SHOWN_LOSSES: Final = 5
_COLUMNS: Final = ("offset", "timestamp", "timestampType", "partition", "key", "value", "headers")
# Schema.empty_table() would import pandas: a third of the processor time that a coordinator needs to start.
_NOTHING: Final = pa.Table.from_batches([], pa.schema([READ_SCHEMA.field(name) for name in _COLUMNS]))


@dataclass(frozen=True, slots=True)
class PageReadLimits:
    """Limits of the reads for one page: the records and bytes to read, and the time.

    A batch that alone takes more than `size_bytes`, as stored or decompressed, is not read. `shown_bytes` limits the
    total size of the keys, values and headers that the page shows, with HEADER_COST for each header.
    """

    records: int = 500_000
    size_bytes: int = 64 << 20
    time_ms: int = 5_000
    shown_bytes: int = 8 << 20


LIMITS: Final = PageReadLimits()
LIVE_LIMITS: Final = PageReadLimits(records=1_000)  # read repeatedly


@dataclass(frozen=True, slots=True)
class RecordSource:
    """A state, and the stores to read its records from.

    `replan` plans the rest of a read again with the newest state, if no store could deliver an object. `now` returns
    the newest state and its stores, for look-ups by time.
    """

    state: ClusterState
    stores: Stores
    replan: Replan
    now: ChainNow
    monotonic_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Covered:
    """The offsets [start, end) of a partition that were read, within the readable range [log_start, high_watermark)."""

    partition: int
    start: int
    end: int
    log_start: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class RecordsFound:
    """The records to show: tables in the order in which they were read, each ordered by offset.

    `notes` are sentences on missing records. `searched`, `size_bytes`: the number of records read, and the size of
    their keys, values and headers. `stopped`: the limit that ended the reading before the page was full; "" for none.
    `broken`: partitions that could not be read further.
    """

    tables: list[pa.Table]
    covered: list[Covered]
    searched: int
    size_bytes: int
    stopped: str = ""
    notes: list[str] = field(default_factory=list)
    broken: frozenset[int] = frozenset()

    def at(self, *, down: bool) -> tuple[tuple[int, int], ...] | None:
        """The pairs (partition, offset) at which the next page begins; None if there is no further record.

        The next page reads towards lower offsets if `down`, else towards higher ones.
        """
        left = [
            (covered.start > covered.log_start if down else covered.end < covered.high_watermark)
            for covered in self.covered
            if covered.partition not in self.broken
        ]
        if not any(left):
            return None
        return tuple((covered.partition, covered.start if down else covered.end) for covered in self.covered)


@dataclass(slots=True)
class _Section:
    """A partition, and its offsets [low, high) that were read so far.

    `step`: the size of its next piece in offsets; it grows as long as pieces have few records. `most`: the largest size
    of a piece; it shrinks when a piece turns out too large to be read towards lower offsets.
    """

    partition: Partition
    low: int
    high: int
    step: int
    most: int = _LONGEST_PIECE
    is_broken: bool = False

    def rest(self, *, down: bool) -> OffsetRange:
        if down:
            return OffsetRange(self.partition.log_start, Offset(self.low))
        return OffsetRange(Offset(self.high), self.partition.high_watermark)


def find_records(
    source: RecordSource, topic: str, query: RecordQuery, mask: Mask = UNMASKED, limits: PageReadLimits = LIMITS
) -> RecordsFound:
    """Read the records of a page. If a partition can't be read, a note says so, and the other partitions are read.

    Raises UnknownTopicOrPartition, and TryAgain if finding the offsets for `query.time` took too long.
    """
    return _Finding(source, topic_of(source.state, topic), query, mask, limits).run()


class _Finding:
    def __init__(
        self, source: RecordSource, topic: Topic, query: RecordQuery, mask: Mask, limits: PageReadLimits
    ) -> None:
        self._source = source
        self._topic = topic
        self._query = query
        self._mask = mask
        self._limits = limits
        self._deadline_ms = source.monotonic_ms() + limits.time_ms
        self._tables: list[pa.Table] = []
        self._left = query.count
        self._left_bytes = limits.shown_bytes
        self._searched = self._size_bytes = 0
        self._notes: list[str] = []
        self._sections = [self._section(partition) for partition in self._partitions()]

    def run(self) -> RecordsFound:
        down = self._query.reads_down
        while open_ := [at for at in self._sections if not at.is_broken and _is_left(at.rest(down=down))]:
            for number, section in enumerate(open_):
                if not self._left or self._bound():
                    break
                self._read(section, self._left if self._query.searches else -(-self._left // (len(open_) - number)))
            if not self._left or self._bound():
                break
        covered = [
            Covered(at.partition.partition, at.low, at.high, at.partition.log_start, at.partition.high_watermark)
            for at in self._sections
        ]
        broken = frozenset(int(at.partition.partition) for at in self._sections if at.is_broken)
        is_more = any(_is_left(at.rest(down=down)) for at in self._sections if not at.is_broken)
        stopped = self._bound() if self._left and is_more else ""
        for section in self._sections:
            self._note_losses(section)
        return RecordsFound(self._tables, covered, self._searched, self._size_bytes, stopped, self._notes, broken)

    def _partitions(self) -> list[Partition]:
        query, state = self._query, self._source.state
        wanted = [partition for partition, _ in query.at] or ([] if query.partition is None else [query.partition])
        partitions = chosen_partitions(state, self._topic, wanted)
        if wanted:
            return partitions
        full = [partition for partition in partitions if partition.log_start < partition.high_watermark]
        if len(full) > MOST_PARTITIONS:
            self._notes.append(
                f"{counted(len(full), 'partition')} have records; these are of the first {MOST_PARTITIONS}: "
                "choose a partition to see the others"
            )
        return full[:MOST_PARTITIONS]

    def _section(self, partition: Partition) -> _Section:
        start = self._beginning(partition)
        at = min(max(start, partition.log_start), partition.high_watermark)
        if start < partition.log_start:
            self._notes.append(
                f"partition {partition.partition} begins at offset {partition.log_start}: earlier records are deleted"
            )
        elif start > partition.high_watermark:
            self._notes.append(f"partition {partition.partition} can be read up to {partition.high_watermark} so far")
        step = _PIECE_RECORDS if self._query.searches else 1
        return _Section(partition, at, at, step)

    def _beginning(self, partition: Partition) -> int:
        """Return the offset at which the reading of a partition begins.

        If the page is read upwards, the first record read is the first one at this offset or above. If it is read
        downwards, it is the last one below this offset.
        """
        query, down = self._query, self._query.reads_down
        if query.at:
            return dict(query.at)[partition.partition]
        if query.offset is not None:
            return query.offset + 1 if down else query.offset
        if (time_us := query.time_us) is not None:
            if self._source.monotonic_ms() > self._deadline_ms:
                raise TryAgain("it takes too long to look up the time in all partitions: choose one of them")
            at = first_at_or_after(self._source.now, self._topic.name, partition.partition, time_us)
            return partition.high_watermark if at is None else at
        return partition.high_watermark if down else partition.log_start

    def _bound(self) -> str:
        """The limit of this page's reads that has been reached, as text such as "64 MiB"; "" if none has."""
        limits = self._limits
        if self._searched >= limits.records:
            return counted(limits.records, "record")
        if self._size_bytes >= limits.size_bytes:
            return f"{limits.size_bytes >> 20} MiB"
        if self._left_bytes <= 0:
            return f"{limits.shown_bytes >> 20} MiB to show"
        return f"{limits.time_ms / 1000:g} seconds" if self._source.monotonic_ms() >= self._deadline_ms else ""

    def _read(self, section: _Section, most: int) -> None:
        """Read one more piece of a partition, and keep at most `most` of its matching records.

        If the piece can't be read, note the error, and mark the partition as broken.
        """
        step = min(section.most, section.step if self._query.searches else max(most, section.step))
        while smaller := self._read_piece(section, step, most):
            step = section.most = smaller

    def _read_piece(self, section: _Section, step: int, most: int) -> int:
        """Read a piece of at most `step` offsets. Return 0, or a smaller number of offsets to read instead.

        A piece may have more bytes than a page reads, or take too long. Then its beginning is enough, unless the page
        is read towards lower offsets.
        """
        down, limits = self._query.reads_down, self._limits
        key = TopicPartition(self._topic.topic_id, section.partition.partition)
        piece = next_piece(self._source.state, key, section.rest(down=down), step, _PIECE_BYTES, down=down)
        kept = _NOTHING
        is_cut = False
        next_offset = int(piece.start)  # the offset after the last record read
        before = self._searched, self._size_bytes
        try:
            with closing(self._scan(piece, section.partition)) as batches:
                for batch in batches:
                    self._searched += batch.num_rows
                    self._size_bytes += int(sizes(batch).sum())
                    next_offset = _offset_after(batch)
                    matches = matching(batch, self._query, self._mask)
                    if matches.num_rows:
                        candidates = pa.concat_tables([kept, pa.Table.from_batches([matches])])
                        kept = trimmed(candidates, most, self._left_bytes, last=down)
                        is_cut = is_cut or kept.num_rows < candidates.num_rows
                        if is_cut and not down:
                            break
                    is_late = self._source.monotonic_ms() >= self._deadline_ms
                    if next_offset < piece.end and (
                        is_late or self._size_bytes - before[1] > limits.size_bytes // _PIECES
                    ):
                        if not down:
                            break
                        self._searched, self._size_bytes = before
                        smaller = min(max(1, (next_offset - piece.start) // 2), int(piece.end) - next_offset)
                        return 1 if is_late else smaller
                else:
                    next_offset = int(piece.end)
        except SparklogError as error:
            if isinstance(error, RecordTooLarge) and down and piece.end - piece.start > 1:
                self._searched, self._size_bytes = before
                return (piece.end - piece.start) // 2
            section.is_broken = True
            self._notes.append(f"partition {section.partition.partition} can't be read further: {error}")
            if down:
                return 0  # the records next to those read before are missing
        if down:
            section.low = kept.column("offset")[0].as_py() if is_cut else piece.start
        else:
            section.high = _offset_after(kept) if is_cut else next_offset
        if 2 * (self._searched - before[0]) < piece.end - piece.start:
            section.step = min(_LONGEST_PIECE, 2 * step)
        if kept.num_rows:
            self._tables.append(kept)
            self._left -= kept.num_rows
            self._left_bytes -= int(sizes(kept, HEADER_COST).sum())
        return 0

    def _scan(self, piece: OffsetRange, partition: Partition) -> Generator[pa.RecordBatch, None, None]:
        """Read the records of a piece, in batches. Lost records are skipped: `_note_losses` reports them."""
        source = self._source
        plan = plan_range(source.state, self._topic, partition.partition, piece)
        most_bytes = self._limits.size_bytes
        for batch in scan(
            plan, source.stores, _COLUMNS, source.replan, fail_on_data_loss=False, most_batch_bytes=most_bytes
        ):
            yield from before_many_headers(batch, self._topic.name)

    def _note_losses(self, section: _Section) -> None:
        lost = [
            range_
            for range_ in section.partition.replication.lost
            if range_.start < section.high and range_.end > section.low
        ]
        if lost:
            shown = ", ".join(f"[{range_.start}, {range_.end})" for range_ in lost[:_SHOWN_LOSSES])
            more = f" and {len(lost) - _SHOWN_LOSSES} more ranges" if len(lost) > _SHOWN_LOSSES else ""
            self._notes.append(
                f"partition {section.partition.partition}: records {shown}{more} were lost in an unclean election or "
                "given up as damaged"
            )


def _is_left(offsets: OffsetRange) -> bool:
    return offsets.start < offsets.end


def _offset_after(records: pa.RecordBatch | pa.Table) -> int:
    """The offset after the last of these records, of which there is at least one."""
    offset: int = records.column("offset")[-1].as_py()
    return offset + 1
