"""The cases of Spark's KafkaOffsetRangeCalculatorSuite, by their names there; docs/compat.md lists what differs."""

from __future__ import annotations

import pytest

from sparklog.core.reading.plan import WeighedRange, pack
from sparklog.core.types import Offset, PartitionIndex, TopicId

Range = tuple[int, int, int]  # partition, start, end

CASES: list[tuple[str, int | None, list[Range], list[list[Range]]]] = [
    ("with no minPartition: N TopicPartitions to N offset ranges", None, [(1, 1, 2)], [[(1, 1, 2)]]),
    ("with no minPartition: empty ranges ignored", None, [(1, 1, 2), (2, 1, 1)], [[(1, 1, 2)]]),
    (
        "N TopicPartitions to N offset ranges",
        3,
        [(1, 1, 2), (2, 1, 2), (3, 1, 2)],
        [[(1, 1, 2)], [(2, 1, 2)], [(3, 1, 2)]],
    ),
    ("1 TopicPartition to N offset ranges", 4, [(1, 1, 5)], [[(1, at, at + 1)] for at in range(1, 5)]),
    (
        "N skewed TopicPartitions to M offset ranges",
        4,
        [(1, 1, 5), (2, 1, 21)],
        [[(1, 1, 5)], [(2, 1, 7)], [(2, 7, 14)], [(2, 14, 21)]],
    ),
    (
        "SPARK-30656: ignore empty ranges and split the rest",
        4,
        [(1, 1, 1), (2, 1, 21)],
        [[(2, at, at + 5)] for at in (1, 6, 11, 16)],
    ),
    (
        "SPARK-30656: N very skewed TopicPartitions to M offset ranges",
        4,
        [(1, 1, 2), (2, 1, 1001)],
        [[(1, 1, 2)], [(2, 1, 334)], [(2, 334, 667)], [(2, 667, 1001)]],
    ),
    (
        "SPARK-30656: minPartitions less than the length of topic partitions",
        1,
        [(1, 1, 5), (2, 1, 21)],
        [[(1, 1, 5), (2, 1, 21)]],  # differs: small ranges share a task
    ),
    ("range inexact multiple of minPartitions", 3, [(1, 1, 11)], [[(1, 1, 4)], [(1, 4, 7)], [(1, 7, 11)]]),
    (
        "empty ranges ignored",
        4,
        [(1, 1, 5), (2, 1, 21), (3, 1, 1)],
        [[(1, 1, 5)], [(2, 1, 7)], [(2, 7, 14)], [(2, 14, 21)]],
    ),
    (
        "SPARK-28489: never drop offsets",
        6,
        [(1, 0, 10), (2, 0, 10), (3, 0, 1)],
        [[(at, *each)] for at in (1, 2) for each in ((0, 3), (3, 6), (6, 10))] + [[(3, 0, 1)]],
    ),
    (
        "SPARK-36576: 0 small unsplit ranges and 3 large split ranges",
        9,
        [(1, 0, 10_000), (2, 0, 15_000), (3, 0, 20_000)],
        [[(at, start, start + 5_000)] for at in (1, 2, 3) for start in range(0, 5_000 + 5_000 * at, 5_000)],
    ),
    (
        "SPARK-36576: 1 small unsplit range and 2 large split ranges",
        6,
        [(1, 0, 500), (2, 0, 12_000), (3, 0, 15_001)],
        [
            [(1, 0, 500)],
            [(2, 0, 6_000)],
            [(2, 6_000, 12_000)],
            [(3, 0, 5_000)],
            [(3, 5_000, 10_000)],
            [(3, 10_000, 15_001)],
        ],
    ),
    (
        "SPARK-36576: 2 small unsplit ranges and 1 large split range",
        6,
        [(1, 0, 1), (2, 0, 1), (3, 0, 10_000)],
        [[(1, 0, 1)], [(2, 0, 1)], *([(3, start, start + 2_500)] for start in range(0, 10_000, 2_500))],
    ),
]


@pytest.mark.parametrize(("tasks", "given", "wanted"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_ranges_are_divided_as_the_connector_does(
    tasks: int | None, given: list[Range], wanted: list[list[Range]]
) -> None:
    ranges = [WeighedRange(TopicId(1), PartitionIndex(at), Offset(low), Offset(high), 0) for at, low, high in given]
    found = pack(ranges, 1 << 27, min_tasks=tasks)
    assert [[(each.partition, each.start, each.end) for each in task] for task in found] == wanted
