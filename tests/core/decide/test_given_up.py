"""Records that are given up: which store may still have them, and a partition without a leader gets one again (E1)."""

from __future__ import annotations

import msgspec
import pytest

from sparklog.core.commands import MoveLogStart
from sparklog.core.errors import EligibleLeadersNotAvailable, NoReplicaOnline, NotEnoughReplicas, SwapRefused
from sparklog.core.types import Holder, Offset, OffsetRange, PartitionIndex
from tests.core.decided_log import TOPIC
from tests.core.replicated_log import ReplicatedLog
from tests.core.replication.example_partition import stores


def give_up(log: ReplicatedLog, start: int, end: int) -> None:
    log.submit(log.give_up_of(start, end))


def lost_everywhere(*ends: int) -> ReplicatedLog:
    """Slices [0, 4), [4, 7), [7, 9) on three stores, each of which then finds that its log ends earlier."""
    log = ReplicatedLog()
    for records in (4, 3, 2):
        log.write("abc", records)
    for store, end in zip("abc", ends, strict=True):
        log.lose(store, (0, end))
    return log


# M: P-06
def test_without_a_leader_records_that_nobody_has_can_be_given_up_and_a_replica_leads_again() -> None:
    log = lost_everywhere(0, 0, 0)
    assert log.replicas() == "-: a0 b0 c0 hw9"
    give_up(log, 0, 4)
    assert log.replicas() == "-: a4 b4 c4 hw9", "nobody lacks what nobody has"
    log.report("b", 9)
    assert log.replicas() == "b:b a4 b9 c4 hw9", "what was there behind the lost object is committed still"
    log.report("a", 9)
    assert log.replicas() == "b:ab a9 b9 c4 hw9"
    assert log.value().lost == (OffsetRange(Offset(0), Offset(4)),)
    log.write("ab")
    assert log.value().high_watermark == 10


def test_after_the_last_object_was_given_up_a_clean_election_is_possible() -> None:
    log = lost_everywhere(7, 7, 7)
    with pytest.raises(EligibleLeadersNotAvailable):
        log.elect()
    give_up(log, 7, 9)
    assert log.replicas() == "-: a9 b9 c9 hw9"
    log.elect()
    assert log.replicas() == "a:a a9 b9 c9 hw9"
    assert log.bounds() == [(0, 4), (4, 7)]


@pytest.mark.parametrize("order", [(0, 4), (4, 0)], ids=["ascending", "descending"])
def test_lost_objects_next_to_each_other_go_in_any_order(order: tuple[int, int]) -> None:
    log = lost_everywhere(0, 4, 0)
    for start in order:
        give_up(log, start, {0: 4, 4: 7}[start])
    assert log.replicas() == "-: a7 b7 c7 hw9"
    assert log.value().lost == (OffsetRange(Offset(0), Offset(7)),)


def test_a_replica_that_has_less_or_more_keeps_its_end() -> None:
    log = lost_everywhere(0, 7, 4)
    give_up(log, 4, 7)
    assert log.replicas() == "-: a0 b7 c7 hw9"


def test_with_an_eligible_replica_missing_nothing_is_given_up_below_min_isr() -> None:
    """b and c are away with everything: each may lead when it is back."""
    log = ReplicatedLog()
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.fence("c")
    log.fence("b")
    log.lose("a", (0, 0))
    assert log.replicas() == "-:+b a0 b4 c4 hw4", "c left while two were in sync, and has everything, too"
    with pytest.raises(NotEnoughReplicas, match=r"\[\(0, 4\)\] can't be given up: stores \['b', 'c'\] are fenced"):
        give_up(log, 0, 4)
    log.register("b")
    assert log.replicas() == "b:b a0 b4 c4 hw4"


def test_without_a_leader_a_fenced_store_may_have_more_than_the_chain_says() -> None:
    """Its log ends before an object that it lost. The next one may be on no other store."""
    log = lost_everywhere(0, 4, 4)
    log.fence("a")
    with pytest.raises(NotEnoughReplicas, match=r"stores \['a'\] are fenced"):
        give_up(log, 4, 7)
    log.register("a")
    give_up(log, 4, 7)
    assert log.replicas() == "-: a0 b7 c7 hw9"


def test_with_a_leader_a_fenced_store_counts_if_it_has_the_records_by_the_chain() -> None:
    log = ReplicatedLog()
    log.write("abc", 4)
    log.fence("c")
    log.write("ab", 3)
    with pytest.raises(NotEnoughReplicas, match=r"stores \['c'\] are fenced"):
        give_up(log, 0, 4)
    give_up(log, 4, 7)
    assert log.replicas() == "a:ab a7 b7 c7 hw7"


def test_without_a_leader_nothing_is_rewritten() -> None:
    log = lost_everywhere(4, 4, 4)
    swap = log.swap_of(0, 4)
    holders = tuple(Holder(each, log.registration(each)) for each in stores("a", "b", "c"))
    swap = msgspec.structs.replace(swap, objects=(msgspec.structs.replace(swap.objects[0], holders=holders),))
    with pytest.raises(NoReplicaOnline):
        log.submit(swap)
    half = OffsetRange(Offset(2), Offset(4))
    (slice_,) = swap.slices
    part = msgspec.structs.replace(slice_, end=Offset(2), new=msgspec.structs.replace(slice_.new, records=2))
    with pytest.raises(NoReplicaOnline):
        log.submit(msgspec.structs.replace(swap, slices=(part,), lost=(half,)))


def test_what_was_never_committed_is_not_given_up() -> None:
    log = ReplicatedLog()
    log.configure(min_insync_replicas="2")
    log.write("abc", 4)
    log.write_to_leader("a", 3)
    for store in "cba":
        log.lose(store, (0, 0))
    assert log.replicas() == "-: a0 b0 c0 hw4"
    with pytest.raises(SwapRefused, match="above its high watermark 4"):
        give_up(log, 4, 7)
    give_up(log, 0, 4)
    log.elect("b")
    assert log.replicas() == "b:b a7 b7 c7 hw4", "and the next leader forgets it"
    log.configure(min_insync_replicas="1")
    log.submit(MoveLogStart(TOPIC, PartitionIndex(0), Offset(7)))
    assert (log.value().lost, log.bounds()) == ((), [])
