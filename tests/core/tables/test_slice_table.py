"""Slices by partition and offset: what a range finds equals a plain list, wherever tail and blocks meet."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparklog.core.tables import slice_table
from sparklog.core.tables.slice_table import (
    SliceColumns,
    SliceTable,
    digest,
    partition_key,
    slice_columns,
)
from sparklog.core.types import Offset, OffsetRange, Slice, TopicId, TopicPartition
from tests.core.decided_log import TOPIC, place, span
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
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 4), st.integers(0, 9)),
        st.tuples(st.just("rewrite"), st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)),
        st.tuples(st.just("forget topic"), st.integers(0, 2), st.just(0), st.integers(0, 9)),
        st.tuples(st.just("seal"), st.just(0), st.just(0), st.integers(0, 9)),
        st.tuples(st.just("store"), st.just(0), st.just(0), st.integers(0, 9)),
        st.tuples(st.just("fork"), st.just(0), st.just(0), st.integers(0, 9)),
    ),
    max_size=40,
)
LAST_TOPIC = (1 << 31) - 1
PLACES = (place(0, 1), place((1 << 32) - 1, 1), place(0, LAST_TOPIC))  # two partitions of one topic, one of another


class Lists:
    """The slow twin of a table: a list of slices per place."""

    def __init__(self) -> None:
        self.rows: list[list[Slice]] = [[] for _ in PLACES]
        self.ends = [0 for _ in PLACES]

    def copy(self) -> Lists:
        other = Lists()
        other.rows, other.ends = [list(each) for each in self.rows], list(self.ends)
        return other


def run(table: SliceTable, model: Lists, what: str, at: int, value: int, number: int) -> None:
    """One step, in both."""
    rows = model.rows[at]
    if what == "append":
        rows.append(made(PLACES[at], model.ends[at], model.ends[at] + value, number))
        model.ends[at] += value
        table.add(rows[-1:])
    elif what == "rewrite" and rows:
        low = value % len(rows)
        high = min(low + 2, len(rows) - 1)
        joined = made(PLACES[at], rows[low].start, rows[high].end, number)
        gone = table.remove(PLACES[at], OffsetRange(joined.start, joined.end))
        assert list(gone) == rows[low : high + 1]
        rows[low : high + 1] = [joined]
        table.add([joined])
    elif what == "forget":
        gone = table.remove(PLACES[at], OffsetRange(Offset(0), Offset(value)))
        assert list(gone) == [each for each in rows if each.end <= value]
        model.rows[at] = [each for each in rows if each.end > value]
    elif what == "forget topic":
        of_topic = [each for each, key in enumerate(PLACES) if key.topic_id == PLACES[at].topic_id]
        numbers = table.remove_topic(PLACES[at].topic_id)
        assert sorted(numbers.tolist()) == sorted(row.object_number for each in of_topic for row in model.rows[each])
        for each in of_topic:
            model.rows[each] = []
    elif what == "seal":
        table.seal()


def check_all(table: SliceTable, model: Lists) -> None:
    assert len(table) == sum(map(len, model.rows))
    assert list(table.everything()) == [each for rows in model.rows for each in rows]
    for at, rows in zip(PLACES, model.rows, strict=True):
        last = rows[-1].end if rows else 0
        for start in range(0, last + 1, 2):
            for end in {start, start + 1, start + 5, last + 3}:
                wanted = [each for each in rows if each.end > start and each.start < end]
                assert find(table, at, start, end) == wanted


# M: S-04
@settings(max_examples=60)
@given(steps=STEPS, tail_rows=st.integers(1, 9))
def test_any_range_finds_what_a_plain_list_holds(steps: list[tuple[str, int, int, int]], tail_rows: int) -> None:
    """Versions live side by side, are forked again and changed in any order, and never see each other's changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_table.SliceTable, "TAIL_ROWS", tail_rows)
        versions = [(SliceTable(), Lists())]
        for number, (what, at, value, which) in enumerate(steps):
            table, model = versions[-1 - which % len(versions)]
            if what == "fork":
                versions.append((table.fork(), model.copy()))
            elif what == "store":
                versions.append((SliceTable(table.in_blocks().blocks), model.copy()))
            else:
                run(table, model, what, at, value, number)
        for table, model in versions:
            check_all(table, model)


