"""A log whose records are numbered otherwise: only `core/numbering.py` is replaced, and every reader follows.

As compaction will number them: of ten offsets a slice keeps the records of every second one. Here record i of a slice
has offset start + 2 * i, where the module says start + i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from sparklog.core.errors import StoreUnavailable
from sparklog.core.numbering import RowOffsets, SliceOffsets
from sparklog.core.plan import RangeToRead, SliceToRead
from sparklog.core.types import (
    Holder,
    NamedObject,
    Offset,
    OffsetRange,
    Slice,
    StoreId,
    TimestampSource,
)
from sparklog.log import index, object_reader, ranged_reads, time_lookup
from sparklog.log.records_schema import read_schema
from sparklog.log.scan import scan
from sparklog.log.time_lookup import first_in
from sparklog.storage.memory import MemoryStore
from tests.log.written_log import APPEND_TIME_MS, WrittenLog, part_of, parts_of, range_of, stores_of, times_log

TIMES = [(7 * each) % 40 for each in range(40)]
OFFSETS = [2 * each for each in range(40)]
END = Offset(80)


class EverySecond(RowOffsets):
    """Offsets start, start + 2, …"""

    def at(self, row: int) -> Offset:
        return Offset(self.start + 2 * row)

    @property
    def behind(self) -> Offset:
        return Offset(self.start + 2 * self.rows)

    def rows_in(self, offsets: OffsetRange) -> tuple[int, int]:
        inside = [row for row in range(self.rows) if offsets.start <= self.at(row) < offsets.end]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def cut(self, low: int, high: int) -> RowOffsets:
        return EverySecond(self.at(low), high - low)

    def column(self) -> Any:
        return np.array([self.at(row) for row in range(self.rows)], dtype=np.int64)


class OfEverySecond(SliceOffsets):
    @classmethod
    def of(cls, slice: Slice, records: Any) -> SliceOffsets:
        ends = slice.start + 2 * np.cumsum(records)
        return cls(ends - 2 * records, ends, records)

    def of_batch(self, batch: int) -> RowOffsets:
        return EverySecond(Offset(int(self.starts[batch])), int(self.records[batch]))


def by_chain(offsets: OffsetRange, most_rows: int) -> Iterator[RowOffsets]:
    for start in range(offsets.start + offsets.start % 2, offsets.end, 2):
        yield EverySecond(Offset(start), 1)


def with_gaps(**given: Any) -> WrittenLog:
    """Two slices of twenty records each, of which every second offset has one."""
    log = times_log(TIMES, records_per_object=20, **given)
    assert [each.records for each in log.slices] == [20, 20]
    log.slices = [
        msgspec.structs.replace(each, start=Offset(2 * each.start), end=Offset(2 * each.end)) for each in log.slices
    ]
    return log


@pytest.fixture(autouse=True)
def other_numbering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_reads, "RANGED_READ_BYTES", 1)  # a read for each batch
    monkeypatch.setattr(index, "SliceOffsets", OfEverySecond)
    monkeypatch.setattr(index, "is_dense", lambda slice: slice.end - slice.start == 2 * slice.records)
    monkeypatch.setattr(object_reader, "numbered_by_chain", by_chain)
    monkeypatch.setattr(time_lookup, "numbered_by_chain", by_chain)


def held_by(log: WrittenLog, holders: str) -> tuple[SliceToRead, ...]:
    held = tuple(Holder(StoreId(each), 1) for each in holders)
    return tuple(
        part_of(part.slice, NamedObject(part.object.number, msgspec.structs.replace(part.object.object, holders=held)))
        for part in parts_of(log)
    )


def scanned(log: WrittenLog, start: int, end: int, columns: Sequence[str], stores: Any, holders: str = "a") -> pa.Table:
    def never(plan: RangeToRead, at: Offset) -> RangeToRead:
        raise AssertionError("nothing is planned again")

    parts = tuple(each for each in held_by(log, holders) if each.slice.start < end and each.slice.end > start)
    plan = range_of(parts, start, end)
    batches = list(scan(plan, stores, columns, never))
    assert all(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches, schema=read_schema(columns))


@pytest.mark.parametrize(("start", "end"), [(0, END), (1, 2), (0, 1), (7, 61), (8, 60), (38, 42), (39, 41), (79, END)])
def test_a_scan_gives_each_record_its_offset(start: int, end: int) -> None:
    log = with_gaps()
    wanted = [offset for offset in OFFSETS if start <= offset < end]
    found = scanned(log, start, end, ["offset", "timestamp"], stores_of(log))
    assert found["offset"].to_pylist() == wanted
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [TIMES[offset // 2] for offset in wanted]


def test_columns_of_the_chain_alone_have_the_same_offsets() -> None:
    log = with_gaps(source=TimestampSource.APPEND_TIME)
    assert scanned(log, 5, 61, ["offset"], stores_of(log))["offset"].to_pylist() == list(range(6, 61, 2))


def test_the_next_holder_goes_on_behind_the_records_that_the_first_one_gave() -> None:
    class FailsAtTheThirdRead(MemoryStore):
        reads = 0

        def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
            self.reads += 1
            if self.reads == 3:
                raise StoreUnavailable("no answer")
            return super().get_ranges(key, ranges)

    log = with_gaps()
    stores = stores_of(log, b=FailsAtTheThirdRead(log.store.url))
    assert scanned(log, 0, END, ["offset", "value"], stores, "ba")["offset"].to_pylist() == OFFSETS


@pytest.mark.parametrize("start", [0, 1, 13, 40, 77])
@pytest.mark.parametrize("at_us", [0, 17, 35, 39, 40])
def test_a_look_up_by_time_gives_the_records_offset(start: int, at_us: int) -> None:
    log = with_gaps()
    model = [offset for offset in OFFSETS if offset >= start and TIMES[offset // 2] >= at_us]
    found = first_in(parts_of(log), stores_of(log), "orders", at_us, Offset(start))
    assert found == (model[0] if model else None)


def test_a_look_up_of_an_append_time_gives_the_records_offset() -> None:
    log = with_gaps(source=TimestampSource.APPEND_TIME)
    assert first_in(parts_of(log), stores_of(log), "orders", APPEND_TIME_MS * 1000, Offset(13)) == 14
