"""No LEO stops at a gap: behind one there is nothing to copy, so no agent would ever report the replica (L-03)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import InvalidInput
from sparklog.core.placement.replica_fetch import replica_reports, unfinished_replicas
from sparklog.core.types import Holder, Offset, PartitionIndex, StoreId
from tests.core.replicated_log import TOPIC, ReplicatedLog

D = StoreId("d")


@pytest.fixture
def log() -> ReplicatedLog:
    """[0, 4) is on a, b and c; [4, 7) was forgotten; d has no replica."""
    made = ReplicatedLog()
    made.register("d")
    made.write("abc", 4)
    made.write_to_leader("a", 3)
    made.fence("a")
    made.register("a")
    assert (made.replicas(), made.bounds()) == ("b:bc a7 b7 c7 hw7", [(0, 4)])
    return made


def retain(log: ReplicatedLog, to: int) -> None:
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(to)))


def joins_without_a_copy(log: ReplicatedLog, store: str) -> bool:
    """What the store's agent reports with nothing copied brings the replica into the ISR."""
    at = unfinished_replicas(log.state, StoreId(store))
    for each in replica_reports(log.state, StoreId(store), at, ()):
        log.report(store, each.log_end, each.partition)
    return store in log.value().isr


@pytest.mark.parametrize("log_start", [4, 5])
@pytest.mark.parametrize("more", [False, True])
def test_a_new_replica_begins_behind_a_gap_at_the_log_start(log: ReplicatedLog, log_start: int, more: bool) -> None:
    if more:
        log.write("bc", 2)
    retain(log, log_start)
    log.move("bcd")
    assert log.value().log_end(D) == 7
    assert joins_without_a_copy(log, "d") is not more


def test_a_replica_is_behind_the_gap_that_retention_leaves_it_at(log: ReplicatedLog) -> None:
    log.move("abcd")
    assert log.value().log_end(D) == 0
    retain(log, 4)
    assert log.value().log_end(D) == 7
    assert joins_without_a_copy(log, "d")


def test_a_replica_with_a_rewritten_object_is_behind_the_gap_that_follows(log: ReplicatedLog) -> None:
    log.move("abcd")
    command = log.swap_of(0, 4)
    holders = tuple(Holder(StoreId(each), log.registration(each)) for each in "bcd")
    log.submit(replace(command, objects=(replace(command.objects[0], holders=holders),)))
    assert log.value().log_end(D) == 7
    assert joins_without_a_copy(log, "d")


def test_a_swap_over_a_gap_is_refused(log: ReplicatedLog) -> None:
    """What an election gave up would no longer be seen as lost."""
    log.write("bc", 2)
    with pytest.raises(InvalidInput, match=r"a rewrite covers no gap, found one in \[0, 9\)"):
        log.submit(log.swap_of(0, 9))


def test_a_wiped_store_lacks_no_more_than_there_is(log: ReplicatedLog) -> None:
    retain(log, 4)
    log.lose("c", wiped=True)
    assert log.replicas() == "b:b a7 b7 c7 hw7"
    assert joins_without_a_copy(log, "c")
    for each in "abc":
        log.lose(each, wiped=True)
    assert log.value().leader is not None  # nothing that anybody had is gone
