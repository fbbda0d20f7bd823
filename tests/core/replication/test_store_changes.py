"""A store that is fenced, loses data, comes back or falls silent (rules E1, E2, F2, S1)."""

from __future__ import annotations

import pytest

from sparklog.core.errors import NotLeaderOrFollower
from sparklog.core.replication.partition import Replication, ReplicationChange
from sparklog.core.replication.replica_invariants import check, check_step
from sparklog.core.replication.store_changes import fence, lose, min_isr_changed, reachable_changed
from sparklog.core.types import Offset, StoreId
from tests.core.replication.example_partition import ends, offsets, partition, roles, stores

A, B, C = stores(*"abc")
EQUAL = {"a": 9, "b": 9, "c": 9}


def fenced(value: Replication, store: StoreId, reachable: str = "abc", min_isr: int = 2) -> Replication:
    after = fence(value, store, stores(*reachable), min_isr).after
    check(after, min_isr)
    check_step(value, after, min_isr)
    return after


def test_a_fenced_follower_leaves_the_isr_and_hw_goes_on() -> None:
    after = fenced(partition({"a": 9, "b": 5, "c": 7}, "abc", hw=5), B)
    assert (roles(after), after.high_watermark, after.leader_epoch, after.version) == ("a:ac", 7, 0, 8)


def test_a_fenced_leader_is_followed_in_the_same_entry() -> None:
    value = partition({"a": 9, "b": 5, "c": 7}, "abc", hw=5)
    change = fence(value, A, stores(*"abc"), 2)
    assert (roles(change.after), change.forgotten, change.after.version) == ("b:bc", offsets(5, 9), 8)
    check_step(value, change.after, 2)


def test_e2_with_all_stores_fenced_one_after_another_the_last_in_sync_ones_stay_eligible() -> None:
    """The ISR was large enough without a, so a is out; b and c have everything that is committed."""
    value = fenced(partition({"a": 8, "b": 9, "c": 9}, "bc", leader="b", hw=9), B, "bc")
    value = fenced(value, C, "c")
    assert roles(value) == "-:+bc"
    assert roles(reachable_changed(value, (A,), 2).after) == "-:+bc"
    back = reachable_changed(value, (C,), 2).after
    assert (roles(back), back.leader_epoch) == ("c:c+b", 2)


def test_e1_a_fenced_store_that_lacks_nothing_committed_leads_when_it_is_the_first_to_be_back() -> None:
    """a is neither in sync nor eligible: two others were, when they went. It has everything below HW all the same."""
    value = partition(EQUAL, "abc", hw=9)
    for store, reachable in ((A, "abc"), (B, "bc"), (C, "c")):
        value = fenced(value, store, reachable)
    assert roles(value) == "-:+bc"
    assert roles(reachable_changed(value, (A,), 2).after) == "a:a+bc"


def test_a_store_without_a_replica_changes_nothing_by_its_fencing() -> None:
    value = partition(EQUAL, "abc", hw=9)
    assert fenced(value, StoreId("d")) == value


def test_unclean_a_partition_goes_on_with_what_is_left() -> None:
    value = partition({"a": 9, "b": 4, "c": 3}, "a", hw=9)
    change = fence(value, A, stores(*"bc"), 1, unclean=True)
    assert (roles(change.after), change.after.lost) == ("b:b", (offsets(4, 9),))


# ---- loss -----------------------------------------------------------------------------------------


def lost(
    value: Replication, store: StoreId, held_end: int, min_isr: int = 2, *, unclean: bool = False
) -> ReplicationChange:
    change = lose(value, store, Offset(held_end), stores(*"abc"), min_isr, unclean=unclean)
    check(change.after, min_isr)
    check_step(value, change.after, min_isr)
    return change


def test_s1_a_wiped_follower_leaves_the_isr_and_has_nothing() -> None:
    after = lost(partition(EQUAL, "abc", hw=9, start=2), B, 0).after
    assert (roles(after), ends(after), after.version) == (
        "a:ac",
        "a9 b2 c9",
        8,
    )  # nothing below the log start is missed


def test_s1_a_wiped_leader_is_followed_by_one_that_has_everything() -> None:
    change = lost(partition({"a": 9, "b": 7, "c": 9}, "abc", hw=7), A, 0)
    assert (roles(change.after), ends(change.after)) == ("b:bc", "a0 b9 c9")
    assert change.forgotten == offsets(7, 9)