def test_a_table_that_goes_on_from_another_copies_no_slices_and_a_second_one_does() -> None:
    table = SliceTable()
    table.add([made(place(), 0, 1)])
    first, second = table.fork(), table.fork()
    first.add([made(place(), 1, 2)])
    second.add([made(place(), 1, 3)])
    lists = [each._tail[partition_key(place())][0] for each in (table, first, second)]
    assert lists[1] is lists[0]
    assert lists[2] is not lists[0]
    assert [[slice_.end for slice_ in find(each, place(), 0, 9)] for each in (table, first, second)] == [
        [1],
        [1, 2],
        [1, 3],
    ]


def test_two_threads_that_go_on_from_one_table_do_not_see_each_others_slices() -> None:
    """Both find that nobody went on from it, and both append to its list."""

    class Raced(list[Slice]):
        def append(self, added: Slice) -> None:
            super().append(made(place(), 1, 7))  # the other thread was faster
            super().append(added)

    raced = Raced([made(place(), 0, 1)])
    mine = made(place(), 1, 2)
    slices, count = slice_table._with((raced, 1), mine)
    assert slices[:count] == [raced[0], mine]


def test_a_table_that_was_forked_may_go_on_beside_its_fork() -> None:
    table = SliceTable()
    table.add([made(place(), 0, 1)])
    fork = table.fork()
    table.add([made(place(), 1, 2)])
    assert [len(find(each, place(), 0, 9)) for each in (table, fork)] == [2, 1]


def test_what_is_added_after_something_was_forgotten_is_there() -> None:
    table = SliceTable()
    table.add(made(place(), at, at + 1) for at in range(3))
    table.remove(place(), OffsetRange(Offset(0), Offset(1)))
    table.add([made(place(), 3, 4)])
    assert [each.start for each in find(table, place(), 0, 9)] == [1, 2, 3]
    table.remove(place(), OffsetRange(Offset(0), Offset(4)))
    table.add([made(place(), 4, 5)])
    assert [each.start for each in find(table, place(), 0, 9)] == [4]
    table.remove_topic(TOPIC)
    table.add([made(place(), 5, 6)])
    assert [each.start for each in find(table, place(), 0, 9)] == [5]


def test_a_long_tail_is_sealed_and_blocks_are_tidied_when_they_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_table.SliceTable, "TAIL_ROWS", 2)
    table = SliceTable()
    table.add([made(place(), 0, 1)])
    assert [each.rows for each in table.blocks] == []
    table.add([made(place(), 1, 2), made(place(), 2, 3)])
    assert [each.rows for each in table.blocks] == [3]
    table.add([made(place(), 3, 4)])
    assert [each.rows for each in table.in_blocks().blocks] == [3, 1]
    loaded_twice = SliceTable((*table.in_blocks().blocks, *table.fork().in_blocks().blocks[1:]))
    assert [each.rows for each in loaded_twice.in_blocks().blocks] == [5]


def test_a_block_of_which_everything_is_forgotten_goes_at_once() -> None:
    table = SliceTable()
    table.add([made(place(0, topic), 0, 1, topic) for topic in (1, LAST_TOPIC)])
    table.seal()
    fork = table.fork()
    assert fork.remove_topic(TopicId(1)).tolist() == [1]
    assert len(fork.blocks) == 1  # the other topic's slice is in it
    assert fork.remove_topic(TopicId(LAST_TOPIC)).tolist() == [LAST_TOPIC]
    assert (len(fork.blocks), len(fork), len(table)) == (0, 0, 2)
