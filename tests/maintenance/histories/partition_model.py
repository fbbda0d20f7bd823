"""What must be in a partition, whatever jobs did to it: the model that histories are compared with.

After each step the model sees the whole partition, and compares it with what it saw before:

1. each record that is there is the one that was there, or that a write put there;
2. the log start rises only as delete-records or retention allow, and the high watermark never goes back;
3. an unclean election gives up records only where replicas lacked them, and leaves a gap;
4. nothing else goes, but for what compaction may drop: a record if a later one of its key stays, a tombstone after its
   delay with all older records of its key, and a record without a key. None of them is younger than its lag;
5. a write is there once, whole and in order, where its author was told; and what was refused never is;
6. below the position of the cleaner each key is there once, but in a segment that the log start cuts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sparklog.core.maintenance.cleaner import Cleaner
from sparklog.core.replication.partition import Replication
from sparklog.core.types import OffsetRange, PartitionIndex, Slice

NEVER: Final = -1  # retention.ms, retention.bytes


class Row(NamedTuple):
    """A record. `name` is its header, which no other record has. `at_us` is None for whatever time of an append."""

    key: str | None
    value: str | None
    name: str
    at_us: int | None


class Seen(NamedTuple):
    """A partition as a reader finds it, and what the chain says of it."""

    rows: dict[int, Row]
    replication: Replication
    cleaner: Cleaner | None
    slices: tuple[Slice, ...]

    @property
    def whole(self) -> OffsetRange:
        """From the log start to the high watermark."""
        return OffsetRange(self.replication.log_start, self.replication.high_watermark)


@dataclass
class Rules:
    """What may happen to a partition, by its topic's config and what was asked for."""

    compacts: bool = False
    retains: bool = False
    delete_retention_ms: int = 0
    min_lag_ms: int = 0
    retention_ms: int = NEVER
    retention_bytes: int = NEVER
    unclean: bool = False


@dataclass(eq=False)
class Write:
    """One append: its records of each partition, and what its author was told.

    `starts`: where they were written, if the author knows. `is_lossy`: it was not to wait for all replicas.
    """

    parts: dict[int, list[Row]]
    is_lossy: bool = False
    starts: dict[int, int] | None = None
    is_refused: bool = False
    seen_at: dict[int, int] = field(default_factory=dict)


