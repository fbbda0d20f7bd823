"""Many offsets at once find the slices that a walk finds one by one, wherever tail, blocks and dead rows meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.tables import slice_table
from sparklog.core.tables.slice_search import FOUND, NO_SLICE, slices_at
from sparklog.core.tables.slice_table import SliceTable, partition_key
from sparklog.core.types import Offset, OffsetRange, TopicPartition
from tests.core.decided_log import place
from tests.core.tables.test_slice_table import made

PLACES = [place(partition, topic_id) for topic_id in (1, 2) for partition in (0, 1)]
END = 40


@given(
    added=st.lists(st.tuples(st.sampled_from(PLACES), st.integers(1, 4), st.integers(0, 2)), max_size=40),
    removed=st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, END), st.integers(0, END)), max_size=4),
    tail_rows=st.integers(0, 12),
    asked=st.lists(st.tuples(st.sampled_from([*PLACES, place(7, 7)]), st.integers(0, END)), max_size=30),
)
def test_each_offset_finds_its_slice_or_the_next_one(
    added: list[tuple[TopicPartition, int, int]],
    removed: list[tuple[TopicPartition, int, int]],
    tail_rows: int,
    asked: list[tuple[TopicPartition, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_table.SliceTable, "TAIL_ROWS", tail_rows)
        table, ends = SliceTable(), dict.fromkeys(PLACES, 0)
        for number, (at, length, gap) in enumerate(added):
            start = ends[at] + gap
            table.add([made(at, start, start + length, number)])
            ends[at] = start + length
        for at, low, high in removed:
            table.remove(at, OffsetRange(Offset(min(low, high)), Offset(max(low, high))))
    keys = np.array([partition_key(at) for at, _ in asked], dtype=np.int64)
    found = slices_at(table, keys, np.array([offset for _, offset in asked], dtype=np.int64))
    for row, (at, offset) in enumerate(asked):
        expected = next(table.walk(at, OffsetRange(Offset(offset), Offset(10 * END))), None)
        if expected is None:
            assert found["start"][row] == NO_SLICE
        else:
            assert [found[name][row] for name in FOUND] == [getattr(expected, name) for name in FOUND]
