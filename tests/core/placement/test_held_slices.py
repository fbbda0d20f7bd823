"""Who holds the slices of a partition, after what happened to its replicas and stores."""

from __future__ import annotations

import pytest

from sparklog.core.commands import AgentDown, DeleteTopic, MoveLogStart
from sparklog.core.maintenance.object_samples import sampled_objects
from sparklog.core.placement.held_slices import Holding
from sparklog.core.reading.plan import plan_range
from sparklog.core.types import Offset, OffsetRange, PartitionIndex, StoreId
from tests.core.replicated_log import TOPIC, ReplicatedLog


@pytest.fixture
def log() -> ReplicatedLog:
    """[0, 2) on a, b and c, [2, 4) on a and b, [4, 6) on a; store d has no replica."""
    made = ReplicatedLog(stores="abcd")
    for on in ("abc", "ab", "a"):
        made.write_to_leader(on, 2)
    return made


def holding(log: ReplicatedLog) -> list[str]:
    """The stores that a reader of each slice tries, in order."""
    topic = log.state.topics[TOPIC]
    value = log.value()
    planned = plan_range(log.state, topic, 0, OffsetRange(value.log_start, value.next_offset))
    return ["".join(part.stores) for part in planned.slices]


def test_a_slice_is_read_where_it_was_put(log: ReplicatedLog) -> None:
    assert holding(log) == ["abc", "ab", "a"]


def test_a_copy_that_was_reported_is_read_too(log: ReplicatedLog) -> None:
    log.report("c", 6)
    assert holding(log) == ["abc", "abc", "ac"]


def test_what_a_wiped_store_had_is_not_looked_for_there(log: ReplicatedLog) -> None:
    log.report("b", 6)
    log.lose("a", wiped=True)
    assert holding(log) == ["bc", "b", "b"]


def test_a_store_that_lost_some_holds_by_number_what_lies_above_no_more(log: ReplicatedLog) -> None:
    """b was named for [2, 4), under a registration that is not valid any more."""
    log.lose("b", (0, 2))
    assert holding(log)[:2] == ["acb", "a"]


def test_fenced_and_silent_stores_are_tried_last(log: ReplicatedLog) -> None:
    log.report("b", 6)
    log.report("c", 6)
    log.submit(AgentDown(StoreId("b"), log.registration("b")))
    assert holding(log) == ["acb"] * 3
    log.fence("a")
    assert holding(log) == ["cba"] * 3  # c alone can be reached, and b is in sync


def test_a_store_without_a_replica_holds_nothing(log: ReplicatedLog) -> None:
    log.report("b", 6)
    log.report("c", 6)
    log.move("bcd")
    log.report("d", 6)
    assert holding(log) == ["bcd"] * 3


def test_samples_and_plans_say_the_same(log: ReplicatedLog) -> None:
    samples = {sample.slice.start: "".join(sample.stores) for sample in sampled_objects(log.state, 9)}
    assert [samples[start] for start in (0, 2, 4)] == holding(log)


def test_the_short_way_says_what_the_rule_says(log: ReplicatedLog) -> None:
    found = Holding(log.state, log.partition())
    assert [found.of(Offset(end), ()) for end in (1, 2)] == [("a", "b", "c")] * 2
    assert found.of(Offset(3), ()) == ("a", "b")


# ---- what is retired ----------------------------------------------------------------------------------


def test_what_is_retired_remembers_every_store_that_may_have_a_copy(log: ReplicatedLog) -> None:
    """a is named, b and c got copies, d came and a went."""
    for each in "bc":
        log.report(each, 6)
    log.move("bcd")
    log.report("d", 6)
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(2)))
    (retired,) = log.state.retired
    assert retired.stores == ("a", "b", "c", "d")
    log.submit(DeleteTopic(TOPIC))
    assert {each.stores for each in log.state.retired} == {("a", "b", "c", "d")}
