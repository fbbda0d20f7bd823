"""A log of compacted slices with gaps, a rolled one and one of an append, read through a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklog.client.cluster import Cluster
from sparklog.core import state_invariants
from sparklog.core.commands import MoveLogStart
from sparklog.core.maintenance.retention_rule import plan_retention
from sparklog.core.types import Offset, PartitionIndex, TopicId
from tests.client.compacting import KEPT, TIMES_US, compact_range, mixed_log
from tests.kit.log import new_cluster


def a_cluster() -> Cluster:
    made = new_cluster()
    mixed_log(made)
    return made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """It is only read."""
    with a_cluster() as made:
        yield made


@pytest.mark.parametrize("columns", [["offset"], ["offset", "value"], ["value"], ["timestamp", "offset"]])
def test_every_range_has_the_records_that_are_left(cluster: Cluster, columns: list[str]) -> None:  # M: S-03 S-04
    for start in range(0, 61, 3):
        for end in range(start, 61, 4):
            found = cluster.read("t", partition=0, start=start, end=end, columns=columns).to_pydict()
            left = [offset for offset in KEPT if start <= offset < end]
            assert found.get("offset", left) == left
            assert found.get("value", [b"v%d" % at for at in left]) == [b"v%d" % at for at in left]


def test_look_ups_by_time_find_what_is_left(cluster: Cluster) -> None:  # M: S-05
    for at_us in range(0, 62_000_000, 500_000):
        model = [offset for offset in KEPT if TIMES_US[offset] >= at_us]
        assert cluster.offset_for_time("t", 0, at_us) == (model[0] if model else None)


def test_the_last_records_are_counted_not_their_offsets(cluster: Cluster) -> None:
    for count in range(1, len(KEPT) + 1):
        assert cluster.offset_of_last("t", 0, count) == KEPT[-count]
    assert cluster.offset_of_last("t", 0, 0) == 60
    assert cluster.offset_of_last("t", 0, 10**30) == 0


def test_records_are_counted_not_their_offsets(cluster: Cluster) -> None:
    assert cluster.describe("t").records == len(KEPT)
    state = cluster.connection.newest_state()
    state_invariants.check(state)
    assert [(each.start, each.end, each.records) for each in state.slices.everything()] == [
        (0, 20, 6),
        (20, 40, 2),
        (40, 50, 10),
        (50, 60, 10),
    ]


def test_a_log_start_inside_a_gap_leaves_the_records_above_it() -> None:
    with a_cluster() as made:
        made.submit(MoveLogStart(TopicId(1), PartitionIndex(0), Offset(18)))
        assert made.read("t", partition=0)["offset"].to_pylist() == KEPT[6:]
        assert made.offset_of_last("t", 0, 23) == 18, "there are only 22"
        assert made.describe("t").records in range(22, 25), "of the slice that is cut, as many count as there may be"


def test_retention_counts_the_records_that_go() -> None:
    with a_cluster() as made:
        made.alter("t", config={"retention.bytes": 1})
        state = made.connection.newest_state()
        topic = state.topics[TopicId(1)]
        cut = plan_retention(state, topic, state.partitions_of(topic)[0], 0)
        assert cut is not None
        assert (cut.to, cut.slices, cut.records) == (50, 3, 18)


def test_what_was_compacted_is_compacted_again() -> None:
    with a_cluster() as made:
        compact_range(made, "t", 0, (0, 50), lambda offset: offset % 2 == 1)
        left = [offset for offset in KEPT if offset % 2 == 1 or offset >= 50]
        assert made.read("t", partition=0)["offset"].to_pylist() == left
        state = made.connection.newest_state()
        state_invariants.check(state)
