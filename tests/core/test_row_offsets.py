"""How records are numbered: the arithmetic equals a list of offsets, and nobody else does it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.row_offsets import (
    SliceOffsets,
    end_of_records,
    is_dense,
    most_records,
    numbered_by_chain,
    offset_after,
    records_between,
    within,
)
from sparklog.core.tables.slice_table import slice_columns
from sparklog.core.types import Offset, OffsetRange, Slice
from tests.core.planned_log import PlannedLog


@pytest.fixture(scope="module")
def slice_of_ten() -> Slice:
    """Offsets [10, 20)."""
    log = PlannedLog({})
    for timestamp_ms in (1, 2):
        log.append_slice(10, 100, timestamp_ms)
    _, second = log.state.slices.everything()
    return second


ranges = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(
    lambda ends: OffsetRange(Offset(min(ends)), Offset(max(ends)))
)


def test_an_append_numbers_its_records_without_a_gap() -> None:
    assert offset_after(7, 3) == 10
    assert records_between(7, 10) == 3


def test_a_slice_that_compaction_thinned_out_is_not_dense(slice_of_ten: Slice) -> None:
    assert is_dense(slice_of_ten)
    assert not is_dense(msgspec.structs.replace(slice_of_ten, records=9))


@given(wanted=ranges)
def test_the_part_of_a_range_that_lies_in_a_slice(slice_of_ten: Slice, wanted: OffsetRange) -> None:
    model = [offset for offset in range(wanted.start, wanted.end) if 10 <= offset < 20]
    found = within(slice_of_ten, wanted)
    assert ([] if found is None else list(range(found.start, found.end))) == model
    assert found is None or found.start < found.end


@given(records=st.lists(st.integers(1, 6), min_size=1, max_size=8), wanted=ranges)
def test_batches_and_rows_of_a_range_are_those_that_a_list_has(
    slice_of_ten: Slice, records: list[int], wanted: OffsetRange
) -> None:
    model: list[list[int]] = []  # offsets per batch
    for count in records:
        start = 10 + sum(len(batch) for batch in model)
        model.append(list(range(start, start + count)))
    slice = msgspec.structs.replace(slice_of_ten, end=Offset(10 + sum(records)), records=sum(records))
    offsets = SliceOffsets.of(slice, np.array(records, dtype=np.int32))
    assert list(zip(offsets.starts, offsets.ends, strict=True)) == [(batch[0], batch[-1] + 1) for batch in model]
    begin, stop = offsets.batches_in(wanted)
    inside = [[offset for offset in batch if wanted.start <= offset < wanted.end] for batch in model]
    if wanted.start < wanted.end:
        assert list(range(begin, stop)) == [number for number, batch in enumerate(inside) if batch]
    for number, batch in enumerate(model):
        rows = offsets.of_batch(number)
        assert rows.column().tolist() == batch == [rows.at(row) for row in range(rows.rows)]
        assert rows.end == batch[-1] + 1
        low, high = rows.rows_in(wanted)
        assert rows.cut(low, high).column().tolist() == inside[number]


def test_the_chain_alone_numbers_a_slice_in_parts() -> None:
    parts = list(numbered_by_chain(OffsetRange(Offset(3), Offset(10)), 3))
    assert [part.column().tolist() for part in parts] == [[3, 4, 5], [6, 7, 8], [9]]
    assert list(numbered_by_chain(OffsetRange(Offset(3), Offset(3)), 3)) == []


stored_batches = st.lists(st.lists(st.booleans(), min_size=1, max_size=7).filter(any), min_size=1, max_size=6)


@given(present=stored_batches, wanted=ranges)
def test_batches_and_rows_of_a_compacted_slice_are_those_that_a_list_has(
    slice_of_ten: Slice, present: list[list[bool]], wanted: OffsetRange
) -> None:
    model: list[list[int]] = []  # offsets per batch
    at = 10
    for batch in present:
        model.append([at + row for row, is_there in enumerate(batch) if is_there])
        at += len(batch)
    slice = msgspec.structs.replace(slice_of_ten, end=Offset(at), records=sum(map(len, model)))
    sizes = np.array([len(batch) for batch in model], np.int32)
    offsets = SliceOffsets.stored(
        slice, sizes, np.array([batch[0] for batch in model]), np.array([batch[-1] for batch in model])
    )
    assert offsets is not None
    begin, stop = offsets.batches_in(wanted)
    for number, batch in enumerate(model):
        column = np.array(batch, np.int64)
        rows = offsets.of_column(number, column)
        assert rows is not None
        assert rows.column().tolist() == batch == [rows.at(row) for row in range(rows.rows)]
        assert (rows.start, rows.end) == (batch[0], batch[-1] + 1)
        low, high = rows.rows_in(wanted)
        inside = [offset for offset in batch if wanted.start <= offset < wanted.end]
        assert batch[low:high] == inside
        assert not inside or (begin <= number < stop and rows.cut(low, high).column().tolist() == inside)
        assert offsets.of_column(number, column[:-1]) is None
        assert offsets.of_column(number, column + 1) is None


@pytest.mark.parametrize(
    ("base", "last"), [([9], [12]), ([10], [20]), ([10, 12], [12, 15]), ([14, 10], [15, 12]), ([10], [11])]
)
def test_offsets_that_do_not_fit_a_slice_are_refused(slice_of_ten: Slice, base: list[int], last: list[int]) -> None:
    sizes = np.array([3] * len(base), np.int32)
    assert SliceOffsets.stored(slice_of_ten, sizes, np.array(base), np.array(last)) is None


def test_offsets_that_overflow_are_not_those_of_a_slice(slice_of_ten: Slice) -> None:
    """The offset after the last one would be negative, so all differences of offsets would look right."""
    base, last = np.array([2**62]), np.array([2**63 - 1])
    assert SliceOffsets.stored(slice_of_ten, np.array([3], np.int32), base, last) is None


@pytest.mark.parametrize("column", [[10, 12, 12, 15], [10, 13, 12, 15]])
def test_a_column_that_does_not_ascend_is_refused(slice_of_ten: Slice, column: list[int]) -> None:
    offsets = SliceOffsets.stored(slice_of_ten, np.array([4], np.int32), np.array([10]), np.array([15]))
    assert offsets is not None
    assert offsets.of_column(0, np.array([10, 11, 12, 15])) is not None
    assert offsets.of_column(0, np.array(column)) is None


def test_records_of_a_range_are_counted_by_slices(slice_of_ten: Slice) -> None:
    thin = msgspec.structs.replace(slice_of_ten, start=Offset(20), end=Offset(30), records=4)
    for slices, start, count in (
        ([slice_of_ten, thin], 10, 14),
        ([slice_of_ten, thin], 15, 9),
        ([thin], 20, 4),
        ([thin], 25, 4),
        ([thin], 28, 2),
    ):
        assert most_records(slice_columns(slices), OffsetRange(Offset(start), Offset(30))) == count


@pytest.mark.parametrize(
    ("start", "most", "end"),
    [(10, 3, 13), (10, 10, 20), (10, 11, 30), (12, 8, 20), (25, 1, 30), (30, 2, 32), (30, 99, 40)],
)
def test_where_to_stop_reading_a_number_of_records(slice_of_ten: Slice, start: int, most: int, end: int) -> None:
    thin = msgspec.structs.replace(slice_of_ten, start=Offset(20), end=Offset(30), records=4)
    last = msgspec.structs.replace(slice_of_ten, start=Offset(30), end=Offset(40))
    assert end_of_records([slice_of_ten, thin, last], OffsetRange(Offset(start), Offset(40)), most) == end
