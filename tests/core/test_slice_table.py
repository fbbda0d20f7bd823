"""Slices by partition and offset: what a range finds equals a plain list, wherever tail and blocks meet."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core import slice_table
from sparklog.core.slice_table import (
    SliceColumns,
    SliceTable,
    digest,
    partition_key,
    slice_columns,
)
from sparklog.core.types import Offset, OffsetRange, Slice, TopicPartition
from tests.core.decided_log import place, span
from tests.core.every_record import EVERY_RECORD

(PATTERN,) = next(each.slices for each in EVERY_RECORD if hasattr(each, "slices"))


def made(at: TopicPartition, start: int, end: int, number: int = 0) -> Slice:
    changes = {"topic_id": at.topic_id, "partition": at.partition, "object_number": number, "records": end - start}
    return msgspec.structs.replace(PATTERN, start=Offset(start), end=Offset(end), producer=None, **changes)


def find(table: SliceTable, at: TopicPartition, start: int, end: int) -> list[Slice]:
    return list(table.find(at, OffsetRange(Offset(start), Offset(end))))


def test_every_field_comes_back_from_columns() -> None:
    slices = [
        PATTERN,
        msgspec.structs.replace(PATTERN, producer=None),
        msgspec.structs.replace(PATTERN, producer=span(1 << 60, (1 << 31) - 1, 0, (1 << 31) - 1)),
        msgspec.structs.replace(PATTERN, topic_id=(1 << 31) - 1, partition=(1 << 32) - 1),
    ]
    assert list(SliceColumns(slice_columns(slices))) == slices
    assert list(SliceColumns(slice_columns([]))) == []


def test_partitions_are_ordered_by_topic_then_partition() -> None:
    ordered = [place(0, 1), place(1, 1), place((1 << 32) - 1, 1), place(0, 2)]
    assert sorted(ordered, key=partition_key) == ordered


def test_a_fingerprint_changes_with_bytes_and_bounds_and_with_nothing_else() -> None:
    def of(*slices: Slice) -> str:
        return digest(SliceColumns(slice_columns(slices)))

    plain = made(place(), 3, 6)
    same = msgspec.structs.replace(plain, records=1, append_time_ms=9)
    assert of(plain) == of(same)
    for change in ({"start": 2}, {"end": 7}, {"object_number": 9}, {"position": 9}, {"length": 9}):
        assert of(msgspec.structs.replace(plain, **change)) != of(plain)
    assert len({of(), of(plain), of(plain, plain)}) == 3


def test_an_empty_table_finds_nothing() -> None:
    table = SliceTable()
    table.seal()
    assert (len(table), find(table, place(), 0, 9), list(table.everything())) == (0, [], [])
    assert len(table.remove(place(), OffsetRange(Offset(0), Offset(9)))) == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("rewrite"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.just("seal"), st.just(0), st.just(0)),
        st.tuples(st.just("fork"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


# M: S-04
@settings(max_examples=60)
@given(steps=STEPS, tail_rows=st.integers(1, 9))
def test_any_range_finds_what_a_plain_list_holds(steps: list[tuple[str, int, int]], tail_rows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_table, "TAIL_ROWS", tail_rows)
        table, model, ends, number = SliceTable(), {at: [] for at in range(3)}, [0, 0, 0], 0
        for what, at, value in steps:
            rows: list[Slice] = model[at]
            if what == "append":
                number += 1
                rows.append(made(place(at), ends[at], ends[at] + value, number))
                ends[at] += value
                table.add(rows[-1:])
            elif what == "rewrite" and rows:
                low = value % len(rows)
                high = min(low + 2, len(rows) - 1)
                number += 1
                joined = made(place(at), rows[low].start, rows[high].end, number)
                gone = table.remove(place(at), OffsetRange(joined.start, joined.end))
                assert list(gone) == rows[low : high + 1]
                rows[low : high + 1] = [joined]
                table.add([joined])
            elif what == "forget":
                gone = table.remove(place(at), OffsetRange(Offset(0), Offset(value)))
                assert list(gone) == [each for each in rows if each.end <= value]
                model[at] = [each for each in rows if each.end > value]
            elif what == "seal":
                table.seal()
            elif what == "fork":
                fork = table.fork()
                fork.add([made(place(0), 1_000, 1_001)])
                for partition in range(3):
                    fork.remove(place(partition), OffsetRange(Offset(0), Offset(900)))
                assert [each.start for each in fork.everything()] == [1_000]
        assert len(table) == sum(map(len, model.values()))
        assert list(table.everything()) == [each for rows in model.values() for each in rows]
        for at, rows in model.items():
            for start in range(0, ends[at] + 1, 2):
                for end in {start, start + 1, start + 5, ends[at] + 3}:
                    wanted = [each for each in rows if each.end > start and each.start < end]
                    assert find(table, place(at), start, end) == wanted