@dataclass
class PartitionModel:
    """One partition, as it was seen last."""

    number: int
    rules: Rules
    rows: dict[int, Row] = field(default_factory=dict)
    replication: Replication | None = None
    cleaner: Cleaner | None = None
    requested_starts: set[int] = field(default_factory=set)
    passed_ms: dict[int, int] = field(default_factory=dict)  # the earliest time at which a tombstone may be passed
    gaps: list[OffsetRange] = field(default_factory=list)  # above HW when there was an election: maybe forgotten
    elections: int = 0

    @property
    def index(self) -> PartitionIndex:
        return PartitionIndex(self.number)

    @property
    def start(self) -> int:
        return 0 if self.replication is None else self.replication.log_start

    @property
    def end(self) -> int:
        """The high watermark."""
        return 0 if self.replication is None else self.replication.high_watermark

    def see(self, seen: Seen, writes: Mapping[str, Write], began_ms: int, now_ms: int) -> None:
        """Compare with what was seen before. The step began at `began_ms`. Raises AssertionError."""
        offsets = list(seen.rows)
        assert offsets == sorted(set(offsets)), f"1: offsets are not ascending: {offsets}"
        self._check_replicas(seen)
        self._check_start(seen, now_ms)
        self._check_kept(seen, now_ms)
        self._check_new(seen, writes)
        _check_cleaned(seen)
        self._note_passed(seen, began_ms)
        self.rows, self.replication, self.cleaner = seen.rows, seen.replication, seen.cleaner

    # ---- 2 and 3: offsets -----------------------------------------------------------------------

    def _check_replicas(self, seen: Seen) -> None:
        before, after = self.replication, seen.replication
        if before is None:
            return
        assert after.high_watermark >= before.high_watermark, f"2: HW went back: {before} -> {after}"
        assert after.next_offset >= before.next_offset, f"2: offsets went back: {before} -> {after}"
        lost = [at for at in self.rows if _within(at, after.lost) and not _within(at, before.lost)]
        is_elected = after.leader_epoch != before.leader_epoch
        assert not lost or (is_elected and self.rules.unclean), f"3: records at {lost} are lost: {before} -> {after}"
        if is_elected:
            self.elections += 1
            self.gaps.append(OffsetRange(before.high_watermark, before.next_offset))

    def _check_start(self, seen: Seen, now_ms: int) -> None:
        start = seen.replication.log_start
        assert start >= self.start, f"2: the log start went back from {self.start} to {start}"
        assert start <= seen.replication.high_watermark
        if start == self.start or start in self.requested_starts:
            return
        rules = self.rules
        assert rules.retains, f"2: the log start rose from {self.start} to {start}, and nobody asked for that"
        limit_us = (now_ms - rules.retention_ms) * 1000
        gone = [row for offset, row in self.rows.items() if offset < start]
        by_time = rules.retention_ms != NEVER and all((row.at_us or 0) < limit_us for row in gone)
        by_bytes = rules.retention_bytes != NEVER
        assert by_time or by_bytes, f"2: records below {start} went, and are not older than retention.ms: {gone}"

    # ---- 1 and 4: what was there ----------------------------------------------------------------

    def _check_kept(self, seen: Seen, now_ms: int) -> None:
        start, lost = seen.replication.log_start, seen.replication.lost
        before = {offset: row for offset, row in self.rows.items() if offset >= start and not _within(offset, lost)}
        for offset in (offset for offset in seen.rows if offset < self.end):
            assert offset in before, f"1: {seen.rows[offset]} at {offset} came back"
            assert seen.rows[offset] == before[offset], f"1: {seen.rows[offset]} at {offset}, it was {before[offset]}"
        gone = [offset for offset in before if offset not in seen.rows]
        if not gone:
            return
        assert self.rules.compacts, f"4: records at {gone} are gone from a log that is not compacted"
        young_us = (now_ms - self.rules.min_lag_ms) * 1000
        if self.rules.min_lag_ms:
            young = [offset for offset, row in before.items() if offset <= gone[-1] and (row.at_us or 0) > young_us]
            assert not young, f"4: {gone} are gone, and {young} are younger than min.compaction.lag.ms"
        self._check_dropped(before, gone, seen, now_ms)

    def _check_dropped(self, before: dict[int, Row], gone: Sequence[int], seen: Seen, now_ms: int) -> None:
        last = {row.key: offset for offset, row in before.items()}
        for key in {before[offset].key for offset in gone} - {None}:
            offset = last[key]
            if offset in seen.rows:
                continue
            assert before[offset].value is None, f"4: the last value of {key}, at {offset}, is gone"
            older = [at for at in before if at in seen.rows and before[at].key == key]
            assert not older, f"4: the tombstone of {key} at {offset} is gone, and what it deletes is at {older}"
            passed_ms = self.passed_ms.get(offset)
            is_over = passed_ms is not None and now_ms - passed_ms >= self.rules.delete_retention_ms
            assert is_over, (
                f"4: the tombstone of {key} at {offset} went {now_ms - (passed_ms or now_ms)} ms after a pass"
            )

    def _note_passed(self, seen: Seen, began_ms: int) -> None:
        position = 0 if seen.cleaner is None else seen.cleaner.position
        for offset, row in seen.rows.items():
            if row.value is None and offset < position:
                self.passed_ms.setdefault(offset, began_ms)

    # ---- 5: what was written --------------------------------------------------------------------

    def _check_new(self, seen: Seen, writes: Mapping[str, Write]) -> None:
        new = {offset: row for offset, row in seen.rows.items() if offset >= self.end}
        for offset, row in new.items():
            write = writes.get(row.name.partition("-")[0])
            assert write is not None, f"5: {row} at {offset} was never written"
            assert not write.is_refused, f"5: {row} at {offset} was refused"
            at = write.seen_at.setdefault(self.number, offset - _place(row))
            assert at == offset - _place(row), f"5: {row} is at {offset}, and its write began at {at}"
            wanted = write.parts[self.number][_place(row)]
            assert _is(row, wanted), f"5: {row} at {offset}, wanted {wanted}"
        after = seen.replication
        low = max(self.end, after.log_start)
        missing = [at for at in range(low, after.high_watermark) if at not in new and not _within(at, after.lost)]
        unexplained = [at for at in missing if not _within(at, self.gaps)]
        assert not unexplained, f"5: nothing is at {unexplained}"
        for name, write in writes.items():
            if write.starts is None or self.number not in write.starts:
                continue
            at, rows = write.starts[self.number], write.parts[self.number]
            known = write.seen_at.setdefault(self.number, at)
            assert known == at, f"5: write {name} was told {at}, and is at {known}"
            if not write.is_lossy:
                assert at + len(rows) <= after.high_watermark, f"5: write {name} is acknowledged, and not visible"
                there = [offset for offset in range(max(at, low), at + len(rows)) if offset in missing]
                assert not there, f"5: {there} of write {name} is acknowledged, and not there"


def _check_cleaned(seen: Seen) -> None:
    if seen.cleaner is None or seen.cleaner.keeps_superseded:
        return
    whole = [slice_.start for slice_ in seen.slices if slice_.start >= seen.whole.start]
    cleaned = range(min(whole, default=seen.whole.end), seen.cleaner.position)
    keys = Counter(row.key for at, row in seen.rows.items() if at in cleaned)
    assert not keys or max(keys.values()) == 1, f"6: in {cleaned} are {keys}, {seen.cleaner}"


def _within(offset: int, ranges: Sequence[OffsetRange]) -> bool:
    return any(range_.start <= offset < range_.end for range_ in ranges)


def _place(row: Row) -> int:
    """Which record of its write in this partition it is."""
    return int(row.name.rpartition("-")[2])


def _is(row: Row, wanted: Row) -> bool:
    return row._replace(at_us=None) == wanted._replace(at_us=None) and wanted.at_us in (None, row.at_us)