def test_e2_who_lost_records_is_not_eligible() -> None:
    assert roles(lost(partition(EQUAL, "ab", hw=9), B, 8).after) == "a:a"
    eligible = partition({"a": 9, "b": 9, "c": 3}, "", leader=None, hw=9, elr="ab")
    assert roles(lose(eligible, B, Offset(0), (), 2).after) == "-:+a"


def test_f2_even_a_loss_that_the_leo_does_not_show_takes_the_store_out() -> None:
    """Only [9, 12) is missing, which it held beyond its LEO: its registration is a new one all the same."""
    value = partition({"a": 12, "b": 9}, "ab", hw=9)
    after = lost(value, B, 9, 1).after
    assert (roles(after), ends(after), after.version) == ("a:a", "a12 b9", 8)


def test_f2_a_loss_is_a_new_version_even_outside_the_isr() -> None:
    """Its reports under way were made before, and say that it holds what is gone."""
    assert lost(partition({"a": 9, "b": 9, "c": 5}, "ab", hw=9), C, 5).after.version == 8


def test_f2_a_loss_raises_no_leo() -> None:
    assert ends(lost(partition({"a": 9, "b": 5}, "ab", hw=5), B, 8, 1).after) == "a9 b5"


def test_a_loss_of_the_only_in_sync_replica_takes_the_partition_offline() -> None:
    value = partition({"a": 8, "b": 9, "c": 4}, "b", leader="b", hw=9)
    assert roles(lost(value, B, 6, 1).after) == "-:"
    change = lost(value, B, 6, 1, unclean=True)
    assert (roles(change.after), change.after.lost) == ("a:a", (offsets(8, 9),))


def test_e1_after_a_loss_a_replica_outside_the_isr_leads_if_it_lacks_nothing_committed() -> None:
    value = partition({"a": 9, "b": 9, "c": 4}, "b", leader="b", hw=9)
    assert roles(lost(value, B, 6, 1).after) == "a:a"


def test_e1_a_store_whose_loss_left_all_that_is_committed_leads_again() -> None:
    """Its mark is a new one, or what it lost lies above HW: it has a new registration, and everything below HW."""
    change = lost(partition({"a": 9, "b": 4}, "a", hw=6), A, 7, 1)
    assert (roles(change.after), change.after.leader_epoch, change.forgotten) == ("a:a", 1, offsets(7, 9))


def test_e1_the_stores_of_a_topic_without_a_record_may_all_be_wiped() -> None:
    value = partition({"a": 0, "b": 0}, "ab", hw=0)
    for store in (A, B):
        value = lost(value, store, 0).after
    assert value.leader == "a"


def test_a_store_without_a_replica_can_not_lose_any() -> None:
    with pytest.raises(NotLeaderOrFollower):
        lose(partition(EQUAL, "abc", hw=9), StoreId("d"), Offset(0), (), 2)


# ---- silence and return ---------------------------------------------------------------------------


def test_a_silent_leader_stays_until_somebody_may_follow_it() -> None:
    value = partition({"a": 9, "b": 9, "c": 8}, "ab", hw=9)
    assert reachable_changed(value, (C,), 2).after == value
    assert roles(reachable_changed(value, (B, C), 2).after) == "b:ab"
    assert roles(reachable_changed(partition(EQUAL, "ab", hw=9), (C,), 2).after) == "c:abc"  # which has everything


def test_a_leader_that_can_be_reached_stays() -> None:
    value = partition({"a": 9, "b": 9, "c": 9}, "abc", hw=9, leader="c")
    assert reachable_changed(value, (A, B, C), 2).after == value


def test_a_lower_min_isr_lets_hw_move_and_a_higher_one_never_takes_it_back() -> None:
    value = partition({"a": 9, "b": 5, "c": 7}, "ac", hw=5, elr="b")
    lower = min_isr_changed(value, 2)
    assert (roles(lower), lower.high_watermark) == ("a:ac", 7)
    higher = min_isr_changed(lower, 3)
    assert (roles(higher), higher.high_watermark) == ("a:ac", 7)


def test_a_lower_min_isr_elects_nobody() -> None:
    value = partition({"a": 9, "b": 9}, "", leader=None, hw=9, elr="ab")
    assert roles(min_isr_changed(value, 1)) == "-:+ab"
