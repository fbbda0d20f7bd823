"""The rows of a Kafka partition become runs while they come: dense until the first empty offset."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.types import NewSlice, Offset, OffsetRange, PartitionIndex, TimestampSource, TopicId
from sparklog.log.write.kept_offsets import RangeRuns, WriterKey

START = Offset(5)
SOURCES = (TimestampSource.CREATE_TIME, TimestampSource.APPEND_TIME_IN_COLUMN)
Batch = tuple[list[int], int]  # offsets, and the type of their timestamps


def divided(batches: list[Batch], end: int) -> tuple[list[tuple[WriterKey, list[int]]], list[NewSlice]]:
    """The rows of each writer, by their offsets, and the slices, if each writer uploads one object."""
    runs = RangeRuns(3, START)
    written: dict[WriterKey, list[int]] = {}
    for offsets, timestamp_type in batches:
        rows = pa.RecordBatch.from_pydict({"row": pa.array(offsets, pa.int64())})
        runs.expect(np.array(offsets, np.int64), timestamp_type)
        for key, part in runs.parts(rows):
            assert part.schema.names == (["row", "offset"] if key.stores_offsets else ["row"])
            assert not key.stores_offsets or part.column("offset").to_pylist() == part.column("row").to_pylist()
            written.setdefault(key, []).extend(part.column("row").to_pylist())
    runs.end = Offset(end)
    named = runs.named([(key, slice_of(key, offsets)) for key, offsets in written.items()])
    return [*written.items()], list(named)


def slice_of(key: WriterKey, offsets: list[int]) -> NewSlice:
    return NewSlice(
        object_index=0,
        topic_id=TopicId(1),
        partition=PartitionIndex(3),
        records=len(offsets),
        position=0,
        length=1,
        first_batch=0,
        batches=1,
        min_timestamp_us=0,
        max_timestamp_us=0,
        offsets=OffsetRange(Offset(offsets[0]), Offset(offsets[-1] + 1)) if key.stores_offsets else None,
    )


def covered(slices: list[NewSlice]) -> list[tuple[int, int]]:
    return [(each.offsets.start, each.offsets.end) for each in slices if each.offsets is not None]


def test_dense_rows_are_one_run_without_offsets() -> None:
    written, slices = divided([([5, 6], 0), ([7], 0)], 8)
    assert [key.stores_offsets for key, _ in written] == [False]
    assert covered(slices) == [(5, 8)]


def test_from_the_first_empty_offset_on_offsets_are_stored() -> None:
    written, slices = divided([([5, 6, 9], 0), ([10], 0)], 15)
    assert [(key.stores_offsets, offsets) for key, offsets in written] == [(False, [5, 6]), (True, [9, 10])]
    assert covered(slices) == [(5, 7), (7, 15)]


def test_empty_offsets_behind_dense_rows_are_left_to_the_next_write() -> None:
    _, slices = divided([([5, 6], 0)], 9)
    assert covered(slices) == [(5, 7)]


def test_each_type_of_timestamp_has_runs_of_its_own() -> None:
    written, slices = divided([([5], 0), ([6], 1), ([8], 1), ([9], 0)], 10)
    assert [(key.stores_offsets, offsets) for key, offsets in written] == [
        (False, [5]),
        (False, [6]),
        (True, [8]),
        (True, [9]),
    ]
    assert [each.timestamp_source for each in slices] == [SOURCES[0], SOURCES[1], SOURCES[1], SOURCES[0]]
    assert covered(slices) == [(5, 6), (6, 7), (7, 9), (9, 10)]


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 1)), min_size=1),
    st.integers(0, 3),
)
def test_any_rows_are_covered_without_holes_and_each_once(
    gaps: list[int], cuts: list[tuple[int, int]], behind: int
) -> None:
    offsets = [START + at + gap for at, gap in enumerate(np.cumsum(gaps).tolist())]
    batches: list[Batch] = []
    rest = offsets
    while rest:
        size, timestamp_type = cuts[len(batches) % len(cuts)]
        batches.append((rest[:size], timestamp_type))
        rest = rest[size:]
    written, slices = divided(batches, offsets[-1] + 1 + behind)
    assert [offset for _, of_writer in written for offset in of_writer] == offsets
    ranges = covered(slices)
    assert ranges[0][0] == START
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    for (key, of_writer), (start, end) in zip(written, ranges, strict=True):
        assert start <= of_writer[0] <= of_writer[-1] < end
        assert key.stores_offsets or of_writer == [*range(start, end)]
    assert ranges[-1][1] == offsets[-1] + 1 + (behind if written[-1][0].stores_offsets else 0)
