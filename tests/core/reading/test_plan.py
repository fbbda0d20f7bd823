"""Ranges and tasks: what is legal at the borders, which slices a range needs, and tasks that hold every offset once."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.core.commands import CreateTopic, MoveLogStart
from sparklog.core.errors import OffsetOutOfRange, UnknownTopicOrPartition
from sparklog.core.lookup import partition_of, topic_of
from sparklog.core.placement.held_slices import named_object
from sparklog.core.reading.plan import WeighedRange, check_range, pack, plan_range, weigh
from sparklog.core.state import Topic
from sparklog.core.tables.slice_table import SliceTable
from sparklog.core.types import ObjectNumber, Offset, OffsetRange, PartitionIndex
from tests.core.decided_log import TOPIC, A, DecidedLog


@pytest.fixture
def log() -> DecidedLog:
    """Slices [0, 20), [20, 30), [30, 50) of 200, 100 and 200 bytes; the log starts at 5."""
    made = DecidedLog()
    for records in (20, 10, 20):
        made.append(records)
    made.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(5)))
    return made


def orders(log: DecidedLog) -> Topic:
    return topic_of(log.state, "orders")


def offsets(start: int, end: int) -> OffsetRange:
    return OffsetRange(Offset(start), Offset(end))


# ---- names ------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_told_with_those_that_are(log: DecidedLog) -> None:
    assert orders(log).topic_id == TOPIC
    with pytest.raises(
        UnknownTopicOrPartition, match=r"wanted topic 'order', the cluster has orders; did you mean orders\?$"
    ):
        topic_of(log.state, "order")
    for at in range(11):
        if at == 9:
            with pytest.raises(UnknownTopicOrPartition, match=r"t07, t08; did you mean orders\?$"):
                topic_of(log.state, "order")
        log.submit(CreateTopic(f"t{at:02d}", assignment=((A,),)))
    with pytest.raises(UnknownTopicOrPartition, match=r"has orders, t00, .*, t08 and 2 more; did you mean orders\?$"):
        topic_of(log.state, "order")
    log.state.topic_ids.clear()
    with pytest.raises(UnknownTopicOrPartition, match=r"the cluster has no topics; make it$"):
        topic_of(log.state, "order", advice="; make it")


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_partition_that_is_not_there_is_told_with_those_that_are(log: DecidedLog, partition: int) -> None:
    assert partition_of(log.state, orders(log), 1).partition == 1
    with pytest.raises(UnknownTopicOrPartition, match=f"wanted partition {partition} of topic orders, .* 0 to 1"):
        partition_of(log.state, orders(log), partition)


def test_a_topic_of_one_partition_is_told_so(log: DecidedLog) -> None:
    log.submit(CreateTopic("single", assignment=((A,),)))
    with pytest.raises(UnknownTopicOrPartition, match=r"wanted partition 1 of topic single, it has only partition 0$"):
        partition_of(log.state, topic_of(log.state, "single"), 1)


# ---- ranges -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "end"), [(5, 50), (5, 5), (50, 50), (49, 50)])
def test_a_range_may_reach_from_log_start_to_high_watermark(log: DecidedLog, start: int, end: int) -> None:
    assert check_range("orders", log.partition(), start, end) == offsets(start, end)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (4, 50, r"wanted \[4, 50\), the readable range is \[5, 50\)"),
        (5, 51, r"wanted \[5, 51\), the readable range is \[5, 50\)"),
        (51, 51, r"wanted \[51, 51\)"),
        (-1, 5, r"wanted \[-1, 5\)"),
        (10, 9, "the start 10 is greater than the end 9"),
    ],
)
def test_a_range_beyond_the_log_is_refused(log: DecidedLog, start: int, end: int, text: str) -> None:  # M: S-10
    with pytest.raises(OffsetOutOfRange, match=f"orders-0: {text}"):
        check_range("orders", log.partition(), start, end)


@pytest.mark.parametrize(
    ("start", "end", "slices"),
    [
        (5, 50, [0, 20, 30]),
        (19, 20, [0]),
        (20, 21, [20]),
        (19, 21, [0, 20]),
        (29, 31, [20, 30]),
        (20, 30, [20]),
        (49, 50, [30]),
        (25, 25, []),
        (20, 20, []),
        (50, 50, []),
    ],
)
def test_a_range_needs_the_slices_that_overlap_it(log: DecidedLog, start: int, end: int, slices: list[int]) -> None:
    plan = plan_range(log.state, orders(log), 0, offsets(start, end))
    assert [each.slice.start for each in plan.slices] == slices
    assert (plan.topic, plan.start, plan.end, plan.planned_at) == ("orders", start, end, log.state.n)
    for each in plan.slices:
        assert each.object.number == each.slice.object_number
        assert each.object.object == log.state.objects.get(each.slice.object_number)


# M: S-04
def test_every_range_of_a_log_is_covered_by_its_slices(log: DecidedLog) -> None:
    for start in range(5, 51):
        for end in range(start, 51):
            found = plan_range(log.state, orders(log), 0, offsets(start, end)).slices
            covered = [at for each in found for at in range(each.slice.start, each.slice.end) if start <= at < end]
            assert covered == list(range(start, end))
            assert all(each.slice.start < end and each.slice.end > start for each in found)


def test_a_slice_of_no_object_is_a_broken_state(log: DecidedLog) -> None:
    (first, *_) = log.slices()
    log.state.objects.remove_many([ObjectNumber(0)])
    with pytest.raises(AssertionError, match="names an object that the state does not have"):
        named_object(log.state, first)


@pytest.mark.parametrize(
    ("start", "end", "size"),
    [(0, 50, 500), (5, 50, 450), (5, 6, 10), (20, 30, 100), (25, 40, 150), (19, 21, 20), (29, 30, 10), (30, 30, 0)],
)
def test_slices_that_lie_partly_in_a_range_weigh_by_their_share(
    log: DecidedLog, start: int, end: int, size: int
) -> None:
    found = weigh(log.state, TOPIC, PartitionIndex(0), offsets(start, end))
    assert found == WeighedRange(TOPIC, PartitionIndex(0), Offset(start), Offset(end), size)


# ---- tasks ------------------------------------------------------------------------------------------


def ranges(*sizes: tuple[int, int]) -> list[WeighedRange]:
    """A range of so many records and bytes in each partition."""
    return [
        WeighedRange(TOPIC, PartitionIndex(at), Offset(7), Offset(7 + records), size_bytes)
        for at, (records, size_bytes) in enumerate(sizes)
    ]


def shape(tasks: list[list[WeighedRange]]) -> list[list[tuple[int, int]]]:
    """Per task: (partition, records) of each of its ranges."""
    return [[(each.partition, each.end - each.start) for each in task] for task in tasks]


def test_small_ranges_share_a_task_up_to_its_bytes_exactly() -> None:
    given_ranges = ranges((5, 50), (5, 50), (5, 1))
    assert shape(pack(given_ranges, 101)) == [[(0, 5), (1, 5), (2, 5)]]
    assert shape(pack(given_ranges, 100)) == [[(0, 5), (1, 5)], [(2, 5)]]


def test_a_large_range_is_cut_into_even_pieces() -> None:
    assert shape(pack(ranges((10, 100)), 100)) == [[(0, 10)]]
    assert shape(pack(ranges((10, 101)), 100)) == [[(0, 5)], [(0, 5)]]
    assert shape(pack(ranges((10, 250)), 100)) == [[(0, 3)], [(0, 3)], [(0, 4)]]


def test_one_record_larger_than_a_task_is_a_task() -> None:
    assert shape(pack(ranges((1, 1_000), (2, 1_000)), 10)) == [[(0, 1)], [(1, 1)], [(1, 1)]]


def test_a_task_holds_at_most_its_records() -> None:
    assert shape(pack(ranges((7, 1), (2, 1), (1, 1)), 100, max_records=3)) == [
        [(0, 2)],
        [(0, 2)],
        [(0, 3)],
        [(1, 2), (2, 1)],
    ]


def test_ranges_without_bytes_are_tasks_too_and_those_without_records_are_none() -> None:
    """Records of a compacted range may all be gone: its offsets are read all the same."""
    assert shape(pack(ranges((5, 0)), 10)) == [[(0, 5)]]
    assert pack(ranges((0, 0), (0, 9)), 10, 5, 5) == []
    assert pack([], 10, None, 3) == []


def test_ranges_are_cut_further_until_there_are_enough_tasks() -> None:
    assert shape(pack(ranges((9, 9), (3, 3)), 100, min_tasks=1)) == [[(0, 9), (1, 3)]]
    assert shape(pack(ranges((9, 9), (3, 3)), 100, min_tasks=4)) == [[(0, 3)], [(0, 3)], [(0, 3)], [(1, 3)]]
    assert shape(pack(ranges((2, 9)), 100, min_tasks=50)) == [[(0, 1)], [(0, 1)]]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 400)), max_size=5),
    max_bytes=st.integers(1, 300),
    max_records=st.none() | st.integers(1, 12),
    min_tasks=st.none() | st.integers(1, 20),
)
def test_tasks_hold_every_offset_once_and_in_order(
    sizes: list[tuple[int, int]], max_bytes: int, max_records: int | None, min_tasks: int | None
) -> None:
    asked = ranges(*sizes)
    tasks = pack(asked, max_bytes, max_records, min_tasks)
    found = [(each.partition, at) for task in tasks for each in task for at in range(each.start, each.end)]
    assert found == [(each.partition, at) for each in asked for at in range(each.start, each.end)]
    assert all(task for task in tasks)
    for task in tasks:
        records = sum(each.end - each.start for each in task)
        assert max_records is None or records <= max_records
        largest_bytes = max(1 + asked_size // asked_records for asked_records, asked_size in sizes if asked_records)
        assert sum(each.size_bytes for each in task) <= max_bytes + (largest_bytes if len(task) == 1 else 0)
    assert sum(each.size_bytes for task in tasks for each in task) == sum(size for records, size in sizes if records)


# ---- compacted slices -------------------------------------------------------------------------------


def thinned(*slices: tuple[int, int, int]) -> WeighedRange:
    """What slices of (start, end, records) weigh together, ten bytes per record."""
    made = DecidedLog()
    made.append(1)
    (first,) = made.slices()
    made.state.slices = SliceTable()
    made.state.slices.add(
        msgspec.structs.replace(first, start=Offset(start), end=Offset(end), records=records, length=10 * records)
        for start, end, records in slices
    )
    return weigh(made.state, TOPIC, PartitionIndex(0), offsets(slices[0][0], slices[-1][1]))


def test_a_compacted_range_is_cut_by_its_records_not_its_offsets() -> None:
    range_ = thinned((0, 1_000, 10), (1_000, 2_000, 10), (2_000, 2_020, 20))
    assert range_.records == 40
    (tasks,) = pack([range_], 1 << 30, 40)
    assert [(each.start, each.end) for each in tasks] == [(0, 2_020)]
    tasks_of_ten = pack([range_], 1 << 30, 10)
    assert [(each.start, each.end, each.records) for (each,) in tasks_of_ten] == [
        (0, 1_000, 10),
        (1_000, 2_000, 10),
        (2_000, 2_010, 10),
        (2_010, 2_020, 10),
    ]
    assert sum(each.size_bytes for (each,) in tasks_of_ten) == range_.size_bytes


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6),
    st.integers(1, 50),
    st.integers(1, 12),
)
def test_tasks_of_compacted_slices_cover_the_range_once(
    given_slices: list[tuple[int, int]], most: int, min_tasks: int
) -> None:
    slices, at = [], 0
    for width, records in given_slices:
        slices.append((at, at + width, min(width, records)))
        at += width
    range_ = thinned(*slices)
    assert range_.records == sum(records for _, _, records in slices)
    pieces = [piece for task in pack([range_], 1 << 30, most, min_tasks) for piece in task]
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == at
    assert all(piece.start < piece.end and piece.records <= most for piece in pieces)
    assert len(pieces) >= min(min_tasks // 2, range_.records)


# ---- gaps between slices ------------------------------------------------------------------------------


def test_a_gap_between_slices_makes_no_tasks() -> None:
    """Such as that of a mirror topic that was promoted to a later end."""
    far = 1 << 60
    range_ = thinned((0, 20, 20), (far, far + 20, 20))
    assert range_.records == 40
    assert [(each.start, each.end, each.records) for (each,) in pack([range_], 1 << 30, 10)] == [
        (0, 10, 10),
        (10, far, 10),
        (far, far + 10, 10),
        (far + 10, far + 20, 10),
    ]
    assert len(pack([range_], 1 << 30, 1_000, min_tasks=4)) == 4


@pytest.mark.parametrize(("most", "min_tasks"), [(None, None), (10, None), (10, 3), (None, 3)])
def test_a_range_in_a_gap_is_in_one_task(most: int | None, min_tasks: int | None) -> None:
    """Its records may have been given up: the task that reads it raises the error."""
    log = DecidedLog()
    gap = weigh(log.state, TOPIC, PartitionIndex(0), offsets(5, 1 << 60))
    assert gap.records == gap.size_bytes == 0
    assert pack([gap], 1 << 30, most, min_tasks) == [[gap]]
